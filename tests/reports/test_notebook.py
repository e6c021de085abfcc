"""What notebooks show: the verdict first, every text escaped, no colour and nothing fetched."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import pytest

import ragc
from ragc.compiled.base import CompiledProgram, ProgramState
from ragc.compiled.evaluate import Evaluation
from ragc.core import notebook
from ragc.metrics.failures import Failures
from ragc.metrics.reports.compare_runs import compare
from ragc.metrics.reports.runs import of_rows
from ragc.metrics.stats.intervals import Interval
from ragc.optimizers.compile import Compiled
from ragc.records import Question
from ragc.task.answering import Row
from tests.reports.test_rows import HOSTILE, ROWS, row, written

KEY = "sk-abcdefghij0123456789"
ALLOWED = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}


class Page(HTMLParser):
    """The tags, attributes and texts of a piece of HTML; fails on a tag that is left open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def shown(thing: Any) -> Page:
    """What a notebook shows of `thing`, checked for what none may hold."""
    html = thing._repr_html_()
    page = Page(html)
    assert page.tags <= ALLOWED
    assert page.attributes.keys() <= {"style", "scope"}
    assert not re.search(r"#[0-9a-f]{3}|rgb|color:|url\(|http", " ".join(page.attributes["style"]))
    assert not [char for char in html if char in "\x1b\u202e"]
    assert len(html) < 20_000
    return page


def program(verdict: Any = "better", test: Any = None, **knobs: Any) -> CompiledProgram:
    scores = {"mean": 0.5, "ci": [0.4, 0.6], "n": 40}
    test = test or {
        "baseline": {"em": scores},
        "winner": {"em": {**scores, "mean": 0.7}},
        "differences": {"em": {"mean": 0.2, "ci": [0.05, 0.35], "p": 0.01}},
    }
    state = ProgramState(
        format="ragc.compiled/2", method="vanilla", knobs={"top_k": 3, **knobs}, predictors={}
    )
    return CompiledProgram(state, {"verdict": verdict, "test": test}, "")


def evaluation(*rows: Row, **metrics: Interval) -> Evaluation:
    return Evaluation(rows, metrics, {}, remark=f"A remark {HOSTILE}")


def test_a_compiled_program_shows_its_verdict_first() -> None:
    page = shown(program())
    assert page.texts[0] == "Verdict: better"
    assert {"em", "0.500 [0.400, 0.600]", "0.700 [0.400, 0.600]", "+0.200 [+0.050, +0.350]", "0.0100"} <= set(
        page.texts
    )
    assert "Settings: top_k = 3." in page.texts
    assert page.texts[0] == shown(_compiled(program())).texts[0]


def _compiled(of: CompiledProgram, note: str = "A note.") -> Compiled:
    interval = Interval(0.5, 0.4, 0.6, 40)
    failures = {"test": {"winner": Failures(1, 40, ((HOSTILE, 1),))}}
    return Compiled(
        Path("compiled/mine"), of, "better", {"em": interval}, {"em": interval},
        {"em": {"mean": 0.0, "ci": [-0.1, 0.1], "p": 1.0}}, note, {"sent": 3.0}, failures=failures,
    )  # fmt: skip


@pytest.mark.parametrize(
    "test", [7, {"winner": 3}, {"winner": {"em": None, HOSTILE: {"mean": "x", "ci": [1]}}}]
)
def test_a_program_from_elsewhere_shows_what_can_be_read(test: Any) -> None:
    page = shown(program(verdict={"a": 1}, test=test, wording=HOSTILE * 100))
    assert page.texts[0] == "No verdict"


def test_an_evaluation_shows_its_scores_and_failures() -> None:
    failed = Row(Question("q1", HOSTILE, ("a",)), None, (), {}, {}, failure=HOSTILE)
    page = shown(evaluation(failed, em=Interval(0.25, 0.1, 0.4, 12), f1=Interval(0.5, 0.4, 0.6, 12)))
    assert page.texts[0] == "1 question: em 0.250 [0.100, 0.400]"
    assert any(text.startswith("1 of 1 question failed") for text in page.texts)
    assert shown(evaluation()).texts[0] == "0 questions"


def test_a_comparison_shows_its_verdict_first() -> None:
    old = [row(f"q{n}", "x", 0.1, scores={"f1": 0.1, "em": 0.0}) for n in range(12)]
    new = [row(f"q{n}", HOSTILE, 0.9, scores={"f1": 0.9, "em": 1.0}) for n in range(12)]
    page = shown(compare(of_rows(f"a {HOSTILE}", old), of_rows("b", new), seed=0))
    assert page.texts[0].startswith("b against a ")
    assert page.texts[0].endswith(": better by f1")
    assert {"f1", "em"} <= set(page.texts)


def test_a_summary_of_rows_shows_its_groups(tmp_path: Path) -> None:
    page = shown(ragc.summarize(written(tmp_path, [*ROWS, row("q9", "x", 0, scores={HOSTILE: 1.0})])))
    assert page.texts[0] == "rows: 1 of 8 questions right, with full marks by f1"
    assert "retrieved and not used" in page.texts


def test_secrets_long_texts_and_many_rows_are_cut() -> None:
    rows = [(f"row {n} {KEY}", "0.5", "word " * 900) for n in range(4000)]
    html = notebook.table(f"One {KEY} & two <b>", ("a", "b", "c"), rows, ["", KEY])
    page = Page(html)
    assert KEY not in html
    assert page.texts[0] == "One [redacted] & two <b>"
    assert "and 3,950 more" in page.texts
    assert len(html) < 60_000
    assert cast(str, re.search(r"<td[^>]*right[^>]*>0\.5", html))
