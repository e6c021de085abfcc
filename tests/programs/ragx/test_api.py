"""The API of RAG-X: domain, entities and searches."""

from __future__ import annotations

import asyncio

from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call
from ragc.records import Hit, Passage
from ragc.testing import ListSource, ScriptedTarget
from tests.programs.ragx.common import (
    METHOD,
    QUESTION,
    Spy,
    build_program,
    by_field,
    last,
    list_requests,
    notes,
    passages,
)


def test_entities_that_the_question_or_the_domain_does_not_hold_are_dropped() -> None:
    items = [
        {"text": "adele", "kind": "person"},
        {"text": "Adele", "kind": "person"},
        {"text": "Beyonce", "kind": "person"},
        {"text": "Hello", "kind": "movie"},
        {"text": "none", "kind": "song"},
    ]
    kg = Spy(passages(9, "k"))
    target = ScriptedTarget(by_field(entities={"items": items}))
    prediction = build_program(target, {"kg": kg}, source_policy="kg", top_k=2)(question=QUESTION)
    assert kg.queries == [("adele", 2)]
    assert prediction.counters["dropped"] == 3
    assert "Domain: music" in target.requests[1].messages[-1].content


def test_facts_of_several_entities_are_merged_without_duplicates() -> None:
    class ByName(ListSource):
        async def search(self, query: str, k: int) -> tuple[Hit, ...]:
            both = Passage("both", "", "both")
            return (Hit(both, 1.0), Hit(Passage(query, "", query), 0.5))

    prediction = build_program(ScriptedTarget(by_field()), {"kg": ByName([])}, source_policy="kg")(
        question=QUESTION
    )
    assert [p.id for p in prediction.passages] == ["both", "Adele", "Hello"]


def test_an_open_or_unread_domain_and_a_question_without_entities_search_nothing() -> None:
    target = ScriptedTarget(by_field(domain="open"))
    prediction = build_program(target, source_policy="kg")(question=QUESTION)
    assert (list_requests(target), prediction.counters["searches"]) == (["domain", "answer"], 0)
    assert "Passages:\nnone" in last(target)
    unread = ScriptedTarget(["?", "?", {"answer": "x"}], capabilities=())
    assert build_program(unread, source_policy="kg")(question=QUESTION).answer == "x"
    lost = ScriptedTarget([{"domain": "music"}, "?", "?", {"answer": "x"}], capabilities=())
    prediction = build_program(lost, source_policy="kg")(question=QUESTION)
    assert (prediction.answer, prediction.counters["searches"], lost.replies_left) == ("x", 0, 0)
    assert ("kg", "no entity, not searched") in notes(prediction)


def test_the_searches_for_entities_run_together() -> None:
    class Counting(ListSource):
        flying = peak = 0

        async def search(self, query: str, k: int) -> tuple[Hit, ...]:
            self.flying += 1
            self.peak = max(self.peak, self.flying)
            await asyncio.sleep(0)
            self.flying -= 1
            return await super().search(query, k)

    source = Counting(passages(2, "k"))
    build_program(ScriptedTarget(by_field()), {"kg": source}, source_policy="kg")(question=QUESTION)
    assert source.peak == 2


def test_the_router_may_be_the_proxy() -> None:
    main, proxy = ScriptedTarget(by_field()), ScriptedTarget(by_field())
    sources = {"kg": ListSource(passages(2, "k"))}
    runtime = Runtime({"main": main, "proxy": proxy}, sources)
    prediction = METHOD.build(runtime, {"source_policy": "kg", "router_role": "proxy"})(question=QUESTION)
    assert (list_requests(proxy), list_requests(main)) == (["domain"], ["entities", "answer"])
    assert [event.role for event in prediction.trace if isinstance(event, Call)] == ["proxy", "main", "main"]
