"""Corrective RAG, Self-RAG, FLARE and Chain-of-Note, through the public API, on scripted targets."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import dspy
import pytest

from ragc.errors import CapabilityMissing, ParseFailure, SourceError, UsageError
from ragc.programs.base import RagProgram
from ragc.programs.corrective_knobs import ChainOfNoteKnobs, CragKnobs, FlareKnobs, SelfRagKnobs
from ragc.programs.crag_strips import recomposed, strips
from ragc.programs.flare_tokens import mean_probability, pieces
from ragc.programs.knobs import Knobs
from ragc.programs.method import Method
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call, Search
from ragc.programs.typed import reply_schema
from ragc.records import Hit, Passage
from ragc.signatures.judges import (
    BetterQuery,
    NeedRetrieval,
    RelevanceCheck,
    RelevanceGrade,
    SearchWords,
    SupportGrade,
    Utility,
)
from ragc.signatures.notes import ReadingNotes
from ragc.signatures.uncertainty import Conclude, NextSentence, UncertainSpans
from ragc.targets.base import ChatRequest, Reply, TokenLogprob
from ragc.targets.embedded_schema import Narrowed
from ragc.testing import ListSource, ScriptedTarget

PROGRAMS: dict[str, tuple[str, type[Knobs], tuple[str, ...]]] = {
    "crag": ("ragc.programs.crag:Crag", CragKnobs, ("local", "web")),
    "selfrag": ("ragc.programs.selfrag:SelfRag", SelfRagKnobs, ("local",)),
    "flare": ("ragc.programs.flare:Flare", FlareKnobs, ("local",)),
    "chain_of_note": ("ragc.programs.chain_of_note:ChainOfNote", ChainOfNoteKnobs, ("local",)),
}
NO_DOUBT: dict[str, Any] = {"spans": []}


class Broken(ListSource):
    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        raise SourceError("the index is gone")


class Echo(ListSource):
    """A source whose passages are about the query, so that no two searches lead to the same request."""

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        return tuple(Hit(Passage(f"{query} {i}", "", f"text p{i} on {query}"), 1.0) for i in range(k))


def listed(prefix: str, n: int, text: str = "text") -> ListSource:
    return ListSource(
        [Passage(f"{prefix}{i}", f"Title {prefix}{i}", f"{text} {prefix}{i}") for i in range(n)]
    )


def made(
    id: str, target: ScriptedTarget, local: Any = None, web: Any = None, proxy: Any = None, **knobs: Any
) -> RagProgram:
    program, cls, sources = PROGRAMS[id]
    targets: dict[Any, Any] = {"main": target} | ({"proxy": proxy} if proxy else {})
    if local is None:
        local = Echo([]) if id == "flare" else listed("p", 20)
    runtime = Runtime(targets, {"local": local, "web": web or listed("w", 20)})
    return Method(id, "about", "paper", program, cls, sources=sources).build(runtime, knobs)


def field(request: ChatRequest) -> str:
    """The name of the last output that the request asks for."""
    assert request.schema is not None
    return str(list(request.schema["properties"])[-1])


def told(**replies: Any) -> Callable[[ChatRequest], Any]:
    """A script that gives each output its value; a function is given the request's last message."""

    def reply(request: ChatRequest) -> Any:
        assert request.schema is not None
        values = {}
        for name in request.schema["properties"]:
            value = replies.get(name, "because")
            values[name] = value(request.messages[-1].content) if callable(value) else value
        whole = values.get(field(request))
        return whole if isinstance(whole, Reply) else values

    return reply


def asked(target: ScriptedTarget) -> dict[str, int]:
    """How many requests there were by output."""
    names = [field(request) for request in target.requests]
    return {name: names.count(name) for name in dict.fromkeys(names)}


def graded(points: dict[str, int], other: int = -100) -> Callable[[str], Any]:
    """A grader that knows the points of passages by a word in them."""
    return lambda content: {"points": next((n for word, n in points.items() if word in content), other)}


def tokens(*pairs: tuple[str, float]) -> Reply:
    """A reply whose tokens are `pairs` of text and probability."""
    scored = tuple(TokenLogprob(text, math.log(p)) for text, p in pairs)
    return Reply("".join(text for text, _ in pairs), logprobs=scored)


# Corrective RAG


