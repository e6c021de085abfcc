"""Programs that read passages have them cut, budgeted and shown alike, whatever each does with them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import ragc
import ragc.recipe
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.programs import METHODS, Method, method
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call
from ragc.records import Passage
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget

READERS = tuple(entry for entry in METHODS if entry.reads_passages)
WITHOUT = {"no_retrieval", "cot"}
QUESTION = "In which year did the harbour of Porthaven open?"
SENTENCES = 400

readers = pytest.mark.parametrize("entry", READERS, ids=lambda entry: entry.id)


@cache
def one_document() -> Passage:
    """One document of 6,400 words whose sentences all bear on the question."""
    text = " ".join(
        f"In the year {1500 + i} the harbour of Porthaven did open its quay number {i} to ships."
        for i in range(SENTENCES)
    )
    assert len(text.split()) == 16 * SENTENCES == 6400
    return Passage("porthaven", "Porthaven", text)


@cache
def shared_source() -> Bm25Source:
    """The document in the one source of all programs."""
    return Bm25Source([one_document()])


def reply(request: ChatRequest) -> Reply:
    """Searches while it may, takes every passage for relevant, and ends when it must."""
    fields = {
        "answer": "1512",
        "action": "search",
        "action_input": "harbour of Porthaven",
        "kind": "follow_up",
        "text": QUESTION,
        "relevant": True,
        "known": "no",
        "need_search": "yes",
        "query": "harbour of Porthaven",
        "need": 100,
        "grade": "CORRECT",
        "choice": "web",
    }
    schema = request.schema or {}
    fitting = {}
    for name, value in fields.items():
        part = schema.get("properties", {}).get(name, {})
        options = part.get("enum") or [value]
        others = [option for option in options if option not in ("finish", "answer")]
        if part.get("type", "string") in ("string", "boolean") or name == "need":
            fitting[name] = value if value in options else others[0]
    return SchemaReplies(text="harbour of Porthaven", fields=fitting, logprob=-3.0)(request)


def build_program(
    entry: Method, source: Any = None, *, context: int = 100_000, **knobs: Any
) -> tuple[RagProgram, ScriptedTarget]:
    target = ScriptedTarget(reply, context_tokens=context)
    shared = source or shared_source()
    roles: Any = dict.fromkeys(("main", "proxy", "judge"), target)
    names = ("local", "web", *entry.sources)
    if entry.id == "ragx":
        knobs = {"source_policy": "web", **knobs}
    return entry.build(Runtime(roles, dict.fromkeys(names, shared), store=CallStore(None)), knobs), target


def count_words(passages: Any) -> int:
    """Tokens of passages as the scripted target counts them: words."""
    return sum(len(format_passage(passage).split()) for passage in passages)


@readers
@pytest.mark.parametrize("budget", [250, 1000])
def test_of_one_long_document_no_more_than_the_budget_is_shown(entry: Method, budget: int) -> None:
    program, target = build_program(entry, context_tokens=budget)
    prediction = program(question=QUESTION)
    assert 0 < count_words(prediction.passages) <= budget
    sentences = one_document().text.split(". ")
    for event in prediction.trace:
        if isinstance(event, Call) and event.name in ("answer", "draft", "read", "step"):
            shown = " ".join(str(value) for value in event.inputs.values())
            assert sum(len(sentence.split()) for sentence in sentences if sentence in shown) <= budget, (
                event.name
            )
    assert target.requests


@readers
@pytest.mark.parametrize("budget", [0, 1000])
def test_a_small_context_still_shows_a_passage(entry: Method, budget: int) -> None:
    program, target = build_program(entry, context=3000, context_tokens=budget)
    prediction = program(question=QUESTION)
    assert prediction.passages
    assert all(sum(len(m.content.split()) for m in r.messages) <= 3000 for r in target.requests)


@readers
def test_a_source_that_cuts_nothing_does_not_break_the_budget(entry: Method) -> None:
    whole = [one_document(), Passage("other", "Other", one_document().text.replace("Porthaven", "Elsewhere"))]
    prediction = build_program(entry, ListSource(whole), context_tokens=400)[0](question=QUESTION)
    assert 0 < count_words(prediction.passages) <= 400


def reading_requests(entry: Method, **knobs: Any) -> list[str]:
    """What the calls that show the document are sent, apart from those that rank, grade or compare."""
    program, target = build_program(entry, **knobs)
    program(question=QUESTION)
    texts = ["\n".join(m.content for m in r.messages) for r in target.requests]
    return [text for text in texts if "quay number" in text]


@readers
def test_the_question_stands_where_it_is_wanted(entry: Method) -> None:
    def ends(position: str) -> list[bool]:
        return [text.rstrip().endswith(QUESTION) for text in reading_requests(entry, query_pos=position)]

    before, after, both = ends("before"), ends("after"), ends("both")
    assert sum(after) > sum(before)
    assert sum(both) > sum(before)


@readers
def test_own_knowledge_is_allowed_and_forbidden_in_words(entry: Method) -> None:
    fixed = {"answer_format": "short"}
    allowed = reading_requests(entry, own_knowledge=True, **fixed)
    forbidden = reading_requests(entry, own_knowledge=False, **fixed)
    assert allowed
    assert {text.partition("In the year")[0] for text in allowed} != {
        text.partition("In the year")[0] for text in forbidden
    }


CITING = [e for e in READERS if e.id != "ragx" and "cited" in e.knobs.knob("answer_format").options]
"""Programs that may cite, but for RAG-X, whose source policy decides whatever the format is."""


@pytest.mark.parametrize("entry", CITING, ids=lambda entry: entry.id)
def test_citing_leaves_no_room_for_own_knowledge(entry: Method) -> None:
    allowed = reading_requests(entry, own_knowledge=True, answer_format="cited")
    assert allowed == reading_requests(entry, own_knowledge=False, answer_format="cited")


# Studies over several programs.

RECIPE = """
program = "{program}"

