"""How much the tests notice: small changes ("mutants") to the rules and the conversation, each judged by the tests.

    python tests/mutation.py [--part K/N] [--only GLOBS] [--tests GLOBS] [--minutes M] [--survivors FILE]

The changes are mutmut's, in every function; mutmut itself leaves decorated functions alone, and each rule and each
property is one. A mutant is killed where a test fails or runs beyond its time. Left out is prose (string literals with
a space and f-strings, which word findings), what decorators say, and `__all__`.

The tests are those of the rules, the conversation and the recordings, without those that take each recording again and
again: what these kill, the suite kills. They are collected once. For each mutant a forked child puts the changed code
in the place of the old and runs the tests that reach that function; a change of what is made at import (a constant, a
default) imports everything anew.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib.abc
import importlib.util
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import libcst as cst
import libcst.matchers as m
import pytest
from libcst.metadata import MetadataWrapper
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

ROOT = Path(__file__).parent.parent
MUTATED = ("rules", "conversation")
TESTS = ("test_rules_*.py", "test_conversation*.py", "test_cases.py", "test_catalogue.py")
NO_PART = ("test_rules_page.py",)  # it compares texts
REPETITIONS = "not end_anywhere and not any_pace and not slow_agent"  # each recording again and again: half of the time
QUIETLY = ("-o", "addopts=", "-k", REPETITIONS, "-p", "no:terminal", "-p", "no:cacheprovider")
MEMORY = 4 << 30
KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"


# -- the mutants


@dataclass(eq=False)
class Mutant:
    path: Path
    text: str  # of the whole module
    function: str  # the qualified name of the outermost function; "" for what stands in no function or in its head
    part: cst.CSTNode  # the statement of the module
    old: cst.CSTNode
    new: cst.CSTNode
    number: int  # among equal ones of the function

    @property
    def module(self) -> str:
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")

    @cached_property
    def rank(self) -> int:
        """A random number of its own, which stays where other things of the module change."""
        said = (self.module, self.function, _code(self.old), _code(self.new), self.number)
        return int(hashlib.sha256(repr(said).encode()).hexdigest(), 16)

    @property
    def source(self) -> str:
        """The whole module, changed."""
        changed = self.part.deep_replace(self.old, self.new)  # type: ignore[arg-type]
        assert self.text.count(_code(self.part)) == 1
        return self.text.replace(_code(self.part), _code(changed))

    @property
    def change(self) -> str:
        """The lines that differ, with the number of the first."""
        old, new = self.text.splitlines(), self.source.splitlines()
        first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        tail = 0
        while tail < min(len(old), len(new)) - first and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        gone = [f"- {line}" for line in old[first : len(old) - tail]]
        return "\n".join([str(first + 1), *gone, *(f"+ {line}" for line in new[first : len(new) - tail])])


@cache
def _code(node: cst.CSTNode) -> str:
    return cst.Module([node]).code  # type: ignore[list-item]


class Everywhere(MutationVisitor):
    """mutmut's mutations, in decorated functions too, prose left out; `found` has the function of each."""

    def __init__(self) -> None:
        super().__init__(mutation_operators, IgnoredCode(set(), set(), set()))
        self.found: list[tuple[str, cst.CSTNode, cst.CSTNode, cst.CSTNode]] = []
        self._path: list[cst.CSTNode] = []
        self._names: list[str] = []
        self._functions = 0
        self._heads = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        self._path.append(node)
        if not super().on_visit(node):
            return False
        self._heads += isinstance(node, cst.Parameters) and self._functions == 1
        self._functions += isinstance(node, cst.FunctionDef)
        if isinstance(node, cst.ClassDef) or (isinstance(node, cst.FunctionDef) and self._functions == 1):
            self._names.append(node.name.value)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        super().on_leave(original_node)
        node = self._path.pop()
        if isinstance(node, cst.ClassDef) or (isinstance(node, cst.FunctionDef) and self._functions == 1):
            self._names.pop()
        self._functions -= isinstance(node, cst.FunctionDef)
        self._heads -= isinstance(node, cst.Parameters) and self._functions == 1

    def _create_mutations(self, node: cst.CSTNode) -> None:
        before = len(self.mutations)
        super()._create_mutations(node)
        where = ".".join(self._names) if self._functions and not self._heads else ""
        self.found += [(where, self._path[1], m.original_node, m.mutated_node) for m in self.mutations[before:]]

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef):
            return False
        if isinstance(node, cst.FormattedString | cst.ConcatenatedString):
            return True
        if isinstance(node, cst.Assign) and m.matches(node.targets[0].target, m.Name("__all__")):
            return True
        if isinstance(node, cst.SimpleString) and (" " in node.value or node.value == '"inf"'):
            return True  # float("INF") is float("inf")
        return bool(super()._skip_node_and_children(node))


