"""The rules of the catalogue and the oracle that decides them. Pure: no I/O, no clock, no knowledge of scenarios."""

from conformance.rules.oracle import Judgement, Outcome, judge
from conformance.rules.registry import RULES, Finding, Kind, Level, Party, Rule

__all__ = ["RULES", "Finding", "Judgement", "Kind", "Level", "Outcome", "Party", "Rule", "judge"]
