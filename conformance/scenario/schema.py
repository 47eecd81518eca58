"""The JSON Schema of scenario files, for editors; made of the same tables that the loader reads with.

`python -m conformance.scenario.schema` writes it to scenarios/scenario.schema.json; a test holds the two together.
"""

from pathlib import Path
from typing import Any, Final

from conformance.scenario.loader import FILE
from conformance.scenario.table import VERBS

PATH: Final = "scenario.schema.json"
_ID: Final = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    step = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": {verb.name: {"description": verb.says, **verb.table.schema()} for verb in VERBS.values()},
    }
    return {
        "$schema": _ID,
        "title": "A scenario of acp-conformance",
        **FILE.schema(),
        "$defs": {"step": step},
    }


def text() -> str:
    """The schema as its file holds it."""
    import json

    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    from conformance.resources import folder

    path: Path = folder("scenarios") / PATH
    path.write_text(text(), encoding="utf-8", newline="\n")
    print(path)


if __name__ == "__main__":
    main()
