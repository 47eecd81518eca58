"""The report on the terminal, line by line, and the sanitiser that all text of a peer goes through."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.report import RunStarted
from conformance.report.build import ReportBuilder
from conformance.report.console import Console
from conformance.report.layout import Span, columns, render, wrap
from conformance.report.sanitise import bounded, clean, clean_lines
from conformance.report.terminal import view
from tests.reported import (
    PASS,
    RULES,
    SILENT,
    STARTED,
    Wire,
    completed,
    doomed_prompt,
    example_events,
    example_report,
    found,
    judgement,
    report_of,
    violation,
)


def shown(report: Any, **how: Any) -> list[str]:
    return [render(line, colour=False) for line in view(report, **{"width": 100, **how})]


def test_the_first_line_is_the_verdict_with_what_was_exercised() -> None:
    assert shown(example_report())[0] == (
        "nonconformant  3 of 5 must rules exercised, 1 failed, 1 with warnings (1 not applicable)"
    )


def test_a_finding_shows_rule_statement_proof_and_the_way_to_it() -> None:
    lines = shown(example_report(), folder=Path("acp-report"))
    begin = next(place for place, line in enumerate(lines) if line.startswith("FAIL  prompt.no-error"))
    assert lines[begin : begin + 14] == [
        "FAIL  prompt.no-error-after-insertion                                                   must - agent",
        "      The statement of prompt.no-error-after-insertion. (rfd 'Somewhere')",
        "",
        "      failures/before-the-response",
        "        prompt #3 was inserted and then refused",
        '        0.010  ada   -> session/prompt #3 "doomed acp-7f3a"',
        '        0.020  agent <- user_message u-19 "doomed acp-7f3a"  holds "doomed acp-7f3a": the message is',
        "                                                             inserted",
        "        0.030  model    request 1 failed with 401",
        '        0.040  agent <- #3 error -32000 "no credit"          the same prompt is answered with an',
        "                                                             error",
        "",
        "      run again   acp-conformance run --agent 'my-agent --acp' "
        "--scenario failures/before-the-response --seed 41",
        f"      whole wire  {Path('acp-report/transcripts/failures-before-the-response.ndjson')}",
    ]


@pytest.mark.parametrize("width", [50, 60, 80, 200])
def test_only_commands_paths_and_ids_are_wider_than_the_terminal(width: int) -> None:
    wide = [line for line in shown(example_report(), width=width, verbose=True, folder=Path("r")) if len(line) > width]
    ids = [rule.id for rule in RULES]
    assert all(any(word in line for word in ("run again", "whole wire", "rules exercised", *ids)) for line in wide)


def test_not_exercised_rules_are_a_compact_list_and_with_v_say_why() -> None:
    report = example_report()
    assert "not exercised (1; -v says why)" in shown(report)
    verbose = shown(report, verbose=True)
    assert verbose[verbose.index("  cancel.odd") + 1] == "      the run did not bring about: a cancel.odd situation"


def test_a_run_of_a_part_only_counts_what_it_did_not_exercise() -> None:
    lines = shown(report_of(("a", judgement(state__paired=PASS))))
    assert "not exercised (5; -v says why)" in lines
    assert not any("distinct-message-ids" in line for line in lines)


def test_many_findings_are_cut_with_the_command_that_shows_the_rest() -> None:
    event = doomed_prompt(Wire())[0]
    report = report_of(*((f"s{n}", judgement(state__paired=found(violation("!", event), omitted=2))) for n in range(9)))
    text = "\n".join(shown(report, folder=Path("acp-report")))
    assert text.count("run again") == 3
    assert "and 24 more: acp-conformance explain acp-report state.paired" in text
    assert "\n".join(shown(report, verbose=True)).count("run again") == 9


def test_findings_of_one_scenario_in_a_row_share_the_way_to_it() -> None:
    event = doomed_prompt(Wire())[0]
    twice = judgement(state__paired=found(violation("first", event), violation("second", event)))
    text = "\n".join(shown(report_of(("a", twice), ("b", twice)), verbose=True))
    assert [text.count(word) for word in ("first", "second", "run again", "whole wire")] == [2, 2, 2, 2]


def test_the_verdict_stands_at_the_end_again_where_there_was_much_to_say() -> None:
    lines = shown(example_report())
    assert lines[-1] == lines[0]
    assert lines[0] not in shown(report_of(("a", judgement(state__paired=PASS))))[1:]


def test_a_long_event_leaves_the_others_room_for_their_part() -> None:
    wire = Wire()
    events = [(wire.agent({"jsonrpc": "2.0", "method": name}), "its part " * 5) for name in ("short", "long" * 20)]
    lines = shown(report_of(("a", judgement(state__paired=found(violation("!", *events))))))
    assert any("short  its part its part its part its part its part" in line for line in lines)


def test_two_connections_are_told_apart() -> None:
    wire = Wire()
    events = [(wire.agent({"jsonrpc": "2.0", "method": "m"}, conn), "") for conn in ("ada", "ben")]
    text = "\n".join(shown(report_of(("a", judgement(state__paired=found(violation("!", *events)))))))
    assert "agent/ada <- m" in text
    assert "agent/ben <- m" in text


def hostile_report() -> Any:
    evil = "\x1b[2J[/foo][bold]\u202e\x00\r\n\ud800" + "A" * 100_000
    wire = Wire()
    events = doomed_prompt(wire, text=evil, message_id=evil)
    builder = ReportBuilder(replace(STARTED, target=replace(STARTED.target, command=evil)), RULES)
    judged = judgement(state__paired=found(violation(evil, *((event, evil) for event, _ in events))))
    builder.add(
        replace(completed("a"), title=evil, reason=evil, stderr=evil), judged, info={"name": evil, "version": evil}
    )
    builder.problem(evil)
    return builder.finish(1).report


def test_nothing_that_an_agent_writes_reaches_the_terminal_as_a_control() -> None:
    lines = shown(hostile_report(), verbose=True)
    assert sum(map(len, lines)) < 60_000
    assert not {character for line in lines for character in line} & set("\x1b\x00\r\n\u202e\ud800")
    "\n".join(lines).encode("utf-8")


def console(verbosity: int = 0, *, terminal: bool = False, encoding: str = "utf-8") -> tuple[Console, io.BytesIO]:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    stream.isatty = lambda: terminal  # type: ignore[method-assign]
    return Console(stream, verbosity=verbosity), raw


def told(verbosity: int = 0, **how: Any) -> str:
    sink, raw = console(verbosity, **how)
    for event in example_events():
        sink(event)
    return raw.getvalue().decode(how.get("encoding", "utf-8"))


def test_without_a_terminal_there_is_no_progress_and_no_colour() -> None:
    text = told()
    assert text.startswith("nonconformant")
    assert "\x1b" not in text


def test_verbose_without_a_terminal_has_one_line_a_scenario() -> None:
    assert told(1).splitlines()[:3] == [
        "fail  failures/before-the-response  0.5 s  prompt.no-error-after-insertion, wire.silent",
        "warn  prompt/identical  0.5 s  state.paired",
        "n/a   session/delete  0.0 s  the agent does not advertise session.delete",
    ]


def test_quiet_is_the_verdict_alone() -> None:
    assert told(-1).splitlines() == [
        "nonconformant  3 of 5 must rules exercised, 1 failed, 1 with warnings (1 not applicable)"
    ]


@pytest.mark.parametrize("verbosity", [0, 1])
def test_on_a_terminal_the_report_comes_after_the_progress_in_colour(
    verbosity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    text = told(verbosity, terminal=True)
    assert "\x1b[1;31mnonconformant\x1b[0m" in text


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    sink, _ = console(terminal=True)
    assert not sink.colour


def test_markup_of_an_agent_is_no_markup_of_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    sink, raw = console(1, terminal=True)
    builder = ReportBuilder(STARTED, RULES)
    sink(replace(STARTED, scenarios=("[/foo]",)))
    sink(builder.add(replace(completed("[/foo]"), reason="[bold]x[/nope]"), judgement(state__paired=PASS)))
    sink(builder.finish(1))
    assert "[bold]x[/nope]" in raw.getvalue().decode()


def test_a_terminal_that_cannot_show_a_character_shows_an_escape() -> None:
    sink, raw = console(encoding="ascii")
    sink.print([(Span("naïve ✓"),)])
    assert raw.getvalue() == b"na\\xefve \\u2713\n"


def test_started_without_folder_shows_no_path() -> None:
    sink, raw = console()
    sink(RunStarted(STARTED.target, STARTED.started))
    assert sink.folder is None
    assert raw.getvalue() == b""


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("a\x00b\x1b[31m", r"a\x00b\x1b[31m"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("two\nlines\tand\r", r"two\nlines\tand\r"),
        ("\u2028\u200b\ufeff\x85", r"\u2028\u200b\ufeff\x85"),
        ("\ud83d alone", r"\ud83d alone"),
        ("\U000e0041\uffff", r"\U000e0041\uffff"),
        ("e" + "\u0301" * 40, "e" + "\u0301" * 4),
        ("žluťoučký 漢字 👩\u200d💻", "žluťoučký 漢字 👩\u200d💻"),
    ],
)
def test_clean_makes_unsafe_characters_visible(text: str, visible: str) -> None:
    assert clean(text) == visible
    assert clean(clean(text)) == clean(text)


def test_clean_says_how_much_it_left_out() -> None:
    assert clean("x" * 5_000, 10) == "x" * 10 + "... (4,990 more characters)"
    assert clean("x" * 20, 10) == "x" * 20


def test_clean_lines_keeps_lines_and_nothing_else() -> None:
    assert clean_lines("a\r\nb\tc\x1b\x00") == "a\nb\tc\\x1b\\x00"


def test_bounded_cuts_every_dimension() -> None:
    deep: Any = 1
    for _ in range(20):
        deep = [deep]
    cut = bounded({"deep": deep, "wide": [0] * 1000, "long": "x" * 10_000, "big": 10**100, "inf": float("inf")})
    assert "..." in str(cut["deep"])
    assert (len(cut["wide"]), cut["wide"][-1]) == (101, "... and 900 more")
    assert len(cut["long"]) < 600
    assert cut["big"] == "an integer of 333 bits"
    assert cut["inf"] == "inf"


def test_wrap_never_loses_a_word_and_never_exceeds_the_width() -> None:
    text = "short words and averyveryverylongwordwithoutanyspace 漢字漢字漢字漢字漢字 end"
    lines = list(wrap(text, 12))
    assert all(columns(line) <= 12 for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_the_author_of_a_scenario_is_told_whether_it_exercised_what_it_names() -> None:
    def told(named: tuple[str, ...]) -> list[str]:
        builder = ReportBuilder(STARTED, RULES)
        judged = judgement(prompt__distinct_message_ids=PASS, state__paired=SILENT)
        builder.add(completed("mine"), judged, exercises=named)
        lines = shown(builder.finish(1.0).report)
        return [line.strip() for line in lines if line.startswith(("  mine ", "    state.paired"))]

    both = ("prompt.distinct-message-ids", "state.paired")
    assert told(both[:1]) == ["mine exercised the rule that it names"]
    missed = next(rule.exercised for rule in RULES if rule.id == "state.paired")
    why = f"state.paired: the run did not bring about: {missed}"
    assert told(both) == ["mine exercised 1 of the 2 rules that it names, but not", why]
    assert told(both[1:]) == ["mine did not exercise the rule that it names:", why]
    assert told(()) == []
