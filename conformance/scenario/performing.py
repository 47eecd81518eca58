"""Performs steps in order: fills in the names of each, then lets its verb do it."""

from collections.abc import Sequence

from conformance.scenario.model import Step
from conformance.scenario.names import filled
from conformance.scenario.stage import Stage
from conformance.scenario.stops import Stop
from conformance.scenario.table import VERBS


async def perform(stage: Stage, steps: Sequence[Step]) -> None:
    """Raises a Stop, its place in the file added, where the scenario cannot go on."""
    for step in steps:
        try:
            given = {key: filled(value, stage.look_up) for key, value in step.arguments.items()}
            await VERBS[step.verb].perform(stage, given)
        except Stop as stop:
            if not stop.is_placed:
                stop.place(f"line {step.line}, {step.verb}")
            raise