@pytest.mark.parametrize(
    ("points", "action", "calls", "shown_ids"),
    [
        ({"text p1": 80}, "correct", {"grade": 10, "answer": 1}, ["p1", "p0", "p2"]),
        ({}, "incorrect", {"grade": 15, "query": 1, "answer": 1}, ["w0", "w1", "w2"]),
        (
            {"text p1": 10},
            "ambiguous",
            {"grade": 15, "query": 1, "answer": 1},
            ["p1", "p0", "p2", "w0", "w1", "w2"],
        ),
    ],
)
def test_crag_takes_the_action_that_the_grades_ask_for(
    points: dict[str, int], action: str, calls: dict[str, int], shown_ids: list[str]
) -> None:
    target = ScriptedTarget(told(grade=graded(points), query="key words", answer="x"))
    said = made("crag", target)(question="Capital?")
    assert asked(target) == calls
    assert [p.id for p in said.passages] == shown_ids
    assert said.counters[f"crag_{action}"] == 1
    assert sum(said.counters[f"crag_{one}"] for one in ("correct", "incorrect", "ambiguous")) == 1
    queries = [(event.source, event.query) for event in said.trace if isinstance(event, Search)]
    assert queries == [("local", "Capital?")] + [("web", "key words")] * ("query" in calls)


def test_crag_grades_at_once_and_both_sides_of_an_ambiguous_find_go_side_by_side() -> None:
    script = told(grade=lambda content: {"points": 10}, query="words", answer="x")
    target = ScriptedTarget(script, hold=True)
    made("crag", target)(question="Q?")
    assert target.steps == 4  # grades; rewrite; grades of the web; answer
    assert target.peak == 10
    cut = ScriptedTarget(script, hold=True)
    long = ListSource([Passage("a", "A", "One. Two. Three. Four. Five. Six. Seven.")])
    made("crag", cut, local=long, strips="three_sentences")(question="Q?")
    assert cut.steps == 4  # the strips are graded while the query is rewritten
    assert asked(cut)["grade"] == 1 + 3 + 5


@pytest.mark.parametrize(
    ("knobs", "points", "calls"),
    [
        ({"actions": "no_correct"}, {"text p1": 80}, {"grade": 15, "query": 1, "answer": 1}),
        ({"actions": "no_incorrect"}, {}, {"grade": 15, "query": 1, "answer": 1}),
        ({"actions": "no_ambiguous"}, {"text p1": 10}, {"grade": 15, "query": 1, "answer": 1}),
        ({"crag_upper": 0.9}, {"text p1": 80}, {"grade": 15, "query": 1, "answer": 1}),
        ({"crag_upper": 0.1, "crag_lower": 1.0}, {"text p1": 10}, {"grade": 10, "answer": 1}),
        ({"rewrite": False}, {}, {"grade": 15, "answer": 1}),
        ({"select_web": False}, {}, {"grade": 10, "query": 1, "answer": 1}),
        ({"top_k": 2, "web_k": 3}, {}, {"grade": 5, "query": 1, "answer": 1}),
    ],
)
def test_crag_knobs_change_what_is_sent(
    knobs: dict[str, Any], points: dict[str, int], calls: dict[str, int]
) -> None:
    target = ScriptedTarget(told(grade=graded(points), query="words", answer="x"))
    made("crag", target, **knobs)(question="Q?")
    assert asked(target) == calls


@pytest.mark.parametrize(
    ("knobs", "points", "ids"),
    [
        ({"actions": "no_incorrect"}, {}, ["p0", "p1", "p2", "w0", "w1", "w2"]),
        ({"actions": "no_ambiguous"}, {"text p1": 10}, ["w0", "w1", "w2"]),
        ({"refine": False, "top_k": 4}, {"text p1": 80}, ["p0", "p1", "p2", "p3"]),
        ({"select_web": False}, {}, ["w0", "w1", "w2", "w3", "w4"]),
        ({"keep": 1}, {"text p1": 80}, ["p1"]),
        ({"crag_lower": -1.0, "keep": 1}, {}, ["p0", "w0"]),
    ],
)
def test_crag_knobs_change_what_is_shown(
    knobs: dict[str, Any], points: dict[str, int], ids: list[str]
) -> None:
    target = ScriptedTarget(told(grade=graded(points), query="words", answer="x"))
    assert [p.id for p in made("crag", target, **knobs)(question="Q?").passages] == ids


