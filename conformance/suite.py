"""Every scenario as a test: `pytest --acp-agent CMD --pyargs conformance.suite`. See `conformance.pytest_plugin`."""

from collections.abc import Callable
from typing import Any


def test_scenario(
    acp_scenario: str, acp_play: Callable[..., Any], acp_fail_if_nonconformant: Callable[[Any], None]
) -> None:
    acp_fail_if_nonconformant(acp_play(acp_scenario))
