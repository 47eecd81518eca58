"""The badge of a report: an SVG, or the JSON that shields.io's endpoint badge reads. Pure.

It says which protocol, how many must rules were exercised of all, and how many failed. Grey where the run is
incomplete, red where a must rule failed, green only where all was exercised that could be and most was: nobody gets a
full badge by being silent.
"""

import json
from typing import Any
from xml.sax.saxutils import escape

from conformance.report.model import Report

GREEN, YELLOW, RED, GREY = "#2e7d32", "#9a6700", "#c62828", "#6e7781"
_NAMES = {GREEN: "green", YELLOW: "yellow", RED: "red", GREY: "lightgrey"}
MOSTLY = 0.5  # of all must rules: below it the badge is yellow, however clean


def label(report: Report) -> str:
    return f"ACP v{report.protocol} {report.party}"


def message(report: Report) -> str:
    """ "61/76 must", "61/76 must, 2 failed" or "incomplete"."""
    counts = report.counts("must")
    if report.verdict == "incomplete":
        return f"incomplete, {counts.text} must"
    failed = counts.failed + report.demands.failed
    return f"{counts.text} must" + (f", {failed} failed" if failed else "")


def colour(report: Report) -> str:
    counts = report.counts("must")
    if report.verdict == "incomplete" or not counts.exercised:
        return GREY
    if report.verdict == "nonconformant":
        return RED
    return GREEN if counts.exercised >= MOSTLY * counts.total else YELLOW


def endpoint(report: Report) -> str:
    """JSON for https://shields.io/badges/endpoint-badge."""
    data: dict[str, Any] = {
        "schemaVersion": 1,
        "label": label(report),
        "message": message(report),
        "color": _NAMES[colour(report)],
        "isError": report.verdict == "incomplete",
        "cacheSeconds": 3600,
    }
    return json.dumps(data, indent=1) + "\n"


def svg(report: Report) -> str:
    """A self-contained SVG image with a title for screen readers."""
    left, right = label(report), message(report)
    left_width, right_width = _width(left), _width(right)
    width = left_width + right_width
    title = escape(f"{left}: {report.verdict}, {right}")
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{title}">
<title>{title}</title>
<clipPath id="r"><rect width="{width}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)">
<rect width="{left_width}" height="20" fill="#24292f"/>
<rect x="{left_width}" width="{right_width}" height="20" fill="{colour(report)}"/>
</g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11" text-anchor="middle">
<text x="{left_width / 2:g}" y="14" textLength="{left_width - 12}">{escape(left)}</text>
<text x="{left_width + right_width / 2:g}" y="14" textLength="{right_width - 12}">{escape(right)}</text>
</g>
</svg>
"""


def _width(text: str) -> int:
    """Pixels of a box for `text` at 11 px; textLength makes the estimate exact."""
    narrow = sum(character in " ,.iljt/1" for character in text)
    return round(12 + 7.2 * (len(text) - narrow) + 4.6 * narrow)