def test_crag_keeps_the_best_strips_and_bounds_how_many_are_graded() -> None:
    text = " ".join(f"Fact {i} stands." for i in range(12))
    target = ScriptedTarget(told(grade=graded({"Fact 6 ": 90, "Fact 0 ": 70}, 60), answer="x"))
    said = made(
        "crag", target, local=ListSource([Passage("a", "A", text)]), strips="three_sentences", keep=1
    )(question="Q?")
    assert said.passages[0].text == " ".join(f"Fact {i} stands." for i in (0, 1, 2, 6, 7, 8))
    many = ListSource([Passage("b", "B", "w " * 40 + " ".join(str(i) for i in range(500)))])
    target = ScriptedTarget(told(grade={"points": 90}, answer="x"))
    said = made("crag", target, local=many, strips="fifty_words", strips_max=5)(question="Q?")
    assert asked(target)["grade"] == 1 + 5
    assert said.counters["crag_strips_left"] == 6


def test_strips_cover_the_text_and_come_together_in_reading_order() -> None:
    whole = Passage("x#2", "X", "One. Two? Three! Four. Five.", start=7)
    cut = strips(whole, "three_sentences")
    assert [s.text for s in cut] == ["One. Two? Three!", "Four. Five."]
    assert recomposed([cut[1], cut[0]], cut) == (whole,)
    assert strips(whole, "whole") == (whole,)
    assert strips(Passage("e", "", ""), "fifty_words") == ()


def test_crag_binary_searches_the_web_only_when_a_passage_is_irrelevant() -> None:
    target = ScriptedTarget(told(relevant=True, answer="x"))
    said = made("crag", target, form="binary", top_k=3)(question="Q?")
    assert asked(target) == {"relevant": 3, "answer": 1}
    assert ([p.id for p in said.passages], said.counters["crag_web"]) == (["p0", "p1", "p2"], 0)
    target = ScriptedTarget(
        told(relevant=lambda content: "text p1" not in content, better_query="b", answer="x"), hold=True
    )
    said = made("crag", target, form="binary", top_k=3, web_k=1)(question="Q?")
    assert asked(target) == {"relevant": 3, "better_query": 1, "answer": 1}
    assert [p.id for p in said.passages] == ["p0", "p2", "w0"]
    assert target.steps == 3


def test_crag_says_which_role_grades_and_what_to_do_without_it() -> None:
    main, proxy = ScriptedTarget([{"answer": "x"}]), ScriptedTarget(told(grade={"points": 100}))
    made("crag", main, proxy=proxy, grader="proxy", top_k=2)(question="Q?")
    assert (len(main.requests), len(proxy.requests)) == (1, 2)
    with pytest.raises(UsageError, match=r'\[targets.judge\].*grader = "main"'):
        made("crag", main, grader="judge")


def test_crag_unreadable_grades_are_neither_good_nor_bad_and_an_empty_query_is_dropped() -> None:
    target = ScriptedTarget(
        lambda request: (
            "no" if '"grade"' in request.messages[0].content else told(query=" ", answer="x")(request)
        )
    )
    said = made("crag", target, top_k=1, web_k=1, select_web=False)(question="Q?")
    assert said.counters["crag_ambiguous"] == 1
    assert said.counters["dropped"] == 2
    assert [e.query for e in said.trace if isinstance(e, Search)] == ["Q?", "Q?"]


def test_crag_drops_passages_that_the_grader_cannot_be_shown() -> None:
    long = ListSource([Passage("a", "A", "word " * 400), Passage("b", "B", "short")])
    target = ScriptedTarget(told(grade={"points": 90}, answer="x"), context_tokens=300)
    said = made("crag", target, local=long)(question="Q?")
    assert ([p.id for p in said.passages], said.counters["trimmed"]) == (["b"], 1)


# Self-RAG

JUDGED = {"need": {"percent": 90}, "relevant": True, "support": "fully", "utility": 5, "closed": "x"}


def by_passage(**words: str) -> Callable[[str], str]:
    """The answer that stands beside the first of `words` in the message; "none" without one."""
    return lambda content: next(
        (answer for word, answer in words.items() if f"text {word}" in content), "none"
    )


def test_selfrag_asks_all_passages_at_once_and_keeps_the_best_answer() -> None:
    target = ScriptedTarget(
        told(**(JUDGED | {"answer": by_passage(p0="a", p1="b", p2="c"), "support": lambda content: (
            "fully" if "Answer: b" in content else "partially")})),
        hold=True,
    )  # fmt: skip
    said = made("selfrag", target, top_k=3)(question="Q?")
    assert asked(target) == {"need": 1, "answer": 3, "relevant": 3, "support": 3, "utility": 3}
    assert (said.answer, [p.id for p in said.passages]) == ("b", ["p1"])
    assert target.steps == 3
    calls = [event.name for event in said.trace if isinstance(event, Call)]
    assert calls == ["need", *["answer", "relevance", "support", "utility"] * 3]


