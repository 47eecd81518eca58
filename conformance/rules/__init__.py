"""The rules of the catalogue and the oracle that decides them. Pure: no I/O, no clock, no knowledge of scenarios."""

from conformance.rules import prompt, prompt_content, prompt_failure, state, state_ends, wire, wire_provoked, wire_responses
from conformance.rules.oracle import Judgement, Outcome, judge
from conformance.rules.registry import RULES, Finding, Kind, Level, Party, Rule

AREAS = (prompt, prompt_content, prompt_failure, state, state_ends, wire, wire_provoked, wire_responses)
"""The modules that register rules, in the catalogue's order."""

__all__ = ["AREAS", "RULES", "Finding", "Judgement", "Kind", "Level", "Outcome", "Party", "Rule", "judge"]
