"""GGatrieval through the public API, on scripted targets."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.ggatrieval.program import conversion
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note
from ragc.records import Passage
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, ScriptedTarget

QUESTION = "Who wrote the red book?"
SLOTS = (
    "subject",
    "predicate",
    "object",
    "predicative",
    "attributive",
    "adverbial",
    "complement",
    "apposition",
)
PARSE = dict.fromkeys(SLOTS, "") | {"predicate": "wrote", "object": "the  Red book"}
STAGES = {
    "subject": "parse",
    "aligned": "align",
    "summary": "condense",
    "passage": "imagine",
    "ids": "select",
    "sufficient": "verify",
    "grade": "grade",
}

ANY = {"component": 1, "wording": "a tome"}

Said = Any
"""The reply of a stage, or a function of the request that gives it."""


def stage(request: ChatRequest) -> str:
    assert request.schema is not None
    return STAGES.get(next(iter(request.schema["properties"])), "answer")


def texts(n: int) -> list[Passage]:
    """Documents of which every third aligns fully, every third in part, every third not at all."""
    words = ("nothing here", "Anna WROTE it", "Anna wrote the\nred BOOK")
    return [Passage(f"p{i}", f"Title{i:02d}", words[i % 3]) for i in range(n)]


def align(request: ChatRequest) -> Said:
    """What an honest model says of the passages of `texts`."""
    passage = request.messages[-1].content.split("Passage:")[1]
    aligned = [(1, "wrote")] * ("rote" in passage.lower()) + [(2, "The red book")] * ("BOOK" in passage)
    aligned_numbers = {number for number, _ in aligned}
    reply = {
        "aligned": [{"component": n, "segment": segment, "same": True} for n, segment in aligned],
        "synonyms": [
            {"component": n, "wording": w}
            for n, w in ((1, "authored"), (2, "a tome"))
            if n not in aligned_numbers
        ],
    }
    assert request.schema is not None
    return {name: value for name, value in reply.items() if name in request.schema["properties"]}


HONEST: dict[str, Said] = {
    "parse": PARSE,
    "align": align,
    "imagine": {"passage": "An imagined text."},
    "select": {"ids": [1, 2, 3, 4, 5]},
    "verify": {"sufficient": "NO"},
    "answer": {"answer": "Anna [1]."},
}


def target(*, script: dict[str, Said] | None = None, **more: Any) -> ScriptedTarget:
    replies = {**HONEST, "condense": {"summary": "In short."}, **(script or {})}

    def reply(request: ChatRequest) -> Said:
        answer = replies[stage(request)]
        return answer(request) if callable(answer) else answer

    return ScriptedTarget(reply, **more)


def build_program(model: ScriptedTarget, source: Any = None, **knobs: Any) -> RagProgram:
    runtime = Runtime({"main": model}, {"local": source or ListSource(texts(60))})
    return method("ggatrieval").build(runtime, {"candidates": 6, "wording": "brief", **knobs})


def read_prompts(model: ScriptedTarget, which: str) -> list[str]:
    return [request.messages[-1].content for request in model.requests if stage(request) == which]


def counts(model: ScriptedTarget) -> dict[str, int]:
    return {name: len(read_prompts(model, name)) for name in HONEST}


def notes(prediction: dspy.Prediction) -> dict[str, str]:
    return {event.about: event.outcome for event in prediction.trace if isinstance(event, Note)}


def titles(prompt: str) -> list[str]:
    return [word for word in prompt.split() if word.startswith("Title")]


def test_one_round_parses_aligns_selects_verifies_and_answers() -> None:
    model = target(script={"verify": {"sufficient": "YES"}})
    prediction = build_program(model)(question=QUESTION)
    assert prediction.answer == "Anna [1]."
    assert counts(model) == {"parse": 1, "align": 6, "imagine": 0, "select": 1, "verify": 1, "answer": 1}
    assert [p.id for p in prediction.passages] == ["p2", "p5", "p1", "p4", "p0"]
    names = ("full", "partial", "none", "full_final", "partial_final", "none_final", "rounds")
    assert [prediction.counters[name] for name in names] == [2, 2, 2, 2, 2, 1, 1]
    assert (
        prediction.counters["lm_calls"],
        prediction.counters["searches"],
        prediction.counters["dropped"],
    ) == (10, 1, 0)
    assert notes(prediction) == {
        "labels, round 1": "2 FULL, 2 PARTIAL, 2 NONE",
        "chosen, round 1": "p2 FULL, p5 FULL, p1 PARTIAL, p4 PARTIAL, p0 NONE",
        "order": "no choice had more documents than a window holds, where order says little",
    }


def test_rounds_are_bounded_and_the_last_one_is_not_verified() -> None:
    model, source = target(), ListSource(texts(60))
    prediction = build_program(model, source)(question=QUESTION)
    assert prediction.counters["rounds"] == 4
    assert (
        prediction.counters["lm_calls"] == 1 + 24 + 3 + 4 + 3 + 1
    )  # imagine, once a round, and verify are equal
    assert counts(model) == {"parse": 1, "align": 24, "imagine": 1, "select": 4, "verify": 1, "answer": 1}
    assert len({p for prompt in read_prompts(model, "align") for p in titles(prompt)}) == 24
    assert [k for _, k in source.queries[:2]] == [6, 12]
    assert prediction.counters["full"] + prediction.counters["partial"] + prediction.counters["none"] == 24


def test_conversion_rates_are_the_final_share_of_each_label() -> None:
    script = {"verify": {"sufficient": "YES"}}
    first = build_program(target(script=script), candidates=9)(question=QUESTION).counters
    assert [first[f"{label}_rate"] for label in ("full", "partial", "none")] == [1, 2 / 3, 0]
    source = ListSource(texts(60)[1::3])
    second = build_program(target(script=script), source, candidates=9)(question=QUESTION).counters
    assert "full_rate" not in second
    assert second["partial_rate"] == 5 / 9
    assert conversion([first, second]) == {"full_rate": 1, "partial_rate": 7 / 12, "none_rate": 0}


def test_condensed_documents_are_chosen_and_verified_and_whole_ones_answer() -> None:
    model = target(script={"verify": {"sufficient": "YES"}})
    prediction = build_program(model, doc_condense=True)(question=QUESTION)
    assert counts(model)["align"] == len(read_prompts(model, "condense")) == 6
    for prompt in (*read_prompts(model, "select"), *read_prompts(model, "verify")):
        assert "In short." in prompt
        assert "red BOOK" not in prompt
    assert "wrote the\nred BOOK" in read_prompts(model, "answer")[0]
    assert prediction.counters["irrelevant"] == 0
    assert prediction.counters["lm_calls"] == 16


def test_irrelevant_documents_are_left_out_of_all_but_the_counts() -> None:
    def condense(request: ChatRequest) -> Said:
        return {"summary": "In short." if "BOOK" in request.messages[-1].content else "[Irrelevant]."}

    model = target(script={"condense": condense})
    prediction = build_program(model, rounds=1, doc_condense=True, drop_label="PARTIAL")(question=QUESTION)
    assert titles(read_prompts(model, "select")[0]) == ["Title02", "Title05"]
    assert [p.id for p in prediction.passages] == ["p2", "p5"]
    assert [prediction.counters[name] for name in ("irrelevant", "full", "partial", "none")] == [4, 2, 2, 2]


def test_gold_sub_questions_are_searched_and_shown_when_asked_for() -> None:
    narrower = ["When was it written?", " ", "Where was it?"]
    listed = f"{QUESTION}\nIn particular:\n- When was it written?\n- Where was it?"
    model, source = target(), ListSource(texts(60))
    build_program(model, source, rounds=2, doc_condense=True, asqa_sub_questions=True)(
        question=QUESTION, sub_questions=narrower
    )
    assert [query for query, _ in source.queries[:3]] == [QUESTION, "When was it written?", "Where was it?"]
    assert source.queries[3][0] == f"{QUESTION}\nTitle02\nAnna wrote the\nred BOOK"
    for which in ("condense", "select", "verify", "answer"):
        assert all(f"Question: {listed}\n" in prompt for prompt in read_prompts(model, which))
    for which in ("parse", "align", "imagine"):
        assert not any("In particular" in prompt for prompt in read_prompts(model, which))


def test_an_unreadable_grade_is_zero() -> None:
    for keep, aligned in ((0.0, 6), (0.1, 0)):
        model = target(script={"grade": "no idea"})
        build_program(model, rounds=1, crag_filter=True, crag_keep=keep)(question=QUESTION)
        assert counts(model)["align"] == aligned


@pytest.mark.parametrize("top_up", [True, False])
def test_an_unreadable_choice_keeps_the_first_of_the_window(top_up: bool) -> None:
    model = target(script={"select": "no idea"})
    prediction = build_program(model, rounds=1, top_up=top_up)(question=QUESTION)
    assert [p.id for p in prediction.passages] == ["p2", "p5", "p1", "p4", "p0"]


def test_queries_are_made_from_the_chosen_documents() -> None:
    model, source = target(), ListSource(texts(60))
    build_program(model, source, rounds=2)(question=QUESTION)
    assert [query for query, _ in source.queries] == [
        QUESTION,
        f"{QUESTION}\nTitle02\nAnna wrote the\nred BOOK",
        f"{QUESTION}\nTitle05\nAnna wrote the\nred BOOK",
        f"{QUESTION}\nTitle01\nAnna WROTE it",
        f"{QUESTION}\nTitle04\nAnna WROTE it",
        "Who authored a tome?\nAn imagined text.",
    ]
    assert read_prompts(model, "imagine") == ["Query: Who authored a tome?"]


def test_only_unaligned_parts_are_reworded_whatever_characters_they_have() -> None:
    source = ListSource([Passage("p", "", "Bjarne wrote it"), Passage("q", "", "x"), Passage("r", "", "y")])
    script = {
        "parse": {**PARSE, "object": "c++  (new)"},
        "align": {
            "aligned": [{"component": 1, "segment": "wrote", "same": True}],
            "synonyms": [{"component": 1, "wording": "made"}, {"component": 2, "wording": "a language"}],
        },
    }
    build_program(target(script=script), source, rounds=2, scqu_scope="best", tau=0.9)(
        question="Who wrote C++ (new)?"
    )
    assert source.queries[1][0] == "Who wrote a language?\nAn imagined text."


def test_tau_and_scope_decide_which_queries_are_made() -> None:
    strict, best = ListSource(texts(60)), ListSource(texts(60))
    build_program(target(), strict, rounds=2, tau=0.9)(question=QUESTION)
    assert [query for query, _ in strict.queries[3:]] == [
        "Who wrote a tome?\nAn imagined text.",
        "Who authored a tome?\nAn imagined text.",
    ]
    build_program(target(), best, rounds=2, scqu_scope="best")(question=QUESTION)
    assert [query for query, _ in best.queries[1:]] == [f"{QUESTION}\nTitle02\nAnna wrote the\nred BOOK"]


def test_a_query_may_build_on_the_one_that_found_the_document() -> None:
    queries: dict[str, list[str]] = {}
    for base in ("q", "prevQ"):
        source = ListSource(texts(60))
        newest = target(script={"select": lambda request: {"ids": [2 if "Title08" in str(request) else 1]}})
        build_program(newest, source, candidates=5, rounds=3, scqu_base=base, top_up=False)(question=QUESTION)
        queries[base] = [query for query, _ in source.queries]
    first = f"{QUESTION}\nTitle02\nAnna wrote the\nred BOOK"
    assert queries["q"][:2] == queries["prevQ"][:2] == [QUESTION, first]
    assert queries["q"][2].startswith(f"{QUESTION}\nTitle05")
    assert queries["prevQ"][2].startswith(f"{first}\nTitle05")


def test_without_scqu_the_hits_of_the_question_are_read_on() -> None:
    model, source = target(), ListSource(texts(60))
    build_program(model, source, scqu=False)(question=QUESTION)
    assert source.queries == [(QUESTION, 6), (QUESTION, 12), (QUESTION, 18), (QUESTION, 24)]
    assert counts(model)["align"] == 24
    align_request = next(request for request in model.requests if stage(request) == "align")
    assert align_request.schema is not None
    assert list(align_request.schema["properties"]) == ["aligned"]


def test_rounds_end_when_nothing_new_is_found() -> None:
    model = target()
    prediction = build_program(model, ListSource(texts(8)))(question=QUESTION)
    assert prediction.counters["rounds"] == 2
    assert counts(model)["align"] == 8


def test_the_window_slides_with_the_chosen_documents_at_its_head() -> None:
    model = target(script={"select": {"ids": [2, 6]}})
    prediction = build_program(model, candidates=20, rounds=1, window=10, fga_rerank=False, top_up=False)(
        question=QUESTION
    )
    shown = [titles(prompt) for prompt in read_prompts(model, "select")]
    assert shown[0] == [f"Title{i:02d}" for i in range(10)]
    assert shown[1] == ["Title01", "Title05", *(f"Title{i}" for i in range(10, 18))]
    assert shown[2] == ["Title05", "Title13", "Title18", "Title19"]
    assert [p.id for p in prediction.passages] == ["p13"]


@pytest.mark.parametrize(("top_up", "ids"), [(True, ["p5", "p2", "p1", "p4", "p0"]), (False, ["p5"])])
def test_top_up_fills_with_the_next_best(top_up: bool, ids: list[str]) -> None:
    model = target(script={"select": {"ids": [2]}})
    prediction = build_program(model, rounds=1, top_up=top_up)(question=QUESTION)
    assert [p.id for p in prediction.passages] == ids
    assert titles(read_prompts(model, "answer")[0]) == [f"Title0{id[1]}" for id in ids]


@pytest.mark.parametrize(
    ("label", "ids"),
    [
        ("FULL", ["p1", "p4", "p0", "p3", "p7"]),
        ("PARTIAL", ["p2", "p0", "p3", "p5", "p8"]),
        ("NONE", ["p2", "p1", "p4", "p5", "p8"]),
    ],
)
def test_documents_of_a_label_are_replaced_by_the_best_others(label: str, ids: list[str]) -> None:
    model = target(script={"select": {"ids": [1, 4, 5, 7, 8]}})  # p2 p1 p4 p0 p3, of three of each label
    prediction = build_program(model, candidates=9, rounds=1, drop_label=label)(question=QUESTION)
    assert [p.id for p in prediction.passages] == ids
    assert prediction.counters[f"{label.lower()}_final"] == 0
    assert len(prediction.passages) == 5
    assert [name.split()[0] for name in notes(prediction)[f"without {label}"].split(", ")] == ids


def test_what_a_model_makes_up_is_dropped_and_counted() -> None:
    claims = ((1, "painted"), (7, "Anna"), (2, " "))
    made_up = {
        "aligned": [{"component": n, "segment": segment, "same": True} for n, segment in claims],
        "synonyms": [{"component": 8, "wording": "x"}],
    }
    script: dict[str, Said] = {
        "parse": {**PARSE, "subject": "Leo Tolstoy", "complement": "THE red  BOOK"},
        "align": made_up,
        "select": {"ids": [3, 0, 99, 3, -1]},
        "answer": {"answer": "Anna [1][7] wrote it [0]. So [2, 9, 3] [8,9]."},
    }
    model = target(script=script)
    prediction = build_program(model, ListSource(texts(4)), rounds=2)(question=QUESTION)
    assert prediction.answer == "Anna [1] wrote it. So [2][3]."
    assert "[1] wrote\n[2] THE red  BOOK\nPassage" in read_prompts(model, "align")[0]
    assert (prediction.counters["none"], prediction.counters["full"], prediction.counters["partial"]) == (
        4,
        0,
        0,
    )
    assert [p.id for p in prediction.passages] == ["p2", "p0", "p1", "p3"]
    # 1 slot; in each of 4 documents 2 segments and 1 synonym; 3 ids; 5 marks
    assert prediction.counters["dropped"] == 1 + 4 * 3 + 3 + 5


def test_an_alignment_counts_only_when_its_verdict_says_so() -> None:
    said_of_all = {
        "aligned": [
            {"component": 1, "segment": "wrote", "same": False},
            {"component": 2, "segment": "the red book", "same": True},
        ],
        "synonyms": [],
    }
    checked, unchecked = (target(script={"align": said_of_all}) for _ in range(2))
    source = ListSource(texts(60)[2::3])
    assert build_program(checked, source, rounds=1)(question=QUESTION).counters["partial"] == 6
    assert (
        build_program(unchecked, source, rounds=1, fga_reflect=False)(question=QUESTION).counters["full"] == 6
    )


@pytest.mark.parametrize("question", ["   ", "???"])
def test_a_question_without_words_is_answered(question: str) -> None:
    model = target(script={"align": {"aligned": [], "reflected": [], "synonyms": [ANY]}})
    prediction = build_program(model, rounds=2)(question=question)
    assert prediction.answer == "Anna [1]."
    assert counts(model)["imagine"] == 1


def test_a_question_without_parts_is_one_component() -> None:
    model = target(script={"parse": dict.fromkeys(SLOTS, "")})
    build_program(model, rounds=1)(question=QUESTION)
    assert f"Components:\n[1] {QUESTION}\nPassage:" in read_prompts(model, "align")[0]


def test_nothing_chosen_asks_the_question_again_and_verifies_nothing() -> None:
    model, source = target(script={"select": {"ids": []}}), ListSource(texts(60))
    prediction = build_program(model, source, rounds=2, top_up=False)(question=QUESTION)
    assert source.queries == [(QUESTION, 6), (QUESTION, 12)]
    assert (counts(model)["verify"], prediction.passages) == (0, ())


def finding(component: int, sentence: int, segment: str, *, same: bool = True) -> dict[str, Any]:
    return {"component": component, "sentence": sentence, "segment": segment, "same": same}


NUMBERED = Passage("p", "Books", "Nobody was there. Anna wrote the red book. She was in Bonn.")


@pytest.mark.parametrize(
    ("entries", "label", "dropped"),
    [
        ([finding(1, 3, "wrote"), finding(2, 3, "the red book")], "full", 0),
        ([finding(1, 3, "wrote"), finding(2, 0, "", same=False)], "partial", 0),
        ([finding(1, 0, "wrote"), finding(2, 0, "the Red book")], "none", 0),
        ([finding(1, 3, "wrote"), finding(2, 3, "the blue book")], "partial", 1),
        ([finding(1, 3, "wrote"), finding(2, 3, "the red book", same=False)], "partial", 0),
    ],
)  # fmt: skip
def test_every_part_has_an_entry_with_a_sentence_or_none(
    entries: list[dict[str, Any]], label: str, dropped: int
) -> None:
    reply = {"aligned": entries, "synonyms": []}
    model = target(script={"align": reply, "select": {"ids": [1]}})
    prediction = build_program(model, ListSource([NUMBERED]), rounds=1, align_form="sentences")(
        question=QUESTION
    )
    assert (prediction.counters[label], prediction.counters["dropped"]) == (1, dropped)
    (shown,) = read_prompts(model, "align")
    assert shown == (
        "Sentences:\n[1] Books\n[2] Nobody was there.\n[3] Anna wrote the red book.\n[4] She was in Bonn.\n"
        f"Question: {QUESTION}\nComponents:\n[1] wrote\n[2] the  Red book"
    )
