"""Metrics that look for a gold in the prediction: hand computations, traps, and outside labels."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.metrics.base import Metric, Outcome
from ragc.metrics.short_answer import (
    LENIENT,
    bioasq_acc,
    choice_acc,
    hit1,
    popqa_match,
    slim_em,
)
from tests.paths import SHARED_DATA

DATA = SHARED_DATA
PREDICTIONS = DATA / "bioasq" / "mirage_predictions.jsonl.gz"

BY_ID = {metric.id: metric for metric in LENIENT}
texts = st.text(alphabet=st.sampled_from("abtheAN.-'’é1 "), max_size=12) | st.text(max_size=8)


def rows(path: Path) -> list[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("metric", "prediction", "golds", "expected"),
    [
        ("prefrag_acc", "It was THE Beatles.", ["the beatles"], 1.0),
        ("prefrag_acc", "It was Beatles", ["The Beatles"], 0.0),
        ("prefrag_acc", "a well known man", ["well-known"], 0.0),
        ("prefrag_acc", "USA", ["U.S.A."], 0.0),
        ("prefrag_acc", "it’s", ["it's"], 0.0),
        ("prefrag_acc", "unknown", ["no"], 1.0),
        ("prefrag_acc", "wrong", ["right", ""], 1.0),
        ("prefrag_acc", "", [""], 1.0),
        ("popqa_match", "He is a Politician.", ["politician"], 1.0),
        ("popqa_match", "he is in polit.", ["politician", "polit."], 1.0),
        ("popqa_match", "he is in politics", ["polit."], 0.0),
        ("bioasq_acc", "Yes.", ["yes"], 1.0),
        ("bioasq_acc", "No, although some say YES", ["yes"], 1.0),
        ("bioasq_acc", "No, although some say yes", ["no"], 1.0),
        ("bioasq_acc", "It is known.", ["no"], 0.0),
        ("bioasq_acc", "no-one knows", ["no"], 1.0),
        ("bioasq_acc", "yes_", ["yes"], 0.0),
        ("bioasq_acc", "nothing here", [""], 1.0),
        ("bioasq_acc", "...", [""], 0.0),
        ("bioasq_acc", "the gene IL2", ["il.2", "IL*2"], 0.0),
        ("bioasq_acc", "by C++ code", ["c++"], 0.0),
        ("bioasq_acc", "by C++x code", ["c++"], 1.0),
        ("bioasq_acc", "an unclosed ( here", ["unclosed ("], 0.0),
        ("choice_acc", "B", ["B"], 1.0),
        ("choice_acc", " B\n", ["B"], 1.0),
        ("choice_acc", "b", ["B"], 0.0),
        ("choice_acc", "B.", ["B"], 0.0),
        ("choice_acc", "(B)", ["B"], 0.0),
        ("choice_acc", "The answer is B", ["B"], 0.0),
        ("choice_acc", "AB", ["B"], 0.0),
        ("choice_acc", "B", ["2"], 1.0),
        ("choice_acc", "2", ["2"], 1.0),
        ("choice_acc", "2", ["B"], 0.0),
        ("choice_acc", "A", ["2"], 0.0),
        ("choice_acc", "E", ["5"], 1.0),
        ("choice_acc", "", [""], 0.0),
        ("slim_em", "Perth is in the Australia", ["Perth, in Australia", "perth", "Sydney"], 1 / 3),
        ("slim_em", "the well-known one", ["wellknown"], 1.0),
        ("slim_em", "a well known one", ["well-known"], 0.0),
        ("slim_em", "anything", ["the", "x"], 1 / 2),
        ("slim_em", "It’s 13", ["13", "It's"], 1 / 2),
        ("hit1", "Perth", ["Perth", "Sydney", "Hobart"], 1.0),
        ("hit1", "Perth", ["Sydney"], 0.0),
    ],
)
def test_hand_computed_scores(metric: str, prediction: str, golds: list[str], expected: float) -> None:
    assert BY_ID[metric].score(Outcome(prediction, tuple(golds))) == pytest.approx(expected)


def test_aliases_cap_the_matching_ratio_of_a_right_answer() -> None:
    aliases = ("Sunset Boulevard", "Sunset Blvd", "Sunset Bulevard", "West Sunset Boulevard", "Sunset Strip")
    assert slim_em("Sunset Boulevard", aliases) == 1 / 5
    assert hit1("Sunset Boulevard", aliases) == 1.0


def test_the_match_of_the_inference_script_looks_at_case() -> None:
    assert popqa_match("a Politician", ["politician"], cased=True) == 0.0
    assert popqa_match("a politician", ["politician"], cased=True) == 1.0


@given(
    st.sampled_from([metric for metric in LENIENT if metric.id != "slim_em"]),
    texts,
    st.lists(texts, max_size=4),
    texts,
)
def test_more_golds_never_hurt_but_in_the_ratio(
    metric: Metric, prediction: str, golds: list[str], another: str
) -> None:
    before, after = (metric.score(Outcome(prediction, tuple(g))) for g in (golds, [*golds, another]))
    assert (after or 0) >= (before or 0)


@pytest.mark.skipif(not PREDICTIONS.is_file(), reason="MIRAGE's predictions are not beside the repository")
@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("cot/OpenAI/gpt-4-32k", 84.30),
        ("rag_32/OpenAI/gpt-4-32k/medcorp/RRF-4", 92.56),
        ("rag_32/OpenAI/gpt-35-turbo-16k/medcorp/RRF-4", 90.29),
    ],
)
def test_choices_and_verdicts_reproduce_the_leaderboard_of_mirage(setting: str, expected: float) -> None:
    selection = [row for row in rows(PREDICTIONS) if row["setting"] == setting]
    letters, words = {"yes": "A", "no": "B"}, {"A": "Yes.", "B": "No."}
    by_letter = [choice_acc(row["choice"], [letters[row["gold"]]]) for row in selection]
    by_word = [bioasq_acc(words.get(row["choice"]), [row["gold"]]) for row in selection]
    assert by_letter == by_word == [float(row["correct"]) for row in selection]
    assert len(selection) == 618
    assert 100 * sum(by_letter) / len(selection) == pytest.approx(expected, abs=0.005)


@pytest.mark.skipif(
    not (DATA / "slimplm").is_dir(), reason="the labels of SlimPLM are not beside the repository"
)
@pytest.mark.parametrize("split", ["val", "test"])
def test_the_ratio_reproduces_the_labels_of_slimplm(split: str) -> None:
    labelled = rows(DATA / "slimplm" / f"v0104_mixed-llama7b-kiltbm25-{split}.jsonl.gz")
    assert len(labelled) == 400
    for row in labelled:
        golds = row.get("short_answers") or row["answer"]
        ratio = slim_em(row["llama7b_without_search_answer"], [golds] if isinstance(golds, str) else golds)
        assert (ratio > 0.5) == row["known"], row["question"]
