"""Why an agent may or must refuse a prompt for its own sake: read from the prompt and from what the agent
advertised."""

from typing import Any, Final

from conformance.conversation import Connection, Submission

ADVERTISED_BY: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
"""Content block type -> the capability under session.prompt that stands for it (schema PromptCapabilities)."""
BASELINE: Final = ("text", "resource_link")
"""Types that every agent accepts (schema PromptRequest)."""


def block_types(submission: Submission) -> list[Any]:
    return [block.get("type") if isinstance(block, dict) else None for block in submission.blocks]


def is_supported(connection: Connection, block_type: Any) -> bool | None:
    """Whether the agent said that it takes this type; None for a custom type, and where its initialize was not
    recorded, or has another marker than an object (init.capability-markers): nobody can tell."""
    if block_type in BASELINE:
        return True
    if isinstance(block_type, str) and block_type in ADVERTISED_BY:
        if connection.initialized is None:
            return None
        capability = f"session.prompt.{ADVERTISED_BY[block_type]}"
        return connection.advertises(capability) or (False if connection.leaves_out(capability) else None)
    return None if isinstance(block_type, str) and block_type.startswith("_") else False


def unsupported_types(submission: Submission) -> list[str]:
    """Block types of the prompt that the agent must refuse."""
    connection = submission.request.connection
    return [
        str(kind)
        for kind in block_types(submission)
        if isinstance(kind, str) and is_supported(connection, kind) is False
    ]


def why_refusable(submission: Submission) -> str | None:
    """In words, why the agent may refuse this prompt for its own sake; None where it has no such reason."""
    if submission.refusable is not None:
        return submission.refusable
    if submission.trigger == "fail-before-insertion":
        return "this prompt is to fail before insertion"
    params = submission.request.params
    prompt = params.get("prompt") if isinstance(params, dict) else None
    if not isinstance(prompt, list):
        return "this request has no prompt array"
    if not prompt:
        return "this prompt is empty"
    if types := unsupported_types(submission):
        return f"this prompt has a block of type {types[0]!r}, which the agent does not support"
    connection = submission.request.connection
    if submission.session.id not in connection.known_sessions and not submission.session.views:
        return "this prompt names a session that was never there"
    if not all(_is_well_formed(block) for block in prompt):
        return "this prompt has a malformed block"
    return None


def _is_well_formed(block: Any) -> bool:
    from conformance.protocol.validation import params_problems

    probe = {"sessionId": "s", "prompt": [block]}
    return not params_problems("session/prompt", probe, "client")
