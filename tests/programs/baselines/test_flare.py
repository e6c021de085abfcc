"""FLARE, through the public API, on scripted targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Search
from ragc.targets.base import Reply, TokenLogprob
from ragc.testing import FailingSource, ScriptedTarget
from tests.programs.baselines.common import Echo, count_requests, script_replies, tokens

NO_DOUBT: dict[str, Any] = {"spans": []}


def build_program(target: ScriptedTarget, local: Any = None, **knobs: Any) -> RagProgram:
    return method("flare").build(Runtime({"main": target}, {"local": local or Echo([])}), knobs)


def sentence(*pairs: tuple[str, float]) -> Reply:
    """A reply in JSON whose sentence is made of `pairs`; the frame's tokens are very unlikely."""
    return tokens(('{"', 0.001), ("sentence", 0.001), ('": "', 0.001), *pairs, ('"}', 0.001))


END = sentence()


def test_looks_up_an_unsure_sentence_without_its_worst_tokens() -> None:
    target = ScriptedTarget(
        [
            sentence(("Ann", 0.9), (" was born", 0.9), (" in", 0.7), (" 1901", 0.2), (".", 0.99)),
            sentence(("Ann was born in 1910.", 0.5)),
            sentence(("She sang.", 0.85)),
            END,
            {"answer": "1910"},
        ],
        hold=True,
    )
    prediction = build_program(target)(question="When?")
    queries = [e.query for e in prediction.trace if isinstance(e, Search)]
    assert queries == ["When?", "Ann was born in"]
    assert (prediction.answer, target.replies_left, target.steps) == ("1910", 0, 5)
    assert "Draft: Ann was born in 1910. She sang." in target.requests[-1].messages[-1].content
    assert [r.logprobs for r in target.requests] == [True] * 4 + [False]
    assert "So far: Ann was born in 1910. She sang." in target.requests[3].messages[-1].content
    assert (prediction.counters["flare_sentences"], prediction.counters["flare_lookups"]) == (2, 1)


@pytest.mark.parametrize(
    ("knobs", "queries"),
    [
        ({"flare_theta": 0.0}, ["Q?"]),
        ({"flare_theta": 0.6}, ["Q?"]),
        ({}, ["Q?", "Sure maybe."]),
        ({"flare_beta": 0.7}, ["Q?", "Sure"]),
        ({"flare_beta": 1.0}, ["Q?", "Sure maybe."]),
        ({"first": False}, ["Sure maybe."]),
    ],
)
def test_thresholds_decide_what_is_looked_up(knobs: dict[str, Any], queries: list[str]) -> None:
    target = ScriptedTarget(script_replies(sentence=sentence(("Sure", 0.9), (" maybe.", 0.6)), answer="x"))
    prediction = build_program(target, sentences=1, **knobs)(question="Q?")
    assert [e.query for e in prediction.trace if isinstance(e, Search)] == queries
    assert count_requests(target) == {"sentence": 2 if "Sure" in queries[-1] else 1, "answer": 1}


def test_stops_at_a_repetition() -> None:
    target = ScriptedTarget(script_replies(sentence=sentence(("Again.", 0.9)), answer="x"))
    prediction = build_program(target, sentences=8)(question="Q?")
    assert (prediction.counters["flare_sentences"], prediction.counters["dropped"]) == (1, 1)


def test_without_log_probabilities_asks_for_unsure_spans() -> None:
    blind = ScriptedTarget(
        [
            {"sentence": "Ann was born in 1901 in Rome."},
            {"doubts": {"spans": [
                {"span": "1901", "confidence": 20}, {"span": "Rome", "confidence": 60},
                {"span": "Paris", "confidence": 1},
            ]}},
            {"sentence": "Ann was born in 1910."},
            {"sentence": "Sure."},
            {"doubts": NO_DOUBT},
            {"answer": "1910"},
        ],
        capabilities=("schema",),
    )  # fmt: skip
    prediction = build_program(blind, uncertainty="spans", sentences=2)(question="When?")
    assert [e.query for e in prediction.trace if isinstance(e, Search)] == [
        "When?",
        "Ann was born in in Rome.",
    ]
    assert (prediction.answer, prediction.counters["dropped"], blind.replies_left) == ("1910", 1, 0)
    assert not any(request.logprobs for request in blind.requests)


