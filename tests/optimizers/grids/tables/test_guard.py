"""What `reproduce` says of rows that show no difference, and of what is missing before anything is sent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ragc.core.progress import Silent
from ragc.errors import UsageError
from ragc.optimizers.grids.tables.run import estimate
from ragc.optimizers.grids.tables.table import Table, load, parse
from ragc.testing import ScriptedTarget
from tests.optimizers.grids.tables.common import Run, answer
from tests.support.rows import read_rows, write_rows

ROW: dict[str, Any] = {"id": "one", "program": "vanilla", "knobs": {"top_k": 1}}


class Noting(Silent):
    """Keeps the notes, and how many requests `target` had when each came."""

    def __init__(self, target: ScriptedTarget) -> None:
        self.target, self.notes = target, list[tuple[str, int]]()

    def note(self, text: str) -> None:
        self.notes.append((text, len(self.target.requests)))


def table(rows: list[dict[str, Any]], **more: Any) -> Table:
    values: dict[str, Any] = {"paper": "A, Table 1", "about": "a", "model": "M", "rows": rows}
    values |= {"sources": {"local": {"kind": "bm25"}}, "data": {"hotpotqa": {"metrics": ["em"]}}}
    return parse(values | more, "prefrag-own.toml")


def test_a_row_without_the_train_questions_it_needs_is_left_out(run: Run, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "plain", "program": "vanilla"},
        {"id": "learns", "program": "skr", "train": 4},
    ]
    result = run(table(rows), limit=3)
    assert "Learned on hotpotqa: learns from 4 train questions." in result.differs
    folder = tmp_path / "data/hotpotqa"
    (folder / "questions_train.jsonl").unlink()
    result = run(table(rows), limit=3, out=tmp_path / "held")
    assert "Learned on hotpotqa: learns from 4 questions of questions_dev.jsonl, which are not answered." in (
        result.differs
    )
    only = [{"id": "q0", "question": "Which colour has the plum?", "answers": ["red"], "context_ids": ["p0"]}]
    write_rows(folder / "questions_dev.jsonl", only)
    result = run(table(rows), out=tmp_path / "none")
    assert [cell.row for cell in result.cells] == ["plain"]
    assert (
        "Row learns of prefrag-own learns from 4 train questions, and hotpotqa has none" in result.left_out[0]
    )


@pytest.mark.parametrize(
    ("metric", "module"),
    [
        ("rqrag_f1", "ftfy"),
        ("upper_bound@rqrag_f1", "ftfy"),
        ("alce_cite_recall", "punkt"),
        ("alce_cite_f1", "punkt"),
        ("rougeLsum", "punkt"),
        ("rougeL", "rouge_score"),
    ],
)
def test_a_metric_without_its_library_is_said_before_the_first_request(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    one = table([ROW], data={"hotpotqa": {"metrics": [metric, "em"]}})
    target = ScriptedTarget(answer)
    progress = Noting(target)
    how: dict[str, Any] = {"data": tmp_path / "data", "out": tmp_path / "dry", "limit": 2}
    planned = estimate(one, targets={"main": target}, **how)
    assert module in planned["unmeasured"][metric]
    result = run(one, limit=2, target=target, progress=progress)
    (note,) = progress.notes
    assert note[0].startswith(f"Not measured: {metric}, because ")
    assert (note[1], len(target.requests)) == (0, 2)
    assert set(result.cells[0].means) == {"em"}


def test_an_embedder_that_is_not_installed_is_said_before_the_first_request(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    dense = {"local": {"kind": "dense", "options": {"model": "bge-m3"}}}
    target = ScriptedTarget(answer)
    progress = Noting(target)
    rows = [ROW, {**ROW, "id": "dense", "sources": dense}]
    run(table(rows), limit=2, target=target, progress=progress)
    (note,) = progress.notes
    assert "dense on hotpotqa" in note[0]
    assert "needs sentence_transformers" in note[0]
    assert note[1] == 0
    with pytest.raises(UsageError, match="bge-m3"):
        run(table(rows[1:]), limit=2, target=ScriptedTarget([]))


def test_a_stand_in_and_the_source_beside_it_share_no_passage(run: Run) -> None:
    rows = [
        {
            "id": name,
            "program": "vanilla_sources",
            "knobs": {"sources_used": name, "k_local": 20, "k_web": 20},
        }
        for name in ("local", "web", "both")
    ]
    own = table(rows, stand_ins={"web": "local"})
    result = run(own, limit=3)
    assert any(text.startswith("Nobody configured the source web: ") for text in result.differs)
    retrieved = {
        cell.row: {id.partition("#")[0] for row in read_rows(cell.path) for id in row["passages"]}
        for cell in result.cells
    }
    assert not retrieved["local"] & retrieved["web"]
    assert retrieved["local"] | retrieved["web"] == retrieved["both"] != set()
    whole = run(own, limit=3, sets=["sources.web.kind=bm25"], out=result.path.parent / "whole")
    assert {cell.passages for cell in whole.cells} == {10}
    assert not any(text.startswith("Nobody configured") for text in whole.differs)


def test_searches_that_were_used_are_counted_as_in_the_paper(run: Run) -> None:
    result = run("prefrag-searches", data_sets=["hotpotqa"], limit=2)
    for cell in result.cells:
        mean = {name: interval.mean for name, interval in cell.means.items()}
        assert mean["used_local"] <= mean["searches@local"]
        assert mean["used"] == pytest.approx(mean["used_local"] + mean["searches@web"])
    printed = load("prefrag-searches").expected(load("prefrag-searches").row("prefrag"))["hotpotqa"]
    assert (printed["used_local"], printed["used"]) == (783 / 500, 1031 / 500)