@pytest.mark.parametrize(
    ("knobs", "calls"),
    [
        ({"gate": "always"}, {"answer": 3, "relevant": 3, "support": 3, "utility": 3}),
        ({"gate": "never"}, {"answer": 1}),
        ({"selfrag_threshold": 0.95}, {"need": 1, "answer": 1}),
        ({"w_rel": 0.0}, {"need": 1, "answer": 3, "support": 3, "utility": 3}),
        ({"w_sup": 0.0}, {"need": 1, "answer": 3, "relevant": 3, "utility": 3}),
        ({"w_use": 0.0}, {"need": 1, "answer": 3, "relevant": 3, "support": 3}),
        ({"form": "graph"}, {"relevant": 3, "answer": 1, "support": 1, "utility": 1}),
    ],
)
def test_selfrag_knobs_change_what_is_sent(knobs: dict[str, Any], calls: dict[str, int]) -> None:
    target = ScriptedTarget(told(**JUDGED, answer=by_passage(p0="a", p1="b", p2="c")))
    said = made("selfrag", target, **({"top_k": 3} | knobs))(question="Q?")
    assert asked(target) == calls
    assert said.answer == ("a" if "relevant" in calls or "support" in calls else "none")


@pytest.mark.parametrize(
    ("knobs", "best"),
    [
        ({}, "a"),  # p0: 0 + 1 + 1, p1: 1 + 0.5 + 0, p2: 1 + 0 + 0.5
        ({"w_use": 0.4}, "b"),  # 1.4, 1.5, 1.2
        ({"w_sup": 0.4}, "b"),  # 1.4, 1.2, 1.5
        ({"w_rel": 2.0, "w_use": 0.5}, "b"),  # 1.5, 2.5, 2.25
        ({"w_rel": 2.0, "w_sup": 0.0}, "b"),  # 1, 2, 2.5 and the sum of b is 4.5
        ({"pick": "sum"}, "b"),  # a has 2, b has 1.5 + 1.5
    ],
)
def test_selfrag_scores_as_the_paper_does(knobs: dict[str, Any], best: str) -> None:
    support = {"text p0": "fully", "text p1": "partially", "text p2": "none"}

    def reply(request: ChatRequest) -> Any:
        content, name = request.messages[-1].content, field(request)
        if name == "support":
            return {name: next(v for k, v in support.items() if k in content)}
        if name == "utility":
            return {name: 5 if "Answer: a" in content else 3 if "Answer: The b" in content else 4}
        values: dict[str, Any] = {
            "answer": by_passage(p0="a", p1="The b", p2="b")(content), "relevant": "text p0" not in content
        }  # fmt: skip
        return {name: values[name]}

    said = made("selfrag", ScriptedTarget(reply), gate="always", top_k=3, **knobs)(question="Q?")
    assert said.answer.removeprefix("The ") == best


def test_selfrag_can_weigh_the_probability_of_the_answer_itself() -> None:
    def answer(content: str) -> Reply:
        if "text p1" in content:
            return tokens(('{"answer": "', 0.01), ("b", 0.9), ('"}', 0.01))
        return tokens(('{"answer": "', 1.0), ("a", 0.5), ('"}', 1.0))

    target = ScriptedTarget(told(**JUDGED, answer=answer))
    assert made("selfrag", target, top_k=2)(question="Q?").answer == "a"
    assert not any(request.logprobs for request in target.requests)
    assert made("selfrag", target, top_k=2, w_seq=1.0)(question="Q?").answer == "b"
    with pytest.raises(CapabilityMissing, match="w_seq = 0"):
        made("selfrag", ScriptedTarget([], capabilities=("schema",)), w_seq=0.5)


def test_selfrag_unreadable_verdicts_weigh_nothing_and_lost_answers_are_dropped() -> None:
    def reply(request: ChatRequest) -> Any:
        content = request.messages[0].content
        if '"support"' in content or '"relevant"' in content or '"need"' in content:
            return "no"
        return told(utility=5, answer=by_passage(p0="  ", p1="b"))(request)

    said = made("selfrag", ScriptedTarget(reply), top_k=2)(question="Q?")
    assert (said.answer, said.counters["selfrag_candidates"]) == ("b", 1)
    assert said.counters["dropped"] == 4  # need, relevance twice, support


