"""The wire: newline-delimited JSON and JSON-RPC 2.0 envelopes, sans-I/O.

Classifies whatever arrives, never raises, judges nothing.
"""

from conformance.wire.envelope import Envelope, Kind, envelope_of, read_envelope, request_key
from conformance.wire.json_text import encode, parse, shown
from conformance.wire.lines import LineReader

__all__ = ["Envelope", "Kind", "LineReader", "encode", "envelope_of", "parse", "read_envelope", "request_key", "shown"]
