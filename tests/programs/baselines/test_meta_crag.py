"""The baseline of CRAG: sentences of pages, facts of the API, one answer from these alone."""

from __future__ import annotations

from typing import Any

from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.records import Passage
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget

PAGES = [
    Passage("p1", "Messi", "Leo Messi was born in Rosario. He has many goals for Barcelona. He likes mate."),
    Passage("p2", "Rain", "It rained all day long. " + "Barcelona goals and more " * 20 + "were seen."),
]
FACTS = [Passage("f1", "Messi", "goals: 91"), Passage("f2", "Barcelona", "city: yes")]
QUESTION = "How many goals has Messi for Barcelona?"


def program(target: ScriptedTarget, **knobs: Any) -> RagProgram:
    sources = {"web": ListSource(PAGES), "kg": ListSource(FACTS)}
    return method("meta_crag").build(Runtime({"main": target}, sources), knobs)


def entities(*names: str, kind: str = "soccer player") -> list[dict[str, str]]:
    return [{"text": name, "kind": kind} for name in names]


def test_the_sentences_nearest_to_the_question_are_shown_best_first() -> None:
    target = ScriptedTarget(SchemaReplies(fields={"answer": "91"}))
    reply = program(target, top_k=2)(question=QUESTION)
    assert reply.answer == "91"
    assert len(target.requests) == 1
    shown = [passage.text for passage in reply.passages]
    assert "He has many goals for Barcelona." in shown
    assert all(len(text) <= 200 for text in shown)
    assert {passage.parent for passage in reply.passages} == {"p1", "p2"}
    longer = program(target, top_k=2, sentence_chars=1000)(question=QUESTION)
    assert max(len(passage.text) for passage in longer.passages) > 200


def test_the_api_is_asked_for_the_names_that_one_call_finds() -> None:
    fields = {"domain": "sports", "entities": {"items": entities("Messi", "Pelé")}, "answer": "91"}
    target = ScriptedTarget(SchemaReplies(fields=fields))
    reply = program(target, sources_used="both", top_k=2)(question=QUESTION)
    assert len(target.requests) == 2
    assert [event.query for event in reply.trace if getattr(event, "source", "") == "kg"] == ["Messi"]
    assert [passage.id for passage in reply.passages[:2]] == ["f1", "f2"]
    assert len(reply.passages) == 4


def test_an_open_domain_asks_no_api() -> None:
    target = ScriptedTarget(SchemaReplies(fields={"domain": "open", "answer": "I don't know."}))
    reply = program(target, sources_used="kg")(question=QUESTION)
    assert (reply.answer, reply.passages) == ("I don't know", ())
