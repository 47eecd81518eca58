"""The HTML report in a real browser: nothing wrong on its console, filter, diagram and keys work, hostile text stays
text.

Needs Chromium with its driver and selenium; skipped where they are not installed.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.commands.options import write_views
from conformance.report.build import ReportBuilder
from tests.reported import RULES, STARTED, Wire, completed, example_report, found, judgement, violation
from tests.test_report_views import hostile_report

webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="no Chromium with its driver"),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1200,900",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.implicitly_wait(10)
    yield driver
    driver.quit()


def opened(browser: Any, report: Any, folder: Path) -> Any:
    write_views(report, folder, ["html"])
    browser.get((folder / "report.html").as_uri())
    browser.find_element("css selector", ".row .label")  # the first failure's diagram is drawn with the next frame
    return browser


def errors(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]


def all_of(browser: Any, selector: str) -> list[Any]:
    """What there is now: `find_elements` would wait for the first."""
    return list(browser.execute_script("return [...document.querySelectorAll(arguments[0])]", selector))


def shown_rules(browser: Any) -> list[str]:
    return [
        element.text
        for element in all_of(browser, "details.rule:not([hidden]) > summary .id")
        if element.is_displayed()
    ]


def long_report(folder: Path, events: int = 5_000) -> Any:
    wire = Wire(folder / "transcripts" / "prompt-identical.ndjson")
    chunk = {
        "sessionUpdate": "agent_message_chunk",
        "messageId": "a",
        "content": {"type": "text", "text": "words " * 20},
    }
    sent = [
        wire.agent({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": chunk}})
        for _ in range(events)
    ]
    wire.recorder.close()
    builder = ReportBuilder(STARTED, RULES)
    proof = violation("!", (sent[10], "the first"), (sent[events // 2], "the second"))
    builder.add(completed("prompt/identical"), judgement(state__paired=found(proof)))
    return builder.finish(1).report


def test_the_first_failure_is_open_with_its_diagram(browser: Any, tmp_path: Path) -> None:
    opened(browser, example_report(tmp_path), tmp_path)
    assert browser.find_element("css selector", ".verdict").text == "nonconformant"
    labels = [element.text for element in all_of(browser, "details[open] .row .label")]
    assert labels[0] == 'session/prompt #3 "doomed acp-7f3a"'
    assert [element.text for element in all_of(browser, ".lanes-head .names span")] == ["ada", "agent", "model"]
    assert len(all_of(browser, ".row.proof")) == 4
    assert errors(browser) == []


def test_a_click_shows_the_whole_message_formatted(browser: Any, tmp_path: Path) -> None:
    opened(browser, example_report(tmp_path), tmp_path)
    all_of(browser, ".row")[3].click()
    assert '"error": {\n    "code": -32000,' in browser.find_element("css selector", ".message pre").text
    assert "the same prompt is answered with an error" in browser.find_element("css selector", ".message").text


def test_the_diagram_is_walked_with_the_keyboard(browser: Any, tmp_path: Path) -> None:
    opened(browser, example_report(tmp_path), tmp_path)
    scroller = browser.find_element("css selector", ".scroller")
    scroller.send_keys("\ue010")  # End
    selected = browser.find_element("css selector", ".row[aria-selected=true]")
    assert selected.find_element("css selector", ".label").text == '#3 error -32000 "no credit"'
    assert scroller.get_attribute("aria-activedescendant") == selected.get_attribute("id")


def test_what_to_mend_is_listed_first_and_leads_to_the_rule(browser: Any, tmp_path: Path) -> None:
    opened(browser, example_report(tmp_path), tmp_path)
    buttons = all_of(browser, ".mend button")
    ids = ["prompt.no-error-after-insertion", "wire.silent", "state.paired"]
    assert [button.text.split()[-1] for button in buttons] == ids
    buttons[2].click()
    assert browser.find_element("css selector", "details[open] .finding").is_displayed()
    assert browser.execute_script("return document.getElementById('rule-state.paired').open")


def test_filter_and_search_narrow_the_rules(browser: Any, tmp_path: Path) -> None:
    opened(browser, example_report(tmp_path), tmp_path)
    everything = shown_rules(browser)
    assert len(everything) == 7
    for chip in all_of(browser, ".chip:not(.fail)"):
        chip.click()
    assert shown_rules(browser) == ["prompt.no-error-after-insertion", "wire.silent"]
    browser.find_element("css selector", "select option[value=should]").click()
    assert shown_rules(browser) == ["wire.silent"]
    browser.find_element("css selector", "input[type=search]").send_keys("no such thing")
    assert shown_rules(browser) == []
    assert browser.find_element("css selector", "[role=status]").is_displayed()


def test_five_thousand_events_keep_the_page_small(browser: Any, tmp_path: Path) -> None:
    opened(browser, long_report(tmp_path), tmp_path)
    assert all_of(browser, ".row.fold")
    next(button for button in all_of(browser, ".tools button") if button.text == "unfold all").click()
    assert browser.execute_script("return document.querySelector('.canvas').offsetHeight") > 5_000 * 28
    assert len(all_of(browser, ".row")) < 100
    browser.execute_script("document.querySelector('.scroller').scrollTop = 69800")
    assert browser.find_element("css selector", ".row.proof .part[title='the second']").is_displayed()
    assert len(all_of(browser, ".row")) < 100
    assert errors(browser) == []


def test_what_an_agent_writes_is_never_markup(browser: Any, tmp_path: Path) -> None:
    opened(browser, hostile_report(tmp_path), tmp_path)
    for summary in all_of(browser, "details:not([open]) > summary"):
        if summary.is_displayed():
            summary.click()
    all_of(browser, ".row")[-1].click()
    assert browser.execute_script("return document.querySelectorAll('a, img, iframe, object, embed, form').length") == 0
    assert browser.execute_script("return document.querySelectorAll('script').length") == 2
    assert "<script>alert(1)</script>" in browser.find_element("css selector", "#report").text
    assert errors(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_both_themes_and_a_phone_have_room_and_contrast(browser: Any, tmp_path: Path, scheme: str, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    try:
        opened(browser, hostile_report(tmp_path), tmp_path)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") is (scheme == "light")
        for selector in ("body", ".dim", ".fail", ".row .part", ".chip.pass"):
            assert contrast(browser, selector) >= 4.5, selector
        assert errors(browser) == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def contrast(browser: Any, selector: str) -> float:
    """The contrast of an element's text with what lies behind it, as WCAG 2 reckons it."""
    script = """
      const element = document.querySelector(arguments[0]);
      let behind = element;
      const isClear = (node) => /, 0\\)$|transparent/.test(getComputedStyle(node).backgroundColor);
      while (behind && isClear(behind)) behind = behind.parentElement;
      return [getComputedStyle(element).color, getComputedStyle(behind || document.body).backgroundColor];
    """
    light, dark = sorted((luminance(colour) for colour in browser.execute_script(script, selector)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    values = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