def test_selfrag_graph_rewords_and_retries_until_an_answer_holds_or_the_rounds_end() -> None:
    turn = iter(range(9))
    bad = {**JUDGED, "support": "none", "better_query": lambda content: f"other {next(turn)}"}
    answer = by_passage(**{"p0 on other 0": "y", "p0 on other 1": "z", "p0": "x"})
    target = ScriptedTarget(told(**bad, answer=answer), hold=True)
    said = made("selfrag", target, local=Echo([]), form="graph", top_k=2, rounds=3)(question="Q?")
    assert asked(target) == {"relevant": 6, "answer": 3, "support": 2, "utility": 2, "better_query": 2}
    assert [e.query for e in said.trace if isinstance(e, Search)] == ["Q?", "other 0", "other 1"]
    assert target.steps == 4 + 4 + 2
    assert (said.answer, said.counters["selfrag_rounds"]) == ("z", 3)
    target = ScriptedTarget(told(**JUDGED, better_query="o", answer="x"))
    assert made("selfrag", target, form="graph")(question="Q?").counters["selfrag_rounds"] == 1


def test_selfrag_graph_with_nothing_relevant_ends_in_what_the_model_knows() -> None:
    target = ScriptedTarget(told(relevant=False, better_query="", answer="x"))
    said = made("selfrag", target, form="graph", top_k=1, rounds=2)(question="Q?")
    calls = [event.name for event in said.trace if isinstance(event, Call)]
    assert calls == ["relevance", "query", "relevance", "closed"]
    assert (said.answer, said.passages, said.counters["dropped"]) == ("x", (), 1)


def test_selfrag_graph_asks_for_as_much_use_as_the_knob_says() -> None:
    for useful_from, rounds in ((2, 1), (3, 2)):
        target = ScriptedTarget(told(**(JUDGED | {"utility": 2}), better_query="o", answer="x"))
        said = made("selfrag", target, form="graph", rounds=2, useful_from=useful_from)(question="Q?")
        assert said.counters["selfrag_rounds"] == rounds


# FLARE


def sentence(*pairs: tuple[str, float]) -> Reply:
    """A reply in JSON whose sentence is made of `pairs`; the frame's tokens are very unlikely."""
    return tokens(('{"', 0.001), ("sentence", 0.001), ('": "', 0.001), *pairs, ('"}', 0.001))


END = sentence()


def test_flare_looks_up_an_unsure_sentence_without_its_worst_tokens() -> None:
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
    said = made("flare", target)(question="When?")
    queries = [e.query for e in said.trace if isinstance(e, Search)]
    assert queries == ["When?", "Ann was born in."]
    assert (said.answer, target.left, target.steps) == ("1910", 0, 5)
    assert "Draft: Ann was born in 1910. She sang." in target.requests[-1].messages[-1].content
    assert [r.logprobs for r in target.requests] == [True] * 4 + [False]
    assert "So far: Ann was born in 1910. She sang." in target.requests[3].messages[-1].content
    assert (said.counters["flare_sentences"], said.counters["flare_lookups"]) == (2, 1)


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
def test_flare_thresholds_decide_what_is_looked_up(knobs: dict[str, Any], queries: list[str]) -> None:
    target = ScriptedTarget(told(sentence=sentence(("Sure", 0.9), (" maybe.", 0.6)), answer="x"))
    said = made("flare", target, sentences=1, **knobs)(question="Q?")
    assert [e.query for e in said.trace if isinstance(e, Search)] == queries
    assert asked(target) == {"sentence": 2 if "Sure" in queries[-1] else 1, "answer": 1}


def test_flare_is_bounded_in_lookups_and_sentences_and_stops_at_a_repetition() -> None:
    count = iter(range(100))
    target = ScriptedTarget(
        told(sentence=lambda content: sentence((f"Sentence {next(count)}.", 0.1)), answer="x")
    )
    said = made("flare", target, rounds=2, sentences=6)(question="Q?")
    assert asked(target) == {"sentence": 6 + 2, "answer": 1}
    assert (said.counters["flare_sentences"], said.counters["flare_lookups"]) == (6, 2)
    target = ScriptedTarget(told(sentence=sentence(("Again.", 0.9)), answer="x"))
    said = made("flare", target, sentences=8)(question="Q?")
    assert (said.counters["flare_sentences"], said.counters["dropped"]) == (1, 1)


