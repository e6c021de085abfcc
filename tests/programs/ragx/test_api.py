"""The API of RAG-X: domain, entities and searches."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from ragc.corpora.sources.base import current_question
from ragc.records import Hit, Passage
from ragc.testing import ListSource, ScriptedTarget
from tests.programs.ragx.common import (
    QUESTION,
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
    kg = ListSource(passages(9, "k"))
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


def test_an_open_or_unread_domain_searches_nothing() -> None:
    target = ScriptedTarget(by_field(domain="open"))
    prediction = build_program(target, source_policy="kg")(question=QUESTION)
    assert (list_requests(target), prediction.counters["searches"]) == (["domain", "answer"], 0)
    assert "Passages:\nnone" in last(target)
    unread = ScriptedTarget(["?", "?", {"answer": "x"}], capabilities=())
    assert build_program(unread, source_policy="kg")(question=QUESTION).answer == "x"


@pytest.mark.parametrize("entities", ["{}", {"entities": {"items": []}}])
def test_a_question_without_entities_is_searched_once_as_it_is(entities: Any) -> None:
    text = "Which album won album of the year at the Grammys in 2010?"
    tries = [entities] if isinstance(entities, dict) else [entities] * 2
    target = ScriptedTarget([{"domain": "music"}, *tries, {"answer": "x"}], capabilities=())
    kg = ListSource(passages(3, "k"))
    prediction = build_program(target, {"kg": kg}, source_policy="kg")(question=text)
    assert (prediction.answer, kg.queries, target.replies_left) == ("x", [(text, 3)], 0)
    assert ("kg", "no entity, searched with the question") in notes(prediction)


def test_the_domain_that_the_router_names_reaches_the_search_and_the_label_does_not() -> None:
    class Listening(ListSource):
        domains: ClassVar[list[Any]] = []

        async def search(self, query: str, k: int) -> tuple[Hit, ...]:
            question = current_question.get()
            self.domains.append(question and (question.question, question.extra.get("domain")))
            return await super().search(query, k)

    kg = Listening(passages(2, "k"))
    program = build_program(ScriptedTarget(by_field()), {"kg": kg, "web": kg}, source_policy="all")
    program(question=QUESTION, domain="finance")
    assert sorted(kg.domains, key=str) == [(QUESTION, "music"), (QUESTION, "music"), (QUESTION, None)]


@pytest.mark.parametrize(
    ("question", "listed", "domain", "queries"),
    [
        ("What did Apple close at yesterday?", ("Apple Inc.", "company"), "finance", ["Apple Inc."]),
        ("What was Microsofts eps?", ("Microsoft Corporation", "company"), "finance",
         ["Microsoft Corporation"]),
        ("Who directed Oppenhiemer?", ("Oppenheimer", "movie"), "movie", ["Oppenheimer"]),
        ("when was beyoncé born?", ("Beyonce", "person"), "music", ["Beyonce"]),
        ("Who directed Heat?", ("Titanic", "movie"), "movie", ["Who directed Heat?"]),
        ("What is the yield of GM?", ("GE", "symbol"), "finance", ["What is the yield of GM?"]),
        ("Did the Lakers win last night?", ("Los Angeles Lakers", "nba team"), "sports",
         ["Los Angeles Lakers"]),
        ("did okc win last night?", ("Oklahoma City Thunder", "nba team"), "sports",
         ["Oklahoma City Thunder"]),
        ("did man utd win on sunday?", ("Manchester United FC", "soccer team"), "sports",
         ["Manchester United FC"]),
        ("did man utd win on sunday?", ("Manchester United", "soccer team"), "sports", ["Manchester United"]),
        ("what was meta's eps in 2023?", ("Meta Platforms, Inc.", "company"), "finance",
         ["Meta Platforms, Inc."]),
        ("how tall is Steph Curry?", ("Stephen Curry", "nba player"), "sports", ["Stephen Curry"]),
        ("what did spiderman cost?", ("Spider-Man", "movie"), "movie", ["Spider-Man"]),
        ("Who beat the Los Angeles Clippers?", ("Los Angeles Lakers", "nba team"), "sports",
         ["Who beat the Los Angeles Clippers?"]),
        ("Who was last to win?", ("Washington Wizards", "nba team"), "sports", ["Who was last to win?"]),
        ("Which bank was first?", ("First Republic", "company"), "finance", ["Which bank was first?"]),
        ("What is the best city club?", ("Manchester City", "soccer team"), "sports",
         ["What is the best city club?"]),
    ],
)  # fmt: skip
def test_names_may_stand_in_the_question_in_another_form(
    question: str, listed: tuple[str, str], domain: str, queries: list[str]
) -> None:
    kg = ListSource(passages(2, "k"))
    items = [{"text": listed[0], "kind": listed[1]}]
    target = ScriptedTarget(by_field(domain=domain, entities={"items": items}))
    prediction = build_program(target, {"kg": kg}, source_policy="kg")(question=question)
    assert [query for query, _ in kg.queries] == queries
    assert prediction.counters["dropped"] == (queries == [question])
