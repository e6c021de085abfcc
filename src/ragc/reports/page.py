"""Renders a report as one HTML file that needs no network, and the JSONL with its figures.

The figures outside the table of questions are written by Jinja2 with autoescape; each is in an element whose
`data-row` is the number of its line in the JSONL. The table, traces and charts are drawn by the page's own
script from the same lines, which the page contains as JSON. A Content-Security-Policy allows only that script
to run, and nothing to be fetched.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from ragc.core.extras import __version__
from ragc.core.text import repair_surrogates
from ragc.metrics.base import UNMEASURED
from ragc.reports.page_data import PutLine, json_in_page, pack, row_line
from ragc.reports.pictures import pictures
from ragc.reports.questions import MAX_DETAILED, metric_of
from ragc.reports.report import Report
from ragc.reports.values import decimals_of, figure, money, plain, signed, written_amount

TEMPLATES = Path(__file__).parent / "templates"
PLOT = "vendor/plot.min.js"
"""The chart library; `vendor/plot.toml` says where it comes from."""

SCRIPTS = (
    "base.js", "parts.js", "charts.js", "trials.js", "diff.js", "questions.js", "address.js", "trace.js",
    "start.js",
)  # fmt: skip
"""The page's own script, in the order in which its parts are joined."""

LIMIT = 14 * 10**6
"""Bytes of questions that a page holds at most; the rest of it takes less than a million."""


@dataclass(frozen=True, slots=True)
class RenderedReport:
    """The rendered report, and how many of its questions the page has; see `page_data.PackedQuestions`."""

    html: str
    indexed: int = 0
    detailed: int = 0
    cut: int | None = None


def render(
    report: Report, *, rows_file: str, put: PutLine | None = None, limit: int = LIMIT
) -> RenderedReport:
    """Renders the page of `report`, whose JSONL will be called `rows_file`; each of its lines goes to `put`.

    `limit` bounds the questions in bytes. Raises DataError if a file of rows was changed meanwhile.
    """
    write_line = put or (lambda line: None)
    before = [plain(line) for line in report.lines_before_questions()]
    after = [plain(line) for line in report.lines_after_questions()]
    for line in before:
        write_line(row_line(line))
    packed = pack(report, write_line, limit)
    for line in after:
        write_line(row_line(line))
    n = len(report.questions)
    lines = [*enumerate(before, 1), *enumerate(after, len(before) + n + 1)]
    about = _about_metrics(report)
    data = {
        "rows": [*before, *after],
        "metrics": about,
        "questions": n,
        "firstQuestion": len(before) + 1,
        "compressed": packed.compressed,
        "starts": packed.starts,
        "detailed": packed.detailed,
    }
    style, plot, script = _source("style.css"), _source(PLOT), _script()
    html = (
        _environment()
        .get_template("page.html")
        .render(
            policy=_policy([plot, script]),
            style=Markup(style),  # noqa: S704 - these are files of this package, and escaped JSON or base64
            plot=Markup(plot),  # noqa: S704
            script=Markup(script),  # noqa: S704
            data=Markup(json_in_page(data)),  # noqa: S704
            index=Markup(packed.index),  # noqa: S704
            parts=[Markup(part) for part in packed.parts],  # noqa: S704
            packed=packed,
            rows=_by_kind({**row, "line": at} for at, row in lines),
            report=report,
            asked=n,
            max_detailed=min(n, MAX_DETAILED),
            metrics=about,
            pictures=pictures(report.differences, about),
            rows_file=rows_file,
            version=__version__,
        )
    )
    return RenderedReport(repair_surrogates(html), packed.indexed, packed.detailed, packed.cut)


def _about_metrics(report: Report) -> dict[str, dict[str, Any]]:
    """Returns for every metric of the page whether more of it is better, and the decimals of its figures."""
    values: dict[str, list[float | None]] = {name: [] for name in (*report.objectives, *report.metrics)}
    for score in report.scores:
        values.setdefault(score.metric, []).extend((score.mean, score.low, score.high))
    for gap in report.differences:
        values.setdefault(gap.metric, []).extend((gap.mean, gap.low, gap.high))
    for trial in report.trials:
        for name, value in trial.values.items():
            values.setdefault(name, []).append(value if abs(value) < UNMEASURED else None)
    return {
        name: {
            "better": report.objectives.get(name, metric_of(name, ())[0]),
            "decimals": decimals_of(held),
        }
        for name, held in values.items()
        if name
    }


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure": figure, "signed": signed, "amount": written_amount, "money": money}
    return environment


def _source(name: str) -> str:
    return (TEMPLATES / name).read_text("utf-8").strip()


def _script() -> str:
    """Returns the parts of the page's script in one function, so that none of their names is global."""
    parts = "\n".join(_source(name) for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}\n}})();'


def _policy(scripts: Iterable[str]) -> str:
    """Returns the Content-Security-Policy: these inline scripts, inline styles, and nothing from anywhere."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _by_kind(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Returns the rows by record; every kind of record but questions has a list."""
    out: dict[str, list[dict[str, Any]]] = {
        kind: []
        for kind in (
            "report", "verdict", "setting", "changes", "score", "difference", "trial", "prompt", "importance",
            "slice", "threshold", "front", "cost", "budget", "group", "fact",
        )
    }  # fmt: skip
    for row in rows:
        out[row["row"]].append(row)
    return out