@pytest.mark.parametrize(
    ("knobs", "look"),
    [
        ({"flare_k": 1}, lambda rs: "text p1" not in rs[0].messages[-1].content),
        ({"finish": "text"}, lambda rs: "answer" not in [field(r) for r in rs]),
        ({"cot": True}, lambda rs: list(rs[-1].schema["properties"]) == ["reasoning", "answer"]),
        ({"sentences": 1}, lambda rs: len(rs) == 2),
    ],
)
def test_flare_knobs_change_what_is_sent(knobs: dict[str, Any], look: Any) -> None:
    script: list[Any] = [sentence(("It is.", 0.9)), END, {"reasoning": "so", "answer": "x"}]
    plain, other = (
        ScriptedTarget(script),
        ScriptedTarget(script[:1] + script[2:] if "sentences" in knobs else script),
    )
    made("flare", plain)(question="Q?")
    said = made("flare", other, **knobs)(question="Q?")
    assert look(other.requests)
    assert not look(plain.requests)
    assert said.answer == ("It is." if "finish" in knobs else "x")


def test_flare_without_log_probabilities_asks_for_unsure_spans() -> None:
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
    said = made("flare", blind, uncertainty="spans", sentences=2)(question="When?")
    assert [e.query for e in said.trace if isinstance(e, Search)] == ["When?", "Ann was born in in Rome."]
    assert (said.answer, said.counters["dropped"], blind.left) == ("1910", 1, 0)
    assert not any(request.logprobs for request in blind.requests)
    with pytest.raises(CapabilityMissing, match='uncertainty = "spans"'):
        made("flare", blind)


def test_flare_looks_up_the_whole_of_a_sentence_whose_reply_was_mended() -> None:
    first = Reply("not json", logprobs=(TokenLogprob("not json", -0.01),))
    target = ScriptedTarget([first, '{"sentence": "Ann sang."}', END, END, {"answer": "x"}])
    said = made("flare", target)(question="Q?")
    assert [e.query for e in said.trace if isinstance(e, Search)] == ["Q?", "Ann sang."]
    assert (said.counters["repairs"], said.counters["flare_sentences"]) == (1, 1)


def test_flare_with_an_unreadable_draft_still_answers() -> None:
    target = ScriptedTarget(
        lambda request: "no" if "sentence" in request.messages[0].content else {"answer": "x"}
    )
    said = made("flare", target)(question="Q?")
    assert (said.answer, said.counters["dropped"], said.counters["flare_sentences"]) == ("x", 1, 0)


@pytest.mark.parametrize("layout", ["chat", "xml"])
def test_flare_reads_probabilities_in_layouts_that_are_not_json(layout: str) -> None:
    frame = {
        "chat": (
            "[[ ## sentence ## ]]\n",
            "\n\n[[ ## completed ## ]]",
            "[[ ## answer ## ]]\nx\n\n[[ ## completed ## ]]",
        ),
        "xml": ("<sentence>", "</sentence>", "<answer>x</answer>"),
    }[layout]
    draft = tokens((frame[0], 0.001), ("The sentence", 0.9), (" 1901", 0.1), (frame[1], 0.001))
    target = ScriptedTarget([draft, draft, frame[2]])
    said = made("flare", target, layout=layout, sentences=1)(question="Q?")
    assert [e.query for e in said.trace if isinstance(e, Search)] == ["Q?", "The sentence"]


def spelled(text: str, cuts: Sequence[int]) -> tuple[TokenLogprob, ...]:
    """`text` cut into tokens at `cuts`, with the log probabilities -1, -2, and so on."""
    edges = [0, *cuts, len(text)]
    return tuple(TokenLogprob(text[a:b], -float(i)) for i, (a, b) in enumerate(pairwise(edges), 1))


def test_only_the_tokens_of_the_field_count_however_the_reply_is_cut() -> None:
    value = 'He said "no" — in \n Zürich \\ 1901 \U0001f600'
    for raw in (
        json.dumps({"reasoning": 'the "sentence": "x" is', "sentence": value}),
        json.dumps({"reasoning": "r", "sentence": value}, ensure_ascii=False),
        json.dumps({"sentence": value}, indent=2),
    ):
        for step in (1, 2, 3, 7, 50):
            made_of = spelled(raw, range(step, len(raw), step))
            found = pieces(made_of, "sentence", value)
            assert "".join(token.token for token in found) == value
            assert {token.logprob for token in found} <= {token.logprob for token in made_of}
    raw = '{"sentence": "ab cd"}'
    assert pieces(spelled(raw, (10, 14, 16)), "sentence", "ab cd") == (
        TokenLogprob("ab", -3.0), TokenLogprob(" cd", -4.0),
    )  # fmt: skip


