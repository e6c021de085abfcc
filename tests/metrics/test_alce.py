"""ALCE's scores of what is said, against hand computations and the stored figures of its human evaluation."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from ragc.errors import UsageError
from ragc.metrics.alce import METRICS, answer_line, is_list, without_citations
from ragc.metrics.base import Outcome
from tests.paths import SHARED_DATA

ALCE = SHARED_DATA / "alce"
needs_data = pytest.mark.skipif(not ALCE.is_dir(), reason="the data sets of ../shared/data are not here")
BY_ID = {metric.id: metric for metric in METRICS}


def score(id: str, prediction: Any, golds: tuple[str, ...] = (), **extra: object) -> float | None:
    return BY_ID[id].score(Outcome(prediction, golds, extra=extra))


def readings(*short_answers: list[str]) -> list[dict[str, object]]:
    return [{"question": "?", "short_answers": answers} for answers in short_answers]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("in 1990 [3].", "in 1990."),
        ("both[1][2] and [12] more", "both and more"),
        ("one [1, 2] mark", "one, 2 mark"),  # only the first number is a citation to ALCE
        ("stray ] and [a] and |", "stray  and [a and"),
        ("two  [1] spaces", "two  spaces"),
    ],
)
def test_citations_go_by_the_rule_of_the_script(text: str, left: str) -> None:
    assert without_citations(text) == left


def test_only_the_first_line_counts_after_stripping() -> None:
    assert answer_line("\n  one [1].\nParis") == "one [1]."
    assert answer_line(None) == answer_line(" \n ") == ""
    assert score("alce_str_em", "\n London\nParis", qa_pairs=readings(["Paris"])) == 0
    assert score("qampari_rec", "London\nParis", answers=[["Paris"]]) == 0


@pytest.mark.parametrize(
    ("prediction", "share", "whole"),
    [
        ("It fell in June 29, 2007 [1], or in 2004.", 1.0, 1.0),
        ("It fell on june 29 2007", 0.5, 0.0),
        ("It fell on June [2] 29, 2007", 0.5, 0.0),  # the mark is gone before the comparison
        ("It was 12004", 0.5, 0.0),  # characters, not words
        ("", 0.0, 0.0),
        (None, 0.0, 0.0),
    ],
)
def test_str_em_is_the_share_of_readings_and_hit_asks_for_all(
    prediction: str | None, share: float, whole: float
) -> None:
    pairs = readings(["June 29, 2007.", "29 June 2007"], ["2004"])
    assert score("alce_str_em", prediction, qa_pairs=pairs) == share
    assert score("alce_str_hit", prediction, qa_pairs=pairs) == whole


def test_a_short_answer_that_normalises_to_nothing_is_in_every_text_but_in_no_missing_one() -> None:
    assert score("alce_str_em", "anything", qa_pairs=readings(["The"], ["x"])) == 0.5
    assert score("alce_str_em", None, qa_pairs=readings(["The"])) == 0


def test_a_reading_without_short_answers_is_missed_and_one_text_is_a_list_of_one() -> None:
    pairs = [{"short_answers": []}, {}, {"short_answers": "Ada"}]
    assert score("alce_str_em", "Ada", qa_pairs=pairs) == pytest.approx(1 / 3)


def test_str_em_does_not_apply_without_readings() -> None:
    assert score("alce_str_em", "Ada", ("Ada",)) is None
    assert score("alce_str_hit", "Ada", ("Ada",), qa_pairs=[]) is None


GOLD = [["Ada"], ["Bo", "Bob"], ["C"], ["D"], ["E"], ["F"], ["G"], ["H"]]


@pytest.mark.parametrize(
    ("prediction", "prec", "rec", "rec_5"),
    [
        ("Ada [1], bob [2], Zoe.", 2 / 3, 2 / 8, 2 / 5),
        ("Ada, Ada, Bo, Bob", 1.0, 2 / 8, 2 / 5),  # what is repeated counts in the precision only
        ("Ada, Zoe, Zoe", 1 / 3, 1 / 8, 1 / 5),
        ("Ada, Bo, C, D, E, F", 1.0, 6 / 8, 1.0),
        ("Ada,, the, ?,", 1.0, 1 / 8, 1 / 5),  # items that normalise to nothing are no items
        ("Ada,.", 1.0, 1 / 8, 1 / 5),
        ("Ada and Bo", 0.0, 0.0, 0.0),
        (" . ", 0.0, 0.0, 0.0),
        ("", 0.0, 0.0, 0.0),
        (None, 0.0, 0.0, 0.0),
    ],
)
def test_qampari_by_hand(prediction: str | None, prec: float, rec: float, rec_5: float) -> None:
    expected = {"prec": prec, "rec": rec, "rec_5": rec_5}
    expected["f1"] = 2 * prec * rec / (prec + rec) if prec + rec else 0
    expected["f1_5"] = 2 * prec * rec_5 / (prec + rec_5) if prec + rec_5 else 0
    for name, value in expected.items():
        assert score(f"qampari_{name}", prediction, answers=GOLD) == pytest.approx(value), name


def test_without_a_list_of_answers_the_golds_are_aliases_of_one() -> None:
    assert score("qampari_f1", "Zoe, NYC", ("New York", "NYC")) == pytest.approx(2 / 3)
    assert score("qampari_f1", "Zoe") is None
    assert not is_list(Outcome("Zoe", ("Ada",)))
    assert is_list(Outcome("Zoe", extra={"answers": [["Ada"]]}))


@pytest.mark.parametrize(
    ("id", "prediction", "extra"),
    [
        ("alce_str_em", ["Ada"], {"qa_pairs": readings(["Ada"])}),
        ("alce_str_em", "Ada", {"qa_pairs": "Ada"}),
        ("alce_str_em", "Ada", {"qa_pairs": ["Ada"]}),
        ("alce_str_hit", "Ada", {"qa_pairs": [{"short_answers": [7]}]}),
        ("qampari_f1", 7, {"answers": GOLD}),
        ("qampari_f1", "Ada", {"answers": "Ada"}),
        ("qampari_f1", "Ada", {"answers": [[["Ada"]]]}),
    ],
)
def test_what_is_no_text_is_refused_in_one_sentence(id: str, prediction: Any, extra: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        score(id, prediction, **extra)


@needs_data
def test_every_stored_str_em_of_the_human_evaluation_is_met() -> None:
    lines = (ALCE / "asqa_questions.jsonl").read_text("utf-8").splitlines()
    pairs = {row["id"]: row["qa_pairs"] for row in map(json.loads, lines)}
    stored = gzip.decompress((ALCE / "human_eval_utility_completed.json.gz").read_bytes())
    systems = json.loads(stored)["asqa"]
    checked = 0
    for rows in systems.values():
        for id, row in rows.items():
            if id in pairs:
                flags = row["automatic_correctness_scores"]
                assert score("alce_str_em", row["output"], qa_pairs=pairs[id]) == pytest.approx(
                    sum(flags) / len(flags)
                )
                assert score("alce_str_hit", row["output"], qa_pairs=pairs[id]) == float(all(flags))
                checked += len(flags)
    assert checked == 720


def test_a_blank_gold_of_the_data_is_never_found_but_is_wanted() -> None:
    assert score("qampari_rec", "Ada, , Bo", answers=[["Ada"], ["Bo"], [""], ["C"]]) == 0.5