[search]
programs = [{programs}]
demos = 0
trials = 2
{search}

[knobs]
{knobs}

[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
dev = 1
test = 1

[sources.local]
kind = "bm25"

[sources.web]
kind = "bm25"

[targets.main]
kind = "embedded"

[metrics]
report = ["f1"]
"""


def fixed_knobs(
    folder: Path, program: str, programs: Sequence[str], *, knobs: str = "", search: str = ""
) -> dict[str, dict[str, Any]]:
    """What a recipe over several programs fixes in each of them."""
    lines = [f'{{"id": "q{i}", "question": "Q{i}?", "answers": ["a"]}}' for i in range(2)]
    (folder / "questions.jsonl").write_text("\n".join(lines), "utf-8")
    (folder / "corpus.jsonl").write_text('{"id": "p", "title": "P", "text": "Text."}', "utf-8")
    others = ", ".join(f'"{name}"' for name in programs)
    text = RECIPE.format(program=program, programs=others, knobs=knobs, search=search)
    (folder / "recipe.toml").write_text(text, "utf-8")
    recipe = ragc.recipe.load(folder / "recipe.toml")
    return {entry.id: dict(recipe.fixed(entry)) for entry in recipe.methods}


def test_a_study_over_programs_gives_all_of_them_one_budget_and_one_format(tmp_path: Path) -> None:
    fixed = fixed_knobs(tmp_path, "ggatrieval", ["vanilla", "flare", "prefrag"])
    assert fixed["ggatrieval"] == fixed["vanilla"] == fixed["flare"] == fixed["prefrag"]
    assert fixed["vanilla"]["context_tokens"] == 3000
    assert fixed["vanilla"]["answer_format"] == "short"


def test_a_program_alone_keeps_its_own_defaults(tmp_path: Path) -> None:
    assert fixed_knobs(tmp_path, "ggatrieval", []) == {"ggatrieval": {}}


def test_what_a_recipe_says_or_searches_is_left_alone(tmp_path: Path) -> None:
    fixed = fixed_knobs(
        tmp_path, "vanilla", ["crag", "no_retrieval"],
        knobs='context_tokens = 900', search='ranges.answer_format = ["short", "list"]',
    )  # fmt: skip
    assert fixed["crag"] == fixed["vanilla"] == {"context_tokens": 900}
    assert fixed["no_retrieval"] == {}


# Names.


def test_self_rag_answers_to_both_of_its_names(tmp_path: Path) -> None:
    assert method("self_rag") is method("selfrag")
    assert list(fixed_knobs(tmp_path, "self_rag", ["vanilla", "selfrag"])) == ["selfrag", "vanilla"]
    assert ragc.list_names("knobs", "self_rag") == ragc.list_names("knobs", "selfrag")
    (listed,) = [row for row in ragc.list_names("programs") if row["id"] == "selfrag"]
    assert listed["also"] == ["self_rag"]


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
def test_the_listing_says_what_a_program_needs(entry: Method) -> None:
    (row,) = [row for row in ragc.list_names("programs") if row["id"] == entry.id]
    assert row["roles"] == ["main"]
    assert row["reads_passages"] == (entry.id not in WITHOUT)
    assert bool(row["sources"] or row["may_use"]) == row["reads_passages"]
    assert row["knobs"] == [knob["id"] for knob in ragc.list_names("knobs", entry.id)]
