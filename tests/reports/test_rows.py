"""A file of rows summed up: by the public function, on the command line, and from strangers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.cli.main import main
from ragc.errors import DataError, UnknownName
from tests.support.rows import write_rows

HOSTILE = "\x1b[2J\u202e<script>alert(1)</script>"


def row(id: str, prediction: str | None, f1: float, **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "question": f"Question {id}?",
        "answers": ["Clara Wieck", "Clara Schumann"],
        "prediction": prediction,
        "scores": {"recall@5": 1.0, "f1": f1, "acc": float(f1 > 0.5), "tokens": 12.0},
        "gold_ids": ["clara"],
        "passages": ["clara"],
        "failure": "" if prediction is not None else "A reply cannot be read.",
        **more,
    }


ROWS = (
    row("q1", "Clara Wieck", 1.0),
    row("q2", "It was Clara Wieck", 0.66),
    row("q3", "Johann Sebastian Bach", 0.3),
    row("q4", "Bach", 0.0),
    row("q5", "Bach", 0.1, passages=["other"]),
    row("q6", "I don't know", 0.0),
    row("q7", None, 0.0),
)


def written(folder: Path, rows: Any) -> Path:
    path = folder / "rows.jsonl"
    write_rows(path, rows)
    return path


def test_rows_are_summed_up_and_grouped(tmp_path: Path) -> None:
    summary = ragc.summarize(written(tmp_path, ROWS))
    assert {one.group.id: [row.id for row in one.rows] for one in summary.groups} == {
        "right": ["q1"],
        "not_retrieved": ["q5"],
        "not_used": ["q3", "q4"],
        "wording": ["q2"],
        "refused": ["q6"],
        "unreadable": ["q7"],
    }
    assert [row.id for row in summary.groups[2].worst] == ["q4", "q3"]
    assert summary.by == "f1"
    assert summary.metrics["f1"].mean == pytest.approx(2.06 / 7)
    assert summary.metrics["f1"].low < summary.metrics["f1"].mean < summary.metrics["f1"].high
    assert summary.metrics["tokens"].mean == 12
    assert summary.headline == "1 of 7 questions right, with full marks by f1"
    assert repr(summary).startswith("RowsSummary('rows', 7 questions, right=1, not_retrieved=1, not_used=2")


def test_the_metric_that_decides_can_be_named(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)
    assert [row.id for row in ragc.summarize(path, by="acc").groups[0].rows] == ["q1", "q2"]
    with pytest.raises(UnknownName, match="bleu"):
        ragc.summarize(path, by="bleu")


def test_rows_without_a_metric_of_answers_have_none_that_decides(tmp_path: Path) -> None:
    summary = ragc.summarize(written(tmp_path, [row("q1", "a", 0, scores={"recall@5": 0.5})]))
    assert summary.by == ""
    assert summary.headline == "0 of 1 question right; no metric scores the answers"


def test_the_command_prints_scores_groups_and_the_worst(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    path = written(tmp_path, ROWS)
    assert main(["eval", str(path)]) == 0
    out = capsys.readouterr().out
    for part in (
        "f1        0.294 [",
        "1 of 7 questions failed: A reply cannot be read",
        "1 of 7 questions right, with full marks by f1.",
        "retrieved and not used  2          28.6%  the answer saw what it needed, and is another",
        "retrieved and not used (2):\nq4\n  question  Question q4?\n  answer    Bach\n",
        "  gold      Clara Wieck | Clara Schumann\n",
        "  answer    none (A reply cannot be read.)\n",
    ):
        assert part in out
    assert main(["eval", str(path), "--by", "acc", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["n"], value["by"], value["failures"]["unreadable"]) == (7, "acc", 1)
    right, worst = value["groups"][0], value["groups"][1]["worst"][0]
    assert (right["id"], right["n"], right["share"], right["questions"]) == ("right", 2, 2 / 7, ["q1", "q2"])
    gold = ["Clara Wieck", "Clara Schumann"]
    assert (worst["id"], worst["answer"], worst["score"], worst["gold"]) == ("q5", "Bach", 0.0, gold)


def test_hostile_rows_reach_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        row(HOSTILE + "id", HOSTILE, 0, question=HOSTILE * 9000, answers=[HOSTILE], scores={HOSTILE: 0.5}),
        row("q2", None, 0, failure=HOSTILE, backends={HOSTILE: HOSTILE}),
    ]
    path = written(tmp_path, rows)
    for more in ((), ("--json",)):
        assert main(["eval", str(path), *more]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert "\u202e" not in out
    assert len(out) < 6000


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--out", "other.jsonl"), "scored already"),
        (("--set", "seed=1"), "scored already"),
        (("--by", "x"), "x"),
    ],
)
def test_what_cannot_be_done_with_rows_is_refused(
    arguments: tuple[str, ...], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(written(tmp_path, ROWS)), *arguments]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "other.jsonl").exists()


@pytest.mark.parametrize("text", ["", "{", "[1]\n", '{"id": "a", "scores": {"f1": NaN}}', "\x00"])
def test_a_damaged_file_is_one_sentence(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(DataError):
        ragc.summarize(path)
    assert main(["eval", str(path)]) == 2
    assert "rows.jsonl" in capsys.readouterr().err
