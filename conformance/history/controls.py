"""The control events: all that the suite tells the rules about what it did, one name and its fields each.

A recording made by others has none of them; no rule may need one to find a violation that the wire alone proves.
Each is a JSON object {"event": NAME, ...fields}. `session` is a sessionId, `id` a JSON-RPC id, `seconds` are seconds.
"""

from typing import Final

# -- what was set up
PROFILE: Final = "profile"
"""First event of a driven history: triggers {name: text}, sessions {shared, survives-restart}, model (an api name or
null), patience, hold_window, quiet_window (seconds)."""

STARTED: Final = "started"
"""A connection began: transport ("stdio" | "websocket"), restart_of (name of the earlier connection, or null)."""

# -- how a connection ended
CLOSED: Final = "closed"
"""We closed it in an orderly way (stdin closed, websocket close)."""
CUT: Final = "cut"
"""We dropped it without a goodbye."""
DISCONNECTED: Final = "disconnected"
"""The peer's side of the stream ended, and not because we closed or cut it."""
EXITED: Final = "exited"
"""The process ended: code (int or null), signal (name or null), by_itself (false when we terminated or killed it)."""
LINGERED: Final = "lingered"
"""Alive `seconds` after its stdin was closed, and terminated by us then."""
LEFTOVER: Final = "leftover"
"""Processes of its group were alive after it had exited: count."""
LIMIT: Final = "limit"
"""A limit of the suite was reached: limit (name), value; what came after it was cut."""
MEMORY: Final = "memory"
"""What the agent's process holds after one more round of the same steps: bytes (resident), round (from 1)."""

# -- what a scenario did
SUBMITS: Final = "submits"
"""Just before a session/prompt: id, session, nonce (or null), alias, trigger (or null), exact (same text as an
earlier one), refusable (why the agent may or must refuse it, or null)."""
WAITED: Final = "waited"
"""A wait ran out of patience: for ("response" | "idle" | "update" | ...), session, id, seconds."""
WINDOW: Final = "window"
"""A window passed: kind ("quiet" | "hold"), session, began (seq), seconds. It ends with an answered barrier request."""
NOT_BROUGHT_ABOUT: Final = "not-brought-about"
"""The situation did not arise: why."""
LATE_ANSWER: Final = "late-answer"
"""A held request of the agent is answered on purpose after its work was cancelled: id."""

# -- the scripted model
MODEL_REQUEST: Final = "model-request"
"""number, api, nonce (or null), group (session alias or null), side (true for titles, summaries, routers), last_user
(true when the prompt with that nonce is the last user message of the request), tail (a digest of all that follows the
nonce: what asks for the same again has the same)."""
MODEL_HELD: Final = "model-held"
MODEL_RELEASED: Final = "model-released"
MODEL_ANSWERED: Final = "model-answered"
"""number, how ("say" | "call-tool" | "fail" | "drop" | "end-early" | "garbage" | ...), status, injected (true for a
failure)."""
TOOL_EFFECT: Final = "tool-effect"
"""The effect of a tool was seen (a file that a denied command was to write): nonce or tool call, detail."""
