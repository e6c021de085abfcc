"""Renders a report as one HTML file that needs no network, and as the JSONL that its figures trace to.

The figures outside the table of questions are written by Jinja2 with autoescape; each stands in an element
whose `data-row` is the number of its line in the JSONL. The table, traces and charts are drawn by the page's
own script from the same lines, which stand in it as JSON. A Content-Security-Policy lets only that script
run, and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from ragc.core.text import repair_surrogates
from ragc.reports.questions import metric_of
from ragc.reports.report import Report
from ragc.reports.values import plain
from ragc.version import __version__

TEMPLATES = Path(__file__).parent / "templates"
PLOT = "vendor/plot.min.js"
"""The chart library; `vendor/plot.toml` says where it comes from."""

SCRIPTS = ("base.js", "charts.js", "questions.js", "address.js", "trace.js", "start.js")
"""The page's own script, in the order in which its parts are joined."""

LIMIT = 20 * 2**20
"""Bytes of data that a page holds at most, as long as shortening long texts can bring it there."""

SHORT = 120
"""Characters up to which a text of a question stands where it is; longer ones stand once in a table."""

_CUTS = (100_000, 30_000, 10_000, 4_000, 2_000, 1_000, 500, SHORT)
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_ESCAPED = re.compile("[<>&\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Page:
    """The rendered report: the page, and the lines of the JSONL beside it. `cut` is the length texts have.

    `cut` is None where every text is whole in the page too.
    """

    html: str
    lines: tuple[str, ...]
    cut: int | None = None


def render(report: Report, *, rows_file: str, limit: int = LIMIT) -> Page:
    """The page of `report`, whose JSONL will be called `rows_file`. `limit` bounds the data in bytes."""
    rows = [plain(line) for line in report.lines()]
    lines = tuple(json.dumps(row, ensure_ascii=True, allow_nan=False) for row in rows)
    metrics = dict.fromkeys(name for row in rows if row["row"] == "score" for name in (row["metric"],))
    names = dict.fromkeys([*metrics, *report.objectives, report.metric])
    data, cut = _data(rows, {name: metric_of(name, ())[0] for name in names if name}, limit)
    style, plot, script = _source("style.css"), _source(PLOT), _script()
    html = (
        _environment()
        .get_template("page.html")
        .render(
            policy=_policy([plot, script]),
            style=Markup(style),  # noqa: S704 - the three are files of this package, the fourth is escaped JSON
            plot=Markup(plot),  # noqa: S704
            script=Markup(script),  # noqa: S704
            data=Markup(data),  # noqa: S704
            rows=_by_kind(rows),
            report=report,
            rows_file=rows_file,
            cut=cut,
            version=__version__,
        )
    )
    return Page(repair_surrogates(html), lines, cut)


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure": figure, "signed": signed, "amount": amount}
    return environment


def figure(value: float | None) -> str:
    """A score for people: three decimals, or as many digits as a larger number has; "–" for None."""
    if value is None:
        return "–"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"


def signed(value: float) -> str:
    """A difference for people, with its sign."""
    text = f"{value:+.3f}" if abs(value) < 100 else f"{value:+,.1f}"
    return text.replace("-", "\N{MINUS SIGN}")


def amount(value: float) -> str:
    """An amount for people: whole numbers as they are, others with up to four digits."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"


def _source(name: str) -> str:
    return (TEMPLATES / name).read_text("utf-8").strip()


def _script() -> str:
    """The parts of the page's script in one function, so that none of their names is global."""
    parts = "\n".join(_source(name) for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}\n}})();'


def _policy(scripts: Iterable[str]) -> str:
    """The Content-Security-Policy: these inline scripts, inline styles, and nothing from anywhere."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _by_kind(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows by record, each with the number of its `line`; every kind of record has a list."""
    out: dict[str, list[dict[str, Any]]] = {
        kind: []
        for kind in (
            "report", "verdict", "changes", "score", "difference", "trial", "importance", "slice",
            "threshold", "cost", "budget", "group", "question", "fact",
        )
    }  # fmt: skip
    for line, row in enumerate(rows, 1):
        out[row["row"]].append({**row, "line": line})
    return out


def _data(rows: list[dict[str, Any]], better: Mapping[str, bool], limit: int) -> tuple[str, int | None]:
    """The JSON of the page: rows, texts, and of each metric whether more is better; and the cut of texts."""
    texts = _Texts()
    shown = [_refer(row, texts) if row["row"] == "question" else row for row in rows]
    whole = _json({"rows": shown, "better": better})
    left, cut = limit - len(whole), None
    if texts.size(None) > left:
        cut = next((size for size in _CUTS if texts.size(size) <= left), _CUTS[-1])
    return f'{{"texts":{_json(texts.shown(cut))},{whole[1:]}', cut


def _json(value: Any) -> str:
    """`value` as JSON that stands in an HTML script element as it is."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return repair_surrogates(_ESCAPED.sub(lambda match: _ESCAPES[match.group()], text))


class _Texts:
    """Long texts, each once: passages and instructions repeat from prompt to prompt."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def put(self, text: str) -> int:
        """The number of `text` in the table."""
        return self._numbers.setdefault(text, len(self._numbers))

    def size(self, cut: int | None) -> int:
        """About how many bytes the table takes with texts of at most `cut` characters."""
        return sum(len(text[:cut].encode("utf-8", "replace")) + 12 for text in self._numbers)

    def shown(self, cut: int | None) -> list[Any]:
        """The texts in order; of one that is cut a list of its beginning and its length."""
        return [
            text if cut is None or len(text) <= cut else [text[:cut], len(text)] for text in self._numbers
        ]


def _refer(value: Any, texts: _Texts) -> Any:
    """`value` with `{"$": number}` for each long text; a key `$` of its own gets a blank."""
    if isinstance(value, str):
        return value if len(value) <= SHORT else {"$": texts.put(value)}
    if isinstance(value, list):
        return [_refer(item, texts) for item in value]
    if isinstance(value, dict):
        return {f"{key} " if key == "$" else key: _refer(item, texts) for key, item in value.items()}
    return value