def mutants_of(path: Path) -> list[Mutant]:
    visitor, text = Everywhere(), path.read_text(encoding="utf-8")
    MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True).visit(visitor)
    numbers: Counter[tuple[str, str, str]] = Counter()
    mutants = []
    for function, part, old, new in visitor.found:
        same = (function, _code(old), _code(new))
        mutants.append(Mutant(path, text, function, part, old, new, numbers[same]))
        numbers[same] += 1
    return mutants


# -- the tests


class Trial:
    """A pytest plugin that runs the tests once, to learn which functions each reaches, and then the mutants."""

    def __init__(self, mutants: Sequence[Mutant], until: float, survivors: Path | None) -> None:
        self.mutants = mutants
        self.until = until
        self.survivors = survivors
        self.results: list[tuple[Mutant, str]] = []
        self._reach: dict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
        self._seconds: dict[str, float] = {}
        self._is_child = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        seconds = time.perf_counter()
        for item in session.items:
            self._learn(item)
        print(f"{len(session.items)} tests pass in {time.perf_counter() - seconds:.0f} s while traced", flush=True)
        functions = _functions()
        gc.collect()
        gc.freeze()
        for of_function in (True, False):  # either way leaves the tests as they are where nothing is changed
            unchanged = [replace(m, new=m.old) for m in self.mutants if bool(m.function) is of_function][:1]
            assert all(self._judge(mutant, session, functions) == SURVIVED for mutant in unchanged), unchanged
        for number, mutant in enumerate(self.mutants, 1):
            if time.monotonic() > self.until:
                break
            how = self._judge(mutant, session, functions)
            self.results.append((mutant, how))
            if how == SURVIVED and self.survivors:
                with self.survivors.open("a", encoding="utf-8") as file:
                    file.write(f"{mutant.path.relative_to(ROOT)}:{mutant.function}:{mutant.change}\n\n")
            if number % 100 == 0:
                print(f"{number} of {len(self.mutants)}", dict(Counter(how for _, how in self.results)), flush=True)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._is_child:
            os._exit(1)
        if report.failed:
            print(f"{report.nodeid} fails without any change:\n{report.longreprtext}", file=sys.stderr)
            pytest.exit(returncode=2)

    def _learn(self, item: pytest.Item) -> None:
        reached: set[tuple[str, str]] = set()

        def called(frame: FrameType, event: str, _: Any) -> None:
            if event == "call" and "/conformance/" in frame.f_code.co_filename:
                reached.add((frame.f_code.co_filename, frame.f_code.co_qualname.split(".<locals>")[0]))

        began = time.perf_counter()
        sys.setprofile(called)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        sys.setprofile(None)
        self._seconds[item.nodeid] = time.perf_counter() - began
        for function in reached:
            self._reach[function].append(item)

    def _judge(self, mutant: Mutant, session: pytest.Session, functions: dict[Any, list[FunctionType]]) -> str:
        key = (str(mutant.path), mutant.function)
        items = self._reach.get(key, []) if key in functions else []
        source = mutant.source
        child = os.fork()
        if child == 0:
            self._is_child = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            seconds = sum(self._seconds[item.nodeid] for item in items) if items else sum(self._seconds.values())
            signal.setitimer(signal.ITIMER_PROF, 5 + 3 * seconds)  # processor time; its signal ends the child
            try:
                if items:
                    _put(mutant, source, functions[key])
                    for item, following in zip(items, [*items[1:], None], strict=True):
                        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                elif _import_anew(mutant, source, session) != pytest.ExitCode.OK:
                    os._exit(1)
            except BaseException:
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            return TIMEOUT if os.WTERMSIG(status) == signal.SIGPROF else KILLED
        return KILLED if os.WEXITSTATUS(status) else SURVIVED


