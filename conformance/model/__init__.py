"""The scripted model: agents do nothing without one, so the suite serves one whose every word a scenario decides."""

from conformance.model.replies import AUTO, PLAIN, Reply
from conformance.model.server import ScriptedModel

__all__ = ["AUTO", "PLAIN", "Reply", "ScriptedModel"]
