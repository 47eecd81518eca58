"""Histories: events, the recorder that grows them, and the transcripts that keep them on disk."""

from conformance.history.events import Direction, Event, History
from conformance.history.recorder import Recorder
from conformance.history.redaction import Redactor
from conformance.history.transcript import TranscriptError, read_transcript

__all__ = ["Direction", "Event", "History", "Recorder", "Redactor", "TranscriptError", "read_transcript"]
