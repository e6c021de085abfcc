"""Writes a report as one HTML file that needs no network, and the JSONL file with its figures next to it.

The figures outside the table of questions are written by Jinja2 with autoescape; each is in an element whose
`data-row` is the number of its line in the JSONL file. The table, traces and charts are drawn by the page's
script from the same lines, which the page contains as JSON. A Content-Security-Policy allows only that script
to run, and nothing to be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from ragc.core.display import describe, dollars, quantity
from ragc.core.extras import __version__
from ragc.core.files import check_writable, open_regular, put_file, replacing_file, resolve_out
from ragc.core.text import repair_surrogates
from ragc.errors import UsageError
from ragc.metrics.base import UNMEASURED
from ragc.reports import build
from ragc.reports.questions import metric_of
from ragc.reports.report import KINDS, Report, amount, decimals_of, figure, plain, signed

MAX_QUESTIONS = 2_000
"""Questions of a report that its page has."""

MAX_CHARACTERS = 30_000_000
"""Characters of the questions in a page, so that it opens in seconds."""

TEMPLATES = Path(__file__).parent / "templates"
PLOT = "vendor/plot.min.js"
"""The chart library; `vendor/plot.toml` says where it comes from."""

SCRIPTS = (
    "base.js",
    "charts.js",
    "trials.js",
    "questions.js",
    "address.js",
    "trace.js",
    "diff.js",
    "start.js",
)
"""The page's script, in the order in which its parts are joined."""

MARK = b"<!doctype html>"
"""What a page begins with; a file that begins otherwise is not replaced."""

_ROWS_MARK = b'{"row": "report"'
Lines = list[dict[str, Any]]
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A written report: its verdict, the `page`, the `rows` next to it, and the size of the page in bytes.

    `questions` counts all, `shown` those in the page.
    """

    page: Path
    rows: Path
    headline: str
    questions: int
    bytes: int
    gaps: tuple[str, ...] = ()
    shown: int = 0

    def __repr__(self) -> str:
        return describe("WrittenReport", repr(str(self.page)), self.headline, questions=self.questions)

    def text(self) -> list[str]:
        """Returns the report for people: the verdict, what is missing, and the path of the page."""
        size = f"{self.bytes / 1e6:.1f} MB, {quantity(self.questions, 'question')}"
        return [f"{self.headline}.", *self.gaps, f"Report: {self.page} ({size})", f"Its rows: {self.rows}"]

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc report --json`."""
        return {**asdict(self), "page": str(self.page), "rows": str(self.rows), "gaps": list(self.gaps)}


def write(paths: Sequence[str | Path], out: str | Path, *, trust_targets: bool = False) -> WrittenReport:
    """Writes the report on `paths` to the file `out`, and its rows next to it with the suffix `.jsonl`.

    Reports of an earlier run are replaced, other files never. Raises UsageError, and what `build` raises.
    """
    target = _checked(Path(out), MARK)
    rows = _checked(target.with_suffix(".jsonl"), _ROWS_MARK)
    if target.suffix == ".jsonl":
        raise UsageError(f"--out {out} is the page; name it .html, and the rows stand next to it as .jsonl.")
    for path in paths:
        if Path(os.path.realpath(path)) in (target, rows):
            raise UsageError(
                f"{path} is what the report is about, and would be replaced; choose another --out."
            )
    report = build.build(paths, trust_targets=trust_targets)
    with replacing_file(rows) as file:
        html, shown = render(report, rows.name, lambda line: file.write(line.encode("ascii") + b"\n"))
        content = html.encode("utf-8")
        put_file(target, content)
    return WrittenReport(
        page=target,
        rows=rows,
        headline=report.verdict.headline,
        questions=len(report.questions),
        bytes=len(content),
        gaps=report.gaps,
        shown=shown,
    )


def _checked(out: Path, mark: bytes) -> Path:
    """Returns `out`, resolved. Raises UsageError unless it is writable, with at most an earlier report."""
    path, beginning = resolve_out(out), b"?"
    with suppress(OSError), open_regular(path) as file:
        beginning = file.read(len(mark))
    if os.path.lexists(path) and beginning not in (mark, b""):
        raise UsageError(f"{path} exists and is no report of ragc's; choose another --out or move it away.")
    check_writable(path)
    return path


def render(
    report: Report, rows_file: str = "report.jsonl", put: Callable[[str], object] = lambda line: None
) -> tuple[str, int]:
    """Returns the page of `report` and the number of questions in it; each line of its JSONL goes to `put`.

    `rows_file` is the name of the JSONL file. The page has at most `MAX_QUESTIONS` questions: those that
    changed first, then by id.
    """
    ranked = sorted(
        report.questions, key=lambda question: (question.change not in ("gained", "lost"), question.id)
    )
    ranked = ranked[:MAX_QUESTIONS]
    ids = {question.id for question in ranked}
    rows: dict[str, Lines] = {kind: [] for kind in KINDS}
    for number, line in enumerate(report.lines(), 1):
        row = plain(line)
        put(json.dumps(row, ensure_ascii=True, allow_nan=False))
        if row["row"] != "question" or line["id"] in ids:
            rows[row["row"]].append({**row, "line": number})
    texts = {row["id"]: json_in_page(row) for row in rows.pop("question")}
    left = MAX_CHARACTERS
    for shown, question in enumerate(ranked):
        left -= len(texts[question.id])
        if left < 0 and shown:
            texts = {fitting.id: texts[fitting.id] for fitting in ranked[:shown]}
            break
    metrics = _about_metrics(report, rows)
    about = json_in_page({"rows": [row for listed in rows.values() for row in listed], "metrics": metrics})
    style, plot, parts = _source("style.css"), _source(PLOT), "\n".join(map(_source, SCRIPTS))
    script = f'"use strict";\n(() => {{\n{parts}\n}})();'  # in a function, so that no name is global
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure": figure, "signed": signed, "amount": amount, "money": dollars}
    html = environment.get_template(
        "page.html"
    ).render(
        policy=_policy([plot, script]),
        style=Markup(style),  # noqa: S704 - these are files of this package, and escaped JSON
        plot=Markup(plot),  # noqa: S704
        script=Markup(script),  # noqa: S704
        data=Markup(f'{about[:-1]},"questions":[{",".join(texts.values())}]}}'),  # noqa: S704
        rows=rows,
        report=report,
        shown=len(texts),
        metrics=metrics,
        rows_file=rows_file,
        version=__version__,
    )
    return repair_surrogates(html), len(texts)


def json_in_page(value: Any) -> str:
    """Returns `value` as JSON that is safe in an HTML script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: _ESCAPES[match.group()], text)


def _about_metrics(report: Report, rows: Mapping[str, Lines]) -> dict[str, dict[str, Any]]:
    """Returns for every metric of the page whether more of it is better, and the decimals of its figures."""
    values: dict[str, list[float]] = {name: [] for name in (*report.objectives, *report.metrics)}
    for row in (*rows["score"], *rows["difference"]):
        values.setdefault(row["metric"], []).extend((row["mean"], row["low"], row["high"]))
    for name, value in (item for trial in rows["trial"] for item in trial["values"].items()):
        values.setdefault(name, []).append(value if abs(value) < UNMEASURED else 0.0)
    better = {name: metric_of(name)[0] for name in values} | dict(report.objectives)
    return {name: {"better": better[name], "decimals": decimals_of(values[name])} for name in values}


def _source(name: str) -> str:
    return (TEMPLATES / name).read_text("utf-8").strip()


def _policy(scripts: Iterable[str]) -> str:
    """Returns the Content-Security-Policy: these inline scripts, inline styles, and nothing from anywhere."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
