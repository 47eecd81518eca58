"""The rules of the catalogue and the oracle that decides them. Pure: no I/O, no clock, no knowledge of scenarios."""

from conformance.rules import (
    cancel,
    cancel_permissions,
    cancel_prompts,
    client,
    client_wire,
    clients,
    command,
    init,
    prompt,
    prompt_content,
    prompt_failure,
    replay,
    replay_content,
    replay_runs,
    replay_state,
    session,
    session_close,
    session_config,
    session_list,
    state,
    state_ends,
    tool,
    tool_content,
    wire,
    wire_provoked,
    wire_responses,
)
from conformance.rules.oracle import Judgement, Outcome, judge
from conformance.rules.registry import RULES, Finding, Kind, Level, Party, Rule

AREAS = (
    prompt,
    prompt_content,
    prompt_failure,
    command,
    state,
    state_ends,
    cancel,
    cancel_prompts,
    cancel_permissions,
    replay,
    replay_content,
    replay_runs,
    replay_state,
    clients,
    wire,
    wire_provoked,
    wire_responses,
    init,
    session,
    session_close,
    session_list,
    session_config,
    tool,
    tool_content,
    client,
    client_wire,
)
"""The modules that register rules, in the catalogue's order."""

__all__ = ["AREAS", "RULES", "Finding", "Judgement", "Kind", "Level", "Outcome", "Party", "Rule", "judge"]