def _functions() -> dict[tuple[str, str], list[FunctionType]]:
    """The functions that live, by file and qualified name."""
    functions: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType):
            functions[thing.__code__.co_filename, thing.__code__.co_qualname].append(thing)
    return functions


def _put(mutant: Mutant, source: str, functions: list[FunctionType]) -> None:
    (code,) = (
        code for code in _codes(compile(source, str(mutant.path), "exec")) if code.co_qualname == mutant.function
    )
    for function in functions:
        function.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Finds the mutant where its module is asked for."""

    def __init__(self, mutant: Mutant, source: str) -> None:
        self.mutant = mutant
        self.source = source

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.mutant.module:
            return None
        return importlib.util.spec_from_file_location(name, self.mutant.path, loader=self)

    def get_data(self, path: Any) -> bytes:
        return self.source.encode()

    def get_filename(self, name: str) -> str:
        return str(self.mutant.path)


def _import_anew(mutant: Mutant, source: str, session: pytest.Session) -> int:
    for name in list(sys.modules):
        if name.split(".")[0] in ("conformance", "tests") or name.startswith("test_"):
            del sys.modules[name]
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, _Changed(mutant, source))
    files = dict.fromkeys(str(item.path) for item in session.items)
    return pytest.main([*files, "-x", *QUIETLY])


# -- the figures


def told(results: Sequence[tuple[Mutant, str]]) -> str:
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant, how in results:
        for row in (mutant.module.removeprefix("conformance."), "all"):
            rows[row][how] += 1
    rows["all"] = rows.pop("all")
    lines = [f"{'module':32} mutants  killed timeout survived   share"]
    for row, counts in rows.items():
        total, survived = counts.total(), counts[SURVIVED]
        share = 100 * (total - survived) / total
        lines.append(f"{row:32} {total:7} {counts[KILLED]:7} {counts[TIMEOUT]:7} {survived:8} {share:6.1f}%")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="mutants of the rules and the conversation, judged by the tests")
    parser.add_argument("--part", default="1/8", metavar="K/N", help="the Kth of N random parts of the mutants (1/8)")
    parser.add_argument("--only", default="*", metavar="GLOBS", help="modules, such as 'rules.state*,conversation.*'")
    parser.add_argument(
        "--tests", default=",".join(TESTS), metavar="GLOBS", help="files of tests (all that judge rules)"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many: the order is random")
    parser.add_argument("--survivors", type=Path, metavar="FILE", help="where to add what survives")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    paths = sorted(path for folder in MUTATED for path in (ROOT / "conformance" / folder).glob("*.py"))
    paths = [p for p in paths if any(fnmatchcase(f"{p.parent.name}.{p.stem}", g) for g in options.only.split(","))]
    population = [mutant for path in paths for mutant in mutants_of(path)]
    sample = sorted((m for m in population if m.rank % parts == part % parts), key=lambda mutant: mutant.rank)
    print(f"{len(sample)} of {len(population)} mutants: part {options.part}", flush=True)
    files = [
        path
        for name in options.tests.split(",")
        for path in sorted((ROOT / "tests").glob(name))
        if path.name not in NO_PART
    ]
    trial = Trial(sample, time.monotonic() + 60 * options.minutes, options.survivors)
    os.chdir(ROOT)
    status = pytest.main([*map(str, files), *QUIETLY], plugins=[trial])
    if status or not trial.results:
        return int(status) or 1
    print(told(trial.results))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