def test_tokens_that_do_not_spell_the_field_tell_nothing() -> None:
    assert pieces((), "sentence", "a") == ()
    assert pieces(spelled('{"sentence": "b"}', (3,)), "sentence", "a") == ()
    assert pieces(spelled('{"other": "a"}', (3,)), "sentence", "a") == ()
    assert pieces(spelled('{"sentence": ""}', (3,)), "sentence", "") == ()
    broken = (
        TokenLogprob('{"sentence": "Z', -1.0),
        TokenLogprob("\ufffd", -2.0),
        TokenLogprob("\ufffdrich", -3.0),
    )
    assert [token.logprob for token in pieces(broken, "sentence", "Zürich")] == [-1.0, -2.0, -3.0]
    assert mean_probability(()) == 0.0
    assert mean_probability(spelled("ab", (1,))) == pytest.approx(math.exp(-1.5))


# Chain-of-Note


def notes(*items: tuple[int, str]) -> dict[str, Any]:
    return {
        "reading": {"notes": [{"passage": n, "note": "says", "kind": kind} for n, kind in items]},
        "answer": "x",
    }


def test_chain_of_note_is_one_call_and_drops_notes_on_nothing() -> None:
    target = ScriptedTarget([notes((1, "answers"), (2, "irrelevant"), (2, "context"), (9, "answers"))])
    said = made("chain_of_note", target)(question="Q?")
    assert (said.answer, said.counters["lm_calls"], said.counters["dropped"]) == ("x", 1, 2)
    assert [said.counters[f"notes_{kind}"] for kind in ("answers", "context", "irrelevant")] == [1, 0, 1]
    assert [p.id for p in said.passages] == ["p0", "p1", "p2", "p3", "p4"]


@pytest.mark.parametrize(
    ("knobs", "look"),
    [
        ({"notes": False}, lambda r: list(r.schema["properties"]) == ["answer"]),
        ({"abstain": False}, lambda r: "unknown" not in r.messages[0].content),
        ({"cot": True}, lambda r: next(iter(r.schema["properties"])) == "reasoning"),
        ({"top_k": 1}, lambda r: "text p1" not in r.messages[-1].content),
        ({"noise_n": 1}, lambda r: "text p19" in r.messages[-1].content),
        ({"query_pos": "after"}, lambda r: r.messages[-1].content.endswith("Question: Q?")),
    ],
)
def test_chain_of_note_knobs_change_what_is_sent(knobs: dict[str, Any], look: Any) -> None:
    reply = {"reasoning": "so", **notes()}
    plain, other = ScriptedTarget([reply]), ScriptedTarget([reply])
    made("chain_of_note", plain)(question="Q?")
    assert made("chain_of_note", other, **knobs)(question="Q?").answer == "x"
    assert look(other.requests[0])
    assert not look(plain.requests[0])


def test_chain_of_note_cut_within_its_notes_has_an_empty_answer() -> None:
    cut = Reply('{"reading": {"notes": [{"passage": 1, "note": "s", "kind": "answers"}', finish="length")
    said = made("chain_of_note", ScriptedTarget([cut]))(question="Q?")
    assert (said.answer, said.counters["truncated"]) == ("", 1)
    with pytest.raises(ParseFailure):
        made("chain_of_note", ScriptedTarget(["no", "no"], capabilities=()))(question="Q?")


# All of them

REPLIES: dict[str, Any] = {
    "grade": {"points": 0}, "relevant": True, "query": "q", "better_query": "b", "need": {"percent": 100},
    "support": "fully", "utility": 4, "sentence": END, "doubts": NO_DOUBT, "reading": {"notes": []},
    "answer": "x",
}  # fmt: skip


