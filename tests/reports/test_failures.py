"""Rows put into groups by where they failed: by scores, words, passages and traces, and from strangers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragc.reports.failures import GROUPS, deciding_metric, group_of, refuses, same_content

QUESTION = "Who married Robert Schumann?"


def row(prediction: str | None, **more: Any) -> dict[str, Any]:
    """A row whose answer saw one passage, which holds the gold answer."""
    return {
        "id": "q1",
        "question": QUESTION,
        "answers": ["Clara Wieck"],
        "prediction": prediction,
        "scores": {"f1": 0.0, "em": 0.0, "recall@5": 1.0},
        "gold_ids": ["clara"],
        "passages": ["clara"],
        "failure": "",
        "trace": [
            {
                "call": "answer",
                "inputs": {"question": QUESTION, "passages": ["In 1840 Schumann married Clara Wieck."]},
                "outputs": {"answer": prediction},
            }
        ],
        **more,
    }


def seeing(text: str, prediction: str = "Bach") -> list[dict[str, Any]]:
    return [{"call": "answer", "inputs": {"passages": [text]}, "outputs": {"answer": prediction}}]


UNREAD = [{"note": "answer", "outcome": "unreadable: A reply cannot be read", "calls": 2}]

CASES = {
    "full marks": (row("Clara Wieck", scores={"em": 1.0}), "right"),
    "full marks by the first metric only": (
        row("It was Clara Wieck", scores={"f1": 0.8, "acc": 1.0}),
        "wording",
    ),
    "full marks that retrieval has": (
        row("Bach", scores={"recall@5": 1.0, "mrr": 1.0, "f1": 0.1}),
        "not_used",
    ),
    "a judge agrees": (row("his piano teacher's girl", scores={"em": 0.0, "judge_acc": 1.0}), "wording"),
    "gold inside the answer": (row("He married Clara Wieck in 1840."), "wording"),
    "the answer inside gold": (row("Clara"), "wording"),
    "the answer inside gold and the question": (row("Schumann", answers=["Clara Schumann"]), "not_used"),
    "the question repeated": (row(QUESTION, answers=["Schumann"]), "not_used"),
    "no idea": (row("I don’t know."), "refused"),
    "blank": (row(" "), "refused"),
    "CRAG says missing": (row("...", scores={"crag_acc": 0.0, "crag_miss": 1.0}), "refused"),
    "another answer": (row("Bach"), "not_used"),
    "a chunk of the gold passage": (row("Bach", passages=["bach", "clara#3"]), "not_used"),
    "other passages": (row("Bach", passages=["bach"]), "not_retrieved"),
    "nothing searched": (row("Bach", passages=[], gold_ids=[]), "not_retrieved"),
    "half of them, without the answer": (
        row("Bach", gold_ids=["clara", "robert"], trace=seeing("On music.")),
        "not_retrieved",
    ),
    "half of them, with the answer": (row("Bach", gold_ids=["clara", "robert"]), "not_used"),
    "half of them, and any text has the answer": (
        row("yes", answers=["no"], gold_ids=["clara", "robert"]),
        "not_used",
    ),
    "no gold passages, the text has it": (row("Bach", gold_ids=[]), "not_used"),
    "no gold passages, nor the text": (row("Bach", gold_ids=[], trace=seeing("On music.")), "not_retrieved"),
    "texts stripped, recall 0": (
        {"prediction": "Bach", "answers": ["Clara"], "scores": {"em": 0.0, "recall@5": 0.0}},
        "not_retrieved",
    ),
    "texts stripped, recall 1": (
        {"prediction": "Bach", "answers": ["Clara"], "scores": {"em": 0.0, "recall@5": 1.0}},
        "not_used",
    ),
    "texts stripped, recall between": (
        {"prediction": "Bach", "answers": ["Clara"], "scores": {"em": 0.0, "recall@5": 0.5}},
        "unclear",
    ),
    "unreadable": (row(None, failure="A reply cannot be read.", trace=UNREAD), "unreadable"),
    "unreadable, no trace": (row(None, failure="A reply cannot be read.", trace=[]), "unreadable"),
    "an exception": (row(None, failure="The module m raised KeyError: 'x'; mend it.", trace=[]), "failed"),
    "no prediction, and no reason": (row(None, trace=[]), "failed"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_put_where_it_failed(name: str) -> None:
    value, expected = CASES[name]
    assert group_of(value).id == expected
    assert group_of(json.loads(json.dumps(value))).id == expected


def test_the_deciding_metric_can_be_named() -> None:
    answered = row("It was Clara Wieck", scores={"em": 0.0, "acc": 1.0})
    assert (group_of(answered).id, group_of(answered, "acc").id) == ("wording", "right")
    assert (
        deciding_metric([row("x", scores={"tokens": 3.0, "recall@5": 1.0, "my:own": 0.5, "em": 0})])
        == "my:own"
    )
    assert deciding_metric([row("x", scores={"mrr": 1.0, "alce_cite_f1": 1.0})]) == ""


@pytest.mark.parametrize(
    "text",
    ["I don't know", "unknown", "None", "Not mentioned in the passages", "No information provided", "N/A",
     "I am not sure.", "I cannot answer this question", "The passages do not contain the answer.",
     "It cannot be determined"],
)  # fmt: skip
def test_words_to_that_effect_refuse(text: str) -> None:
    assert refuses(text)


@pytest.mark.parametrize(
    "text", ["no", "The", "Nothing Else Matters", "No Country for Old Men", "invalid question"]
)
def test_answers_do_not_refuse(text: str) -> None:
    assert not refuses(text)


@pytest.mark.parametrize(
    ("prediction", "gold", "question", "same"),
    [
        ("Hector Berlioz", "Louis-Hector Berlioz", "Who was French, Hector Berlioz or Donizetti?", True),
        ("President", "President of the United States", "Which position?", True),
        ("City", "City of Newcastle", "Which city?", False),
        ("New", "City of New South Wales", "Where?", False),
        ("Spider Man", "Spiderman", "", True),
        ("Wieck, Clara", "Clara Wieck", "", True),
        ("no, although some say yes", "no", "", True),
        ("They say no", "no", "", False),
        ("not known", "now", "", False),
        ("", "Clara", "", False),
        ("Clara", "", "", False),
        ("...", "!!!", "", False),
    ],
)
def test_content_is_compared_by_words(prediction: str, gold: str, question: str, same: bool) -> None:
    assert same_content(prediction, [gold], question) is same


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"prediction": 7, "failure": ["x"], "trace": {"call": 1}},
        {
            "prediction": "x",
            "scores": [1],
            "answers": "abc",
            "gold_ids": 5,
            "passages": {"a": 1},
            "trace": "no",
        },
        {"prediction": "x", "scores": {"em": "1", "f1": True}, "trace": [1, {"call": 2, "inputs": 3}]},
        {
            "prediction": "x",
            "answers": [None, 3, ["y"]],
            "trace": [{"call": "a", "inputs": {"p": [[["z"]]]}}],
        },
    ],
)
def test_a_row_from_elsewhere_may_hold_anything(value: dict[str, Any]) -> None:
    assert group_of(value) in GROUPS.values()


@pytest.mark.parametrize(
    ("failure", "group"),
    [
        ("A reply ran out of its 24 tokens while thinking. Set thinking_tokens.", "cut"),
        ('A reply refuses the request. It began "Sorry".', "declined"),
        ("A reply was stopped by a content filter of its server.", "filtered"),
        ('A reply calls tools in place of an answer. It began "a()".', "called_tools"),
        ("A reply does not fit its signature: answer: Field required.", "unreadable"),
    ],
)
def test_a_reply_without_an_answer_is_in_the_group_of_its_reason(failure: str, group: str) -> None:
    assert group_of({"prediction": None, "failure": failure}).id == group
    note = {"note": "answer", "outcome": f"unreadable: {failure}"}
    assert group_of({"prediction": None, "failure": "", "trace": [note]}).id == group
