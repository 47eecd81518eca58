"""What is wrong with a scenario file, shown where it stands: path:line:column, the line, and a caret under the word."""

from dataclasses import dataclass
from pathlib import Path

MOST_SHOWN = 10
_WIDEST = 160  # characters of a source line that are shown


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `line` and `column` count from 1; `length` characters are marked."""

    message: str
    line: int
    column: int
    length: int = 1


class ScenarioError(Exception):
    """A scenario file that cannot be used. Its text shows each problem as a compiler would."""

    def __init__(self, path: Path | str, problems: list[Problem], text: str = "") -> None:
        self.path, self.problems, self.text = path, problems, text
        super().__init__(self.__str__())

    def __str__(self) -> str:
        lines = self.text.split("\n")
        problems = sorted(self.problems, key=lambda problem: (problem.line, problem.column))
        shown = [show(self.path, problem, lines) for problem in problems[:MOST_SHOWN]]
        if len(problems) > MOST_SHOWN:
            shown.append(f"{self.path}: and {len(problems) - MOST_SHOWN} more")
        return "\n".join(shown)


def show(path: Path | str, problem: Problem, lines: list[str]) -> str:
    head = f"{path}:{problem.line}:{problem.column}  {problem.message}"
    if not 0 < problem.line <= len(lines) or not (source := lines[problem.line - 1].rstrip()):
        return head
    if len(source) > _WIDEST:
        return head
    prefix = f"{problem.line:>5} | "
    before = "".join("\t" if character == "\t" else " " for character in source[: problem.column - 1])
    marked = max(1, min(problem.length, len(source) - problem.column + 1))
    return f"{head}\n{prefix}{source}\n{' ' * len(prefix)}{before}{'^' * marked}"
