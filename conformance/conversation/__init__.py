"""A history read once, in one linear pass, into the protocol's own terms."""

from conformance.conversation.calls import Permission, Terminal, ToolCall, ToolStep, task_of
from conformance.conversation.connections import Connection
from conformance.conversation.facts import (
    BUSY,
    FINAL_STATUSES,
    KNOWN_STOP_REASONS,
    MESSAGE_KINDS,
    OUTPUT,
    SETTLED,
    STANDARD_STATES,
    Message,
    Replay,
    Request,
    State,
    Update,
    Work,
    bare,
    text_after,
    text_of_blocks,
    whole_number,
)
from conformance.conversation.model_requests import ModelRequest, failed_at_last
from conformance.conversation.reader import read
from conformance.conversation.sessions import Session
from conformance.conversation.submissions import Submission, names_of_commands
from conformance.conversation.views import View
from conformance.conversation.whole import Conversation

__all__ = [
    "BUSY",
    "FINAL_STATUSES",
    "KNOWN_STOP_REASONS",
    "MESSAGE_KINDS",
    "OUTPUT",
    "SETTLED",
    "STANDARD_STATES",
    "Connection",
    "Conversation",
    "Message",
    "ModelRequest",
    "Permission",
    "Replay",
    "Request",
    "Session",
    "State",
    "Submission",
    "Terminal",
    "ToolCall",
    "ToolStep",
    "Update",
    "View",
    "Work",
    "bare",
    "failed_at_last",
    "names_of_commands",
    "read",
    "task_of",
    "text_after",
    "text_of_blocks",
    "whole_number",
]
