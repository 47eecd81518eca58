"""Steps that hold steps: side by side, again and again, once for each of some values."""

import asyncio
import math

from conformance.scenario.performing import perform
from conformance.scenario.shapes import Json, Key, ListOf, Number, Steps, Text
from conformance.scenario.stage import VARIABLES, Stage
from conformance.scenario.table import Given, verb


@verb(
    "parallel",
    "Performs lists of steps side by side; goes on when all are done",
    {"branches": Key(ListOf(Steps(), least=2), "The lists of steps", required=True)},
    short="branches",
)
async def parallel(stage: Stage, given: Given) -> None:
    tasks = [asyncio.create_task(perform(stage, steps)) for steps in given["branches"]]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


@verb(
    "repeat",
    "Performs steps a number of times; {round} counts from 1",
    {
        "times": Key(Number("a number", least=1), "How often", required=True),
        "within": Key(
            Number("a number of seconds", least=0.1, fraction=True),
            "No other round begins after so many seconds: for what a slow agent does rarely",
        ),
        "steps": Key(Steps(), "The steps", required=True),
    },
)
async def repeat(stage: Stage, given: Given) -> None:
    clock = asyncio.get_running_loop().time
    end = clock() + given.get("within", math.inf)
    for number in range(1, given["times"] + 1):
        if clock() < end:
            await _with(stage, given, {"round": number})


@verb(
    "for-each",
    "Performs steps once for each value; the value's name in braces stands for it",
    {
        "as": Key(Text("a name"), "The name of the value", required=True),
        "of": Key(Json("list"), "The values", required=True),
        "steps": Key(Steps(), "The steps", required=True),
    },
)
async def for_each(stage: Stage, given: Given) -> None:
    for number, value in enumerate(given["of"], 1):
        await _with(stage, given, {"round": number, given["as"]: value})


async def _with(stage: Stage, given: Given, names: dict[str, object]) -> None:
    token = VARIABLES.set({**VARIABLES.get({}), **names})
    try:
        await perform(stage, given["steps"])
    finally:
        VARIABLES.reset(token)
