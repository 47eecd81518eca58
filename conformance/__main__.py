"""`python -m conformance` is `acp-conformance`."""

from conformance.cli import main

main()