@pytest.mark.parametrize(
    ("id", "knobs"),
    [("crag", {}), ("selfrag", {"top_k": 2}), ("flare", {"uncertainty": "spans"}), ("chain_of_note", {})],
)
def test_each_can_be_evaluated_bootstrapped_saved_and_loaded(
    id: str, knobs: dict[str, Any], tmp_path: Path
) -> None:
    def right(example: dspy.Example, prediction: Any, trace: Any = None) -> bool:
        return bool(example.answer == prediction.answer)

    script = told(**(REPLIES | {"sentence": "A sentence."}))
    data = [dspy.Example(question=f"Q{i}?", answer="x").with_inputs("question") for i in range(6)]
    program = made(id, ScriptedTarget(script), **knobs)
    assert (
        dspy.Evaluate(devset=data, metric=right, num_threads=4, display_progress=False)(program).score == 100
    )
    boot = dspy.BootstrapFewShot(metric=right, max_bootstrapped_demos=2, max_labeled_demos=0)
    compiled = boot.compile(made(id, ScriptedTarget(script), **knobs), trainset=data)
    learned = {name: predictor for name, predictor in compiled.named_predictors() if predictor.demos}
    assert learned.keys() >= {"answer"}
    assert {"crag": "grade", "selfrag": "need", "flare": "doubts", "chain_of_note": "answer"}[id] in learned
    compiled.save(tmp_path / "state.json")
    twin = made(id, ScriptedTarget(script), **knobs)
    twin.load(tmp_path / "state.json")
    for name, predictor in twin.named_predictors():
        assert predictor.fingerprint == dict(compiled.named_predictors())[name].fingerprint
    assert twin(question="Q?").answer == "x"


@pytest.mark.parametrize(
    "signature",
    [
        RelevanceGrade, RelevanceCheck, SupportGrade, Utility, NeedRetrieval, SearchWords, BetterQuery,
        NextSentence, UncertainSpans, Conclude, ReadingNotes,
    ],
)  # fmt: skip
def test_reply_schemas_are_strict_and_enforced_whole_by_the_embedded_engine(signature: Any) -> None:
    schema = reply_schema(signature)
    assert schema["required"] == list(signature.output_fields)
    bounds = ("minimum", "maximum", "maxLength", "maxItems", "enum")
    enforced = json.dumps(Narrowed(schema, 200).schema)
    for key, value in found_in(schema, bounds):
        assert json.dumps({key: value})[1:-1] in enforced


def found_in(node: Any, keys: Sequence[str]) -> list[tuple[str, Any]]:
    """Every entry of a nested JSON value under one of `keys`."""
    if isinstance(node, dict):
        here = [(key, value) for key, value in node.items() if key in keys]
        return here + [entry for value in node.values() for entry in found_in(value, keys)]
    return [entry for item in node for entry in found_in(item, keys)] if isinstance(node, list) else []


def schema_of(signature: Any) -> dict[str, Any]:
    return reply_schema(signature)


def test_bounded_outputs_keep_their_bounds() -> None:
    assert dict(found_in(schema_of(RelevanceGrade), ("minimum", "maximum"))) == {
        "minimum": -100,
        "maximum": 100,
    }
    assert dict(found_in(schema_of(Utility), ("enum",))) == {"enum": [1, 2, 3, 4, 5]}
    assert dict(found_in(schema_of(UncertainSpans), ("maxItems", "maxLength", "maximum"))) == {
        "maxItems": 4, "maxLength": 80, "maximum": 100
    }  # fmt: skip
    assert dict(found_in(schema_of(ReadingNotes), ("maxItems", "minimum"))) == {
        "maxItems": 30,
        "minimum": 1,
    }


@pytest.mark.parametrize("source", [ListSource([]), Broken([])], ids=["empty", "failing"])
@pytest.mark.parametrize(
    ("id", "knobs"),
    [
        ("crag", {}),
        ("crag", {"form": "binary"}),
        ("selfrag", {}),
        ("selfrag", {"form": "graph"}),
        ("flare", {}),
        ("flare", {"uncertainty": "spans"}),
        ("chain_of_note", {}),
    ],
)
def test_without_a_passage_there_is_still_an_answer(id: str, knobs: dict[str, Any], source: Any) -> None:
    said = made(id, ScriptedTarget(told(**REPLIES)), local=source, web=source, **knobs)(question="Q?")
    assert (said.answer, said.passages) == ("x", ())
    assert (said.counters["failed_searches"] > 0) == isinstance(source, Broken)


def test_flare_keeps_its_draft_when_a_lookup_finds_nothing() -> None:
    target = ScriptedTarget(told(sentence=sentence(("Maybe.", 0.1)), answer="x"))
    said = made("flare", target, local=Broken([]), sentences=1, finish="text")(question="Q?")
    assert (said.answer, said.counters["failed_searches"], len(target.requests)) == ("Maybe.", 2, 1)