def test_looks_up_the_whole_of_a_sentence_whose_reply_was_repaired() -> None:
    first = Reply("{}", logprobs=(TokenLogprob("{}", -0.01),))
    target = ScriptedTarget([first, '{"sentence": "Ann sang."}', END, END, {"answer": "x"}])
    prediction = build_program(target)(question="Q?")
    assert [e.query for e in prediction.trace if isinstance(e, Search)] == ["Q?", "Ann sang."]
    assert (prediction.counters["repairs"], prediction.counters["flare_sentences"]) == (1, 1)


def test_keeps_its_draft_when_a_lookup_finds_nothing() -> None:
    target = ScriptedTarget(script_replies(sentence=sentence(("Maybe.", 0.1)), answer="x"))
    prediction = build_program(target, local=FailingSource(), sentences=1, finish="text")(question="Q?")
    assert (prediction.answer, prediction.counters["failed_searches"], len(target.requests)) == (
        "Maybe.",
        2,
        1,
    )


def test_a_forgetful_draft_reads_passages_only_where_it_was_unsure() -> None:
    target = ScriptedTarget(
        [
            sentence(("Sure.", 0.9)),
            sentence(("Unsure.", 0.1)),
            sentence(("Now sure.", 0.9)),
            END,
            {"answer": "x"},
        ]
    )
    prediction = build_program(target, forget=True)(question="Q?")
    drafts = [request.messages[-1].content for request in target.requests[:-1]]
    assert ["text p0" in draft for draft in drafts] == [True, False, True, False]
    assert [p.id for p in prediction.passages] == ["Unsure. 0", "Unsure. 1"]


# One sentence at a time.


def test_only_the_first_sentence_of_a_draft_counts() -> None:
    """What follows is neither looked up, nor doubted, nor written down."""
    draft = sentence(
        ("Dr. Ann", 0.95), (" sang.", 0.9), (" Bob", 0.9), (" was born", 0.9), (" in 1901", 0.1), (".", 0.9)
    )
    target = ScriptedTarget([draft, sentence(("Bob was", 0.9), (" old.", 0.2)), END, END, {"answer": "x"}])
    prediction = build_program(target)(question="When?")
    assert [e.query for e in prediction.trace if isinstance(e, Search)] == ["When?", "Bob was"]
    assert "So far: Dr. Ann sang." in target.requests[1].messages[-1].content
    assert "Draft: Dr. Ann sang. Bob was old." in target.requests[-1].messages[-1].content
    assert "1901" not in "".join(r.messages[-1].content for r in target.requests)


def cut_draft(*pairs: tuple[str, float]) -> Reply:
    """A reply that its limit of tokens ends in the middle of the sentence."""
    return replace(tokens(('{"sentence": "', 0.001), *pairs), finish="length")


def test_a_sentence_that_is_cut_is_not_written_down() -> None:
    target = ScriptedTarget([cut_draft(("Bob was born in Wars", 0.9)), {"answer": "x"}])
    prediction = build_program(target)(question="Q?")
    assert "Wars" not in target.requests[-1].messages[-1].content
    assert (prediction.counters["flare_sentences"], prediction.counters["dropped"]) == (0, 1)
    assert prediction.answer == "x"


def test_a_cut_sentence_that_is_unsure_is_looked_up_and_written_again() -> None:
    cut = cut_draft(("Bob was born in", 0.9), (" Wars", 0.1))
    target = ScriptedTarget([cut, sentence(("Bob was born in Warsaw.", 0.9)), END, {"answer": "x"}])
    prediction = build_program(target)(question="Q?")
    assert [e.query for e in prediction.trace if isinstance(e, Search)] == ["Q?", "Bob was born in"]
    assert "Draft: Bob was born in Warsaw." in target.requests[-1].messages[-1].content
