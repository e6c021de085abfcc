"""`ragc eval A B --labels`: a judge's verdict, corrected by labels of a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ragc
from ragc.cli.main import main
from ragc.errors import DataError, UsageError
from ragc.metrics.compare import RunComparison
from ragc.metrics.labels import digest
from ragc.store.used_questions import TestUse
from tests.metrics.judged_world import World
from tests.support.rows import read_rows, write_rows


def put_runs(folder: Path, scores: dict[str, Any], backend: str = "judge model") -> list[str]:
    paths = []
    for name, values in scores.items():
        rows = [
            {
                "id": f"q{n}",
                "question": f"question {n}",
                "answers": ["x"],
                "prediction": f"{name} says {n}",
                "scores": {"judge_acc": float(value)},
                "backends": {"judge": backend},
            }
            for n, value in enumerate(values)
        ]
        write_rows(folder / f"{name}.jsonl", rows)
        paths.append(str(folder / f"{name}.jsonl"))
    return paths


def label_rows(held: list[dict[int, float]], arms: tuple[str, str] = ("a", "b")) -> list[dict[str, Any]]:
    return [
        {"id": f"q{n}", "arm": arm, "label": label}
        for arm, labels in zip(arms, held, strict=True)
        for n, label in labels.items()
    ]


def corrected(comparison: RunComparison) -> Any:
    """The result of the correction by labels."""
    assert comparison.correction
    return comparison.correction.result


@pytest.fixture
def unfair(tmp_path: Path) -> tuple[list[str], list[dict[int, float]]]:
    """Two runs that are equally right; the judge passes 30% of one's wrong answers and 10% of the other's."""
    (a, b), labels = World(300, 100, (0.1, 0.3)).draw(np.random.default_rng(5))
    return put_runs(tmp_path, {"one": a, "two": b}), labels


def test_without_labels_a_verdict_is_the_judges(unfair: Any, capsys: pytest.CaptureFixture[str]) -> None:
    paths, _ = unfair
    compared = ragc.compare(*paths)
    assert compared.rows[0].verdict == "better"
    assert compared.rows[0].verdict_text == "better, as this judge sees it"
    assert main(["eval", *paths]) == 0
    assert "as this judge sees it" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("arms", [("a", "b"), ("one", "two")])
def test_labels_correct_a_judge_that_favours_one(
    unfair: Any, tmp_path: Path, arms: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    paths, labels = unfair
    write_rows(tmp_path / "labels.jsonl", label_rows(labels, arms))
    compared = ragc.compare(*paths, labels=tmp_path / "labels.jsonl")
    result = corrected(compared)
    assert result.judged > 0.05
    assert result.low < 0 < result.high
    assert result.error_b > result.error_a + 0.05
    assert compared.rows[0].verdict_text == "not shown to be better, corrected by labels"
    assert main(["eval", *paths, "--labels", str(tmp_path / "labels.jsonl")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "judge_acc, corrected by 100 and 100 labels: difference" in text
    assert main(["eval", *paths, "--labels", str(tmp_path / "labels.jsonl"), "--json"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert held["corrected"]["labels"] == {"a": 100, "b": 100}
    assert held["metrics"]["judge_acc"]["verdict"] == "not shown to be better"


def test_a_correction_is_adjusted_for_earlier_looks_too(tmp_path: Path) -> None:
    (a, b), labels = World(300, 200, (0.02, 0.02), gain=0.11).draw(np.random.default_rng(3))
    paths = put_runs(tmp_path, {"one": a, "two": b})
    write_rows(tmp_path / "labels.jsonl", label_rows(labels))
    compared = ragc.compare(*paths, labels=tmp_path / "labels.jsonl")
    later = compared.at(TestUse(7, 300, seen=300))
    assert corrected(later).p == pytest.approx(min(1, 40 * corrected(compared).p))
    assert corrected(later).low < corrected(compared).low
    assert (later.rows[0].verdict == "better") == (corrected(later).p < 0.05)


def test_labels_of_ragc_questions_label_correct_it_alike(unfair: Any, tmp_path: Path) -> None:
    paths, labels = unfair
    write_rows(tmp_path / "arms.jsonl", label_rows(labels))
    runs = [{row["id"]: row for row in read_rows(Path(path))} for path in paths]
    of_answers = [
        {
            "id": row["id"],
            "label": "correct" if row["label"] else "wrong",
            "answer": digest(runs["ab".index(row["arm"])][row["id"]]),
        }
        for row in label_rows(labels)
    ]
    write_rows(tmp_path / "answers.jsonl", of_answers)
    by_arm, by_answer = (
        corrected(ragc.compare(*paths, labels=tmp_path / name)) for name in ("arms.jsonl", "answers.jsonl")
    )
    assert by_answer == by_arm
    write_rows(tmp_path / "other.jsonl", [{"id": "q1", "label": "wrong", "answer": "0" * 16}])
    with pytest.raises(DataError, match="line 1: its answer to 'q1' is in neither run"):
        ragc.compare(*paths, labels=tmp_path / "other.jsonl")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda rows: [row for row in rows if row["arm"] == "a"],
            "has labels of 100 of one and none of two, .* whether the judge treats both alike",
        ),
        (lambda rows: rows[80:120], "20 of one and 20 of two, and a correction needs at least 30 of each"),
        (lambda rows: [*rows, rows[0]], "line 201: question 'q.*' has two labels of 'a'"),
        (lambda rows: [{**rows[0], "arm": "c"}], "line 1: 'arm' is one of a, b, .*, but found 'c'"),
        (lambda rows: [{**rows[0], "id": "z"}], "line 1: 'id' must be a question .* found 'z'"),
        (lambda rows: [{**rows[0], "label": 2}], "line 1: 'label' must be a number from 0 to 1, but found 2"),
        (lambda rows: [{**rows[0], "label": "yes"}], "but found 'yes'"),
        (lambda rows: [{**rows[0], "label": float("nan")}], "but found nan"),
        (lambda rows: [[1]], "line 1: not a JSON object such as"),
    ],
)
def test_bad_labels_are_one_clear_error(unfair: Any, tmp_path: Path, change: Any, message: str) -> None:
    paths, labels = unfair
    write_rows(tmp_path / "labels.jsonl", change(label_rows(labels)))
    with pytest.raises((DataError, UsageError), match=message):
        ragc.compare(*paths, labels=tmp_path / "labels.jsonl")


def test_a_metric_without_a_greatest_score_takes_no_labels(unfair: Any, tmp_path: Path) -> None:
    paths, labels = unfair
    write_rows(tmp_path / "labels.jsonl", label_rows(labels))
    for path in map(Path, paths):
        write_rows(path, [row | {"scores": {"tokens": 5.0}} for row in read_rows(path)])
    with pytest.raises(UsageError, match="'tokens' has none; name the judge's metric with --by"):
        ragc.compare(*paths, labels=tmp_path / "labels.jsonl")


def test_files_that_are_no_labels_are_named(
    unfair: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, _ = unfair
    with pytest.raises(DataError, match="labels"):
        ragc.compare(*paths, labels=tmp_path / "none.jsonl")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe{}")
    with pytest.raises(DataError, match="UTF-8"):
        ragc.compare(*paths, labels=tmp_path / "bytes.jsonl")
    assert main(["eval", paths[0], "--labels", "labels.jsonl"]) == 2
    assert "the labels labels.jsonl: there is no such file" in capsys.readouterr().err


def test_a_judge_that_always_agrees_or_never_leaves_it_to_the_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = [dict(enumerate(rng.integers(0, 2, 60).astype(float))) for _ in range(2)]
    paths = put_runs(tmp_path, {"always": [1] * 60, "never": [0] * 60})
    write_rows(tmp_path / "labels.jsonl", label_rows(truth))
    compared = ragc.compare(*paths, labels=tmp_path / "labels.jsonl")
    assert len([note for note in compared.notes() if "it tells none of them apart" in note]) == 2
    by_labels = np.mean(list(truth[1].values())) - np.mean(list(truth[0].values()))
    assert corrected(compared).diff == pytest.approx(by_labels)
    assert compared.rows[0].verdict == "not shown to be better"


def test_labels_in_too_few_groups_cannot_tell_and_their_interval_holds_0(tmp_path: Path) -> None:
    paths = put_runs(tmp_path, {"one": [0] * 60, "two": [1] * 60})
    for path in map(Path, paths):
        write_rows(path, [row | {"group": f"g{n // 15}"} for n, row in enumerate(read_rows(path))])
    labels = [dict.fromkeys(range(60), label) for label in (0.0, 1.0)]
    write_rows(tmp_path / "labels.jsonl", label_rows(labels))
    compared = ragc.compare(*paths, labels=tmp_path / "labels.jsonl")
    assert corrected(compared).p == 1
    assert corrected(compared).low <= 0 <= corrected(compared).high
    assert compared.rows[0].verdict_text == "cannot tell, corrected by labels"
