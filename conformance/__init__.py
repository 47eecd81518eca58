"""acp-conformance: a conformance suite and protocol fuzzer for the Agent Client Protocol, version 2."""

__version__ = "0.1.0"
