"""Two runs read back and compared: what is refused, what is counted, and what is printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragc.errors import DataError, UnknownName, UsageError
from ragc.metrics.compare import compare
from ragc.metrics.runs import ScoredRun, of_rows, read
from tests.support.rows import write_rows


def row(
    i: int, prediction: str | None, *, em: float | None, f1: float = 0.0, tokens: float = 10.0
) -> dict[str, Any]:
    return {
        "id": f"q{i}",
        "question": f"Question {i}?",
        "answers": ["red", "crimson"],
        "prediction": prediction,
        "scores": {"em": em, "f1": f1, "tokens": tokens},
        "counters": {"tokens": tokens},
        "failure": "" if prediction is not None else "the reply was no JSON",
    }


OLD = [row(i, "blue", em=0.0, f1=0.1, tokens=100.0 + i) for i in range(12)]
NEW = [row(i, "red", em=1.0, f1=0.6, tokens=50.0) for i in range(12)]


def test_the_better_run_is_shown_and_the_cheaper_one_too(tmp_path: Path) -> None:
    a, b = read(write_rows(tmp_path / "a.jsonl", OLD)), read(write_rows(tmp_path / "b.jsonl", NEW))
    comparison = compare(a, b, seed=0)
    fields = json.loads(json.dumps(comparison.to_json()))
    assert {name: one["verdict"] for name, one in fields["metrics"].items()} == dict.fromkeys(
        ("em", "f1", "tokens"), "better"
    )
    assert fields["metrics"]["em"]["p_adjusted"] == pytest.approx(2 / 2**12)
    assert (fields["n"], fields["rose"], fields["fell"]) == (12, 12, 0)
    head, *rows = comparison.table()
    assert head[1:3] == ("a", "b")
    assert [line[0] for line in rows] == ["em", "f1", "tokens"]
    assert {one.verdict for one in compare(b, a, seed=0).rows} == {"worse"}


def test_a_run_against_itself_is_not_shown_to_be_better() -> None:
    comparison = compare(of_rows("x", OLD), of_rows("x", OLD), seed=0)
    assert (comparison.a.name, comparison.b.name) == ("x (A)", "x (B)")
    for one in comparison.rows:
        assert one.judged is not None
        assert (one.judged.result.diff, one.judged.adjusted) == (0.0, 1.0)
        assert one.verdict == "not shown to be better"
    assert (comparison.changed, comparison.rose, comparison.fell) == ((), 0, 0)


def test_the_order_of_the_rows_does_not_matter() -> None:
    mixed = [row(i, "red", em=float(i % 3 > 0), f1=i / 40) for i in range(30)]
    old = [row(i, "blue", em=float(i % 4 > 1), f1=i / 50) for i in range(30)]
    here = compare(of_rows("a", old), of_rows("b", mixed), seed=1)
    there = compare(of_rows("a", old[::-1]), of_rows("b", mixed[7:] + mixed[:7]), seed=1)
    assert [one.to_json() for one in here.rows] == [one.to_json() for one in there.rows]
    assert here.changes_table() == there.changes_table()


def test_the_greatest_changes_come_first_with_both_predictions() -> None:
    a = [row(0, "blue", em=1.0, f1=0.5), row(1, "sky", em=0.0, f1=1.0), row(2, None, em=0.0, f1=0.2)]
    b = [row(0, "blue", em=1.0, f1=0.5), row(1, "sea", em=0.0, f1=0.0), row(2, "red " * 40, em=1.0, f1=0.7)]
    comparison = compare(of_rows("a", a), of_rows("b", b), seed=0, by="f1", changed=2)
    assert [change.a.id for change in comparison.changed] == ["q1", "q2"]
    assert (comparison.rose, comparison.fell) == (1, 1)
    head, first, second = comparison.changes_table()
    assert head[-2:] == ("a (f1)", "b (f1)")
    assert first == ("q1", "Question 1?", "red | crimson", "1.000 sky", "0.000 sea")
    assert second[3] == "0.200 none (the reply was no JSON)"
    assert second[4].endswith("…")
    assert comparison.to_json()["changed"][1]["b"]["prediction"] == "red " * 40
    assert "a: 1 of 3 questions failed: the reply was no JSON." in comparison.notes()
    assert comparison.to_json()["a"]["failure_reasons"] == [{"reason": "the reply was no JSON", "n": 1}]


def test_what_is_missing_on_one_side_is_counted_and_said() -> None:
    a = of_rows("a", [*OLD, row(20, "blue", em=None)])
    b = of_rows("b", [*NEW[2:], row(20, "red", em=1.0), row(30, "red", em=1.0)])
    comparison = compare(a, b, seed=0)
    fields = comparison.to_json()
    assert (fields["only_a"], fields["only_b"], fields["n"]) == (["q0", "q1"], ["q30"], 11)
    assert (fields["metrics"]["em"]["n"], fields["metrics"]["em"]["unscored"]) == (10, 1)
    assert fields["metrics"]["f1"]["n"] == 11
    note = "em: 10 questions were compared; left out: 2 asked only of a, 1 asked only of b, 1 without a score"
    assert any(line.startswith(note) for line in comparison.notes())


def test_metrics_of_one_run_alone_are_named() -> None:
    more = [value | {"scores": value["scores"] | {"acc": 1.0}} for value in NEW]
    comparison = compare(of_rows("a", OLD), of_rows("b", more), seed=0)
    assert comparison.skipped == ("acc",)
    assert "acc: no metric of both runs, not compared." in comparison.notes()


def test_a_metric_that_never_applies_has_no_difference() -> None:
    none = [value | {"scores": {"em": 0.0, "recall@5": None}} for value in OLD]
    comparison = compare(of_rows("a", none), of_rows("b", none), seed=0)
    assert comparison.to_json()["metrics"]["recall@5"]["n"] == 0
    assert comparison.table()[2][-1] == "no common question"


def judged_by(backend: str, rows: Sequence[dict[str, Any]] = OLD) -> ScoredRun:
    return of_rows(backend, [value | {"backends": {"em": backend}} for value in rows])


MIXED = ScoredRun("mixed", {**judged_by("x", OLD[:6]).answered, **judged_by("y", OLD[6:]).answered})


@pytest.mark.parametrize(
    ("a", "b", "by", "says"),
    [
        (of_rows("a", OLD), of_rows("b", [row(99, "red", em=1.0)]), "", "share no question id"),
        (
            of_rows("a", OLD),
            of_rows("b", [*NEW[:3], NEW[3] | {"answers": ["green"]}, *NEW[4:]]),
            "",
            "1 of 12 shared ids, such as 'q3', have another question",
        ),
        (
            of_rows("a", OLD),
            of_rows("b", [value | {"scores": {"acc": 1.0}} for value in NEW]),
            "",
            "share no metric",
        ),
        (of_rows("a", OLD), of_rows("b", NEW), "emm", "Did you mean 'em'"),
        (
            judged_by("lexical"),
            judged_by("judge m"),
            "",
            "'em' was judged by 'lexical' in lexical and by 'judge m' in judge m",
        ),
        (MIXED, judged_by("x"), "", "mixed mixes backends of 'em': 'x' and 'y'"),
    ],
    ids=range(6),
)
def test_runs_that_are_not_alike_are_refused(a: ScoredRun, b: ScoredRun, by: str, says: str) -> None:
    with pytest.raises((UsageError, UnknownName), match=says):
        compare(a, b, seed=0, by=by)


def test_the_backend_stands_beside_the_metric() -> None:
    comparison = compare(judged_by("lexical"), ScoredRun("b", judged_by("lexical", NEW).answered), seed=0)
    assert comparison.table()[1][0] == "em (lexical)"
    assert comparison.to_json()["metrics"]["em"]["backend"] == "lexical"
    assert comparison.to_json()["metrics"]["f1"]["backend"] == ""


def test_every_problem_of_a_file_is_reported_with_its_line(tmp_path: Path) -> None:
    bad = [
        OLD[0], OLD[0], [1], {"id": "x"}, {"id": "y", "scores": {"em": "1"}},
        {"id": "z", "scores": {"em": True}},
        {"id": "u", "scores": {}, "prediction": 3}, {"id": "v", "scores": {}, "answers": "red"},
        {"id": "w", "scores": {}, "counters": []}, {"id": "", "scores": {}},
    ]  # fmt: skip
    path = write_rows(tmp_path / "bad.jsonl", bad)
    path.write_text(path.read_text("utf-8") + '\n{"id": "t", "scores": {"em": NaN}}\nnot json\n', "utf-8")
    with pytest.raises(DataError) as error:
        read(path)
    message = str(error.value)
    for part in (
        "line 2: the id 'q0' is used twice",
        "line 3: not a JSON object",
        "line 4: scores: Field required",
        "line 5: scores.em: Input should be a valid number, found '1'",
        "line 6: scores.em: Input should be a valid number, found True",
        "line 7: prediction: Input should be a valid string, found 3",
        "line 8: answers: Input should be a valid tuple, found 'red'",
        "line 9: counters: Input should be a valid dictionary, found []",
        "line 10: id: String should have at least 1 character, found ''",
        "line 12: scores.em: Input should be a finite number, found nan",
        "and 1 more",
    ):
        assert part in message
