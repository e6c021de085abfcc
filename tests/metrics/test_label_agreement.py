"""Agreement with a person's labels beside judged scores: of an evaluation, of rows, and in a report."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.cli.main import main
from ragc.compiled import evaluate
from ragc.compiled.evaluate import Evaluation
from ragc.compiled.opened import open_program
from ragc.errors import DataError, UsageError
from ragc.metrics.labels import LabelAgreement, beside, digest
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import RECIPE, write_data, written
from tests.support.rows import read_rows, write_rows

LABELLED = 60


def put(folder: Path, **scores: Callable[[int], float | None]) -> Path:
    """Rows whose answers are right where their number is even, with the judged `scores` of each number."""
    families = {"judge_acc": "judge", "f1": ""}
    rows = [
        {
            "id": f"q{n}",
            "question": f"question {n}",
            "answers": ["x"],
            "prediction": f"answer {n}",
            "scores": {name: score(n) for name, score in scores.items()},
            "backends": {families.get(name, name): "judge model" for name in scores if name != "f1"},
        }
        for n in range(LABELLED)
    ]
    write_rows(folder / "rows.jsonl", rows)
    return folder / "rows.jsonl"


def agreement(rows: Path, **how: Any) -> LabelAgreement:
    """How far people and the judge of `rows` agree."""
    found = ragc.summarize(rows, **how).agreement
    assert found
    return found


def even(row: Any) -> str:
    return "correct" if int(row["question"].split()[-1]) % 2 == 0 else "wrong"


def test_kappa_stands_beside_judged_scores_and_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The judge errs on the answers below 12: 48 of 60 agree, and chance is a half.
    rows = put(
        tmp_path,
        judge_acc=lambda n: float((n % 2 == 0) is (n >= 12)),
        f1=lambda n: float(n % 2 == 0),
        faithfulness=lambda n: 0.5 + n / 200 if n % 2 == 0 else n / 200,
    )
    assert ragc.summarize(rows).agreement is None
    ragc.label_answers(rows, even)
    result = agreement(rows)
    assert set(result.metrics) == {"judge_acc", "faithfulness"}
    yes_or_no, share = result.metrics["judge_acc"], result.metrics["faithfulness"]
    assert yes_or_no.kappa.mean == pytest.approx(0.6)
    assert (yes_or_no.area, result.remarks) == (None, ())
    assert (share.kappa.mean, share.area and share.area.mean) == (1.0, 1.0)
    assert main(["eval", str(rows)]) == 0
    shown = capsys.readouterr().out
    assert "n=60  (kappa 0.60 [" in shown
    assert "area 1.00 [" in shown
    assert main(["eval", str(rows), "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)["agreement"]["metrics"]
    assert (fields["judge_acc"]["kappa"], fields["judge_acc"]["n"]) == (pytest.approx(0.6), LABELLED)
    assert fields["faithfulness"]["threshold"] == 0.5


def test_a_report_has_it_beside_the_mean(tmp_path: Path) -> None:
    rows = put(tmp_path, judge_acc=lambda n: float((n % 2 == 0) is (n >= 12)), f1=lambda n: 1.0)
    ragc.label_answers(rows, even)
    report = ragc.report(rows, out=tmp_path / "report.html")
    page = report.page.read_text("utf-8")
    assert "kappa 0.60, " in page
    assert "60 labels" in page
    scores = {one["metric"]: one for one in read_rows(report.rows) if one["row"] == "score"}
    assert scores["judge_acc"]["agreement"]["kappa"] == pytest.approx(0.6)
    assert scores["f1"]["agreement"] == {}


@pytest.mark.parametrize(("less", "kappa"), [("crag_halluc", 1.0), ("crag_score", -1.0)])
def test_less_of_a_metric_may_be_better(tmp_path: Path, less: str, kappa: float) -> None:
    rows = put(tmp_path, **{less: lambda n: float(n % 2)})
    values = [{**row, "backends": {"crag": "judge model"}} for row in read_rows(rows)]
    write_rows(rows, values)
    ragc.label_answers(rows, even)
    assert agreement(rows).metrics[less].kappa.mean == kappa


def put_labels(folder: Path, verdicts: dict[int, str], question: str = "question {}") -> Path:
    labels = []
    for n, verdict in verdicts.items():
        row = {"question": question.format(n), "prediction": f"answer {n}"}
        labels.append({**row, "label": verdict, "answer": digest(row)})
    write_rows(folder / "labels.jsonl", labels)
    return folder / "labels.jsonl"


def test_where_there_is_no_kappa_a_sentence_says_why(tmp_path: Path) -> None:
    rows = put(
        tmp_path,
        judge_acc=lambda n: float(n % 3 == 0),
        faithfulness=lambda n: None if n < 10 else 1.0,
    )
    few = agreement(rows, labels=put_labels(tmp_path, dict.fromkeys(range(18), "correct")))
    assert few.metrics == {}
    assert few.remarks[0].startswith("judge_acc: no agreement with people, which needs 30 labels")
    assert "there are 18, so 12 are lacking" in few.remarks[0]
    assert "there are 8 (10 of them without a score left out), so 22 are lacking" in few.remarks[1]
    alike = agreement(rows, labels=put_labels(tmp_path, dict.fromkeys(range(40), "wrong")))
    assert alike.remarks[0].startswith("judge_acc: kappa is undefined, as all 40 labels say wrong")
    assert alike.remarks[1].startswith("faithfulness: kappa is undefined, as all 30 labels say wrong")


def test_labels_of_other_questions_and_answers_do_not_count(tmp_path: Path) -> None:
    rows = put(tmp_path, judge_acc=lambda n: float(n % 2 == 0))
    mixed = put_labels(tmp_path, {n: "correct" if n % 2 == 0 else "wrong" for n in range(70)})
    values = read_rows(rows)
    write_rows(rows, [{**row, "prediction": "new"} if n < 5 else row for n, row in enumerate(values)])
    result = agreement(rows, labels=mixed)
    assert (result.labels, result.metrics["judge_acc"].kappa.n) == (55, 55)
    (remark,) = result.remarks
    assert remark.startswith(
        "15 of the 70 labels in labels.jsonl do not count: 10 of questions that were not"
    )
    assert remark.endswith("asked, 5 of other answers to the questions.")


@pytest.mark.parametrize(
    ("metric", "name", "error", "says"),
    [
        ("judge_acc", "labels.jsonl", UsageError, "None of the 40 labels in"),
        ("judge_acc", "absent.jsonl", UsageError, "there is no such file"),
        ("judge_acc", "strange.jsonl", DataError, "is no label"),
        ("judge_acc", "empty.jsonl", UsageError, "holds no label"),
        ("f1", "labels.jsonl", UsageError, "no metric of this run asks a judge"),
    ],
)
def test_labels_that_cannot_apply_are_refused(
    metric: str, name: str, error: type[Exception], says: str, tmp_path: Path
) -> None:
    put_labels(tmp_path, dict.fromkeys(range(40), "correct"), "another {}")
    write_rows(tmp_path / "strange.jsonl", [{"label": "perhaps", "answer": "1"}])
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(error, match=says):
        ragc.summarize(put(tmp_path, **{metric: lambda n: 1.0}), labels=tmp_path / name)


def scored(
    folder: Path, labels: Path | None, metric: str = "judge_acc"
) -> tuple[Evaluation, list[ChatRequest]]:
    """40 test questions, half of them judged right at random, with `labels`."""
    written(folder, RECIPE + '[targets.judge]\nkind = "embedded"\n')
    write_data(folder, 75)
    rng = random.Random(2)
    judge = ScriptedTarget(lambda _: {"correct": rng.random() < 0.5})
    main_model = ScriptedTarget(lambda _: {"answer": "no colour"})
    sets = [f"metrics.report=['{metric}']", f"search.objectives=['{metric}']"]
    opened = open_program(
        folder / "recipe.toml",
        sets,
        store=CallStore(folder / "store"),
        targets={"main": main_model, "judge": judge},
    )
    try:
        return evaluate.score(opened, "test", labels=labels), main_model.requests
    finally:
        opened.close()


def test_an_evaluation_has_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ragc.cli import console

    plain, _ = scored(tmp_path, None)
    rows = tmp_path / "rows.jsonl"
    write_rows(rows, list(plain.row_values()))
    verdicts = iter(plain.rows)
    ragc.label_answers(rows, lambda row: "correct" if next(verdicts).scores["judge_acc"] else "wrong")
    labelled, _ = scored(tmp_path, beside(rows))
    assert labelled.metrics == plain.metrics
    assert labelled.to_json()["agreement"]["labels"] == 40
    assert "agreement" not in plain.to_json()
    console.print_evaluation(labelled)
    assert "(kappa 1.00 [" in capsys.readouterr().out


def test_labels_are_checked_before_anything_is_sent(tmp_path: Path) -> None:
    sent: list[ChatRequest] = []
    labels = put_labels(tmp_path, dict.fromkeys(range(40), "correct"))
    with pytest.raises(UsageError, match="None of the 40 labels"):
        _, sent = scored(tmp_path, labels)
    with pytest.raises(UsageError, match="no metric of this run asks a judge"):
        _, sent = scored(tmp_path, labels, metric="em")
    assert sent == []
