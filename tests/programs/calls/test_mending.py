"""Mending: replies in the spellings of real models are read as what they mean, and counted."""

from __future__ import annotations

import contextlib
import json
import time
from enum import Enum
from typing import Annotated, Any, Literal

import dspy
import pytest
from dspy.adapters.utils import serialize_for_json
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from ragc.core.counters import Counters, counting
from ragc.errors import ParseFailure
from ragc.programs import method, trace
from ragc.programs.calls.layouts import JSON_LAYOUTS, adapter
from ragc.programs.calls.outputs import Reading, output_model, reply_schema
from ragc.programs.calls.predict import RagPredict
from ragc.programs.calls.reading.meaning import EMPTY
from ragc.programs.calls.replies import read_laid_out, read_reply
from ragc.programs.knobs import LAYOUTS
from ragc.programs.runtime import Runtime
from ragc.signatures.align import SyntacticParse
from ragc.signatures.answer import ReadingNotes, ShortAnswer, apply_format, one_of
from ragc.signatures.claims import ClaimSplit
from ragc.signatures.grade import (
    CheckRelevance,
    NeedRetrieval,
    RelevanceGrade,
    SupportGrade,
    Utility,
)
from ragc.signatures.route import DomainRouter, EntityExtract
from ragc.signatures.select import RankPassages, SelectDocuments, VerifyDocuments
from ragc.signatures.step import ReactStep, SelfAskStep, agent_step
from ragc.store.calls import CallStore
from ragc.testing import ListSource, ScriptedTarget
from tests.examples import cases, examples
from tests.exports.formats.python.replies import damage, value_like

CHOICE = apply_format(ShortAnswer, "choice")


class JudgeKnown(dspy.Signature):
    question: str = dspy.InputField()
    known: Literal["yes", "no"] = dspy.OutputField()


class Sure(dspy.Signature):
    question: str = dspy.InputField()
    confidence: Literal[0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100] = dspy.OutputField()


class Match(BaseModel):
    component: int = Field(ge=1, le=8)
    segment: str = Field(max_length=200)


class AlignComponent(dspy.Signature):
    question: str = dspy.InputField()
    aligned: Annotated[list[Match], Field(max_length=8)] = dspy.OutputField()
    reflected: Annotated[list[int], Field(max_length=8)] = dspy.OutputField()
    synonyms: Annotated[list[str], Field(max_length=8)] = dspy.OutputField()


class Ship(BaseModel):
    name: str
    crew: list[str]


class Crews(dspy.Signature):
    text: str = dspy.InputField()
    ships: list[Ship] = dspy.OutputField()


ACTION: Any = one_of(["local", "web", "finish"])
GRADE: Any = one_of(["none", "CORRECT", "INCORRECT"])


class Graded(dspy.Signature):
    question: str = dspy.InputField()
    thought: str = dspy.OutputField()
    action: ACTION = dspy.OutputField()  # pyright: ignore[reportInvalidTypeForm]
    action_input: str = dspy.OutputField()
    answer: str = dspy.OutputField()
    grade: GRADE = dspy.OutputField()  # pyright: ignore[reportInvalidTypeForm]
    improvement: str = dspy.OutputField()


MATCH = {"component": 1, "segment": "sank in 1912"}
CLAIM = {"claim": "Rome is in Italy", "need_search": "yes", "query": "Where is Rome?"}
ROME = {"text": "Rome", "kind": "person"}
LONG = "the ship sank in the north Atlantic " * 7


def read(signature: Any, text: str, layout: str = "json", *, truncated: bool = False) -> Reading:
    if layout in JSON_LAYOUTS:
        return read_reply(signature, text, truncated=truncated)
    return read_laid_out(signature, text, layout, truncated=truncated)


def plain(reading: Reading) -> dict[str, Any]:
    return {name: serialize_for_json(value) for name, value in reading.outputs.items()}


def parts(**some: Any) -> dict[str, Any]:
    return {**dict.fromkeys(SyntacticParse.output_fields, ""), **some}


def step(**some: Any) -> dict[str, Any]:
    return {"thought": "t", "action": "search", "action_input": "q", **some}


# What is wanted, what a model wrote for it as JSON, what it means, values mended, items dropped.
VALUES = [
    (VerifyDocuments, {"sufficient": "Yes"}, {"sufficient": "YES"}, 1, 0),
    (VerifyDocuments, {"sufficient": "yes."}, {"sufficient": "YES"}, 1, 0),
    (VerifyDocuments, {"sufficient": True}, {"sufficient": "YES"}, 1, 0),
    (VerifyDocuments, {"sufficient": "false"}, {"sufficient": "NO"}, 1, 0),
    (VerifyDocuments, {"sufficient": "No, the year is missing"}, {"sufficient": "NO"}, 1, 0),
    (JudgeKnown, {"known": "Yes"}, {"known": "yes"}, 1, 0),
    (JudgeKnown, {"known": False}, {"known": "no"}, 1, 0),
    (JudgeKnown, {"Known": "YES"}, {"known": "yes"}, 2, 0),
    (Sure, {"confidence": 84}, {"confidence": 80}, 1, 0),
    (Sure, {"confidence": "90%"}, {"confidence": 90}, 1, 0),
    (Sure, {"confidence": 0.9}, {"confidence": 90}, 1, 0),
    (SelectDocuments, {"ids": list(range(1, 21))}, {"ids": list(range(1, 11))}, 1, 0),
    (SelectDocuments, {"ids": ["[3]", "Document 1", 2.0]}, {"ids": [3, 1, 2]}, 2, 0),
    (SelectDocuments, {"ids": "1, 3 and 5"}, {"ids": [1, 3, 5]}, 1, 0),
    (SelectDocuments, {"ids": [1, "the best one", 3]}, {"ids": [1, 3]}, 0, 1),
    (SelectDocuments, {"ids": [1, "the second one", 3]}, {"ids": [1, 2, 3]}, 1, 0),
    (SelectDocuments, {"ids": 4}, {"ids": [4]}, 1, 0),
    (SelectDocuments, {"ids": [{"id": 3}, {"id": 1}]}, {"ids": [3, 1]}, 2, 0),
    (SyntacticParse, parts(subject="who", object=None), parts(subject="who"), 1, 0),
    (ClaimSplit, {"claims": [CLAIM] * 6}, {"claims": [CLAIM] * 5}, 1, 0),
    (
        ClaimSplit,
        {"claims": [CLAIM, {"claim": "a", "need_search": "maybe", "query": "b"}]},
        {"claims": [CLAIM]},
        0,
        1,
    ),
    (
        ClaimSplit,
        {"claims": [CLAIM, {"claim": "Rome is old", "need_search": True, "query": None}]},
        {"claims": [CLAIM, {"claim": "Rome is old", "need_search": "yes", "query": ""}]},
        2,
        0,
    ),
    (
        EntityExtract,
        {"entities": {"items": [ROME, {"text": "Tiber", "kind": "river"}]}},
        {"entities": {"items": [ROME]}},
        0,
        1,
    ),
    (EntityExtract, {"entities": [ROME]}, {"entities": {"items": [ROME]}}, 1, 0),
    (EntityExtract, {"entities": []}, {"entities": {"items": []}}, 1, 0),
    (EntityExtract, {"entities": None}, {"entities": {"items": []}}, 1, 0),
    (
        AlignComponent,
        {"aligned": [MATCH, {"component": 0, "segment": "x"}], "reflected": ["1"], "synonyms": None},
        {"aligned": [MATCH], "reflected": [1], "synonyms": []},
        2,
        1,
    ),
    (
        AlignComponent,
        {"aligned": [{"component": 1, "segment": LONG}], "reflected": [], "synonyms": []},
        {"aligned": [{"component": 1, "segment": LONG[:200]}], "reflected": [], "synonyms": []},
        1,
        0,
    ),
    (SelfAskStep, {"kind": "follow-up", "text": "Who?"}, {"kind": "follow_up", "text": "Who?"}, 1, 0),
    (SelfAskStep, {"kind": "Follow up", "text": "Who?"}, {"kind": "follow_up", "text": "Who?"}, 1, 0),
    (ReactStep, step(action="Local"), step(action="local"), 1, 0),
    (ReactStep, step(action="Finish"), step(action="finish"), 1, 0),
    (ReactStep, step(action="web search"), step(action="web"), 1, 0),
    (DomainRouter, {"domain": "Finance"}, {"domain": "finance"}, 1, 0),
    (DomainRouter, {"domain": ["movie"]}, {"domain": "movie"}, 1, 0),
    (DomainRouter, {"domain": {"name": "Sports"}}, {"domain": "sports"}, 1, 0),
    (RelevanceGrade, {"grade": 90}, {"grade": {"points": 90}}, 1, 0),
    (RelevanceGrade, {"grade": {"points": 90.5}}, {"grade": {"points": 91}}, 1, 0),
    (RelevanceGrade, {"grade": {"points": "5"}}, {"grade": {"points": 5}}, 1, 0),
    (RelevanceGrade, {"grade": {"score": "90"}}, {"grade": {"points": 90}}, 2, 0),
    (NeedRetrieval, {"need": "85%"}, {"need": 85}, 1, 0),
    (SupportGrade, {"support": "Fully"}, {"support": "fully"}, 1, 0),
    (SupportGrade, {"support": "Fully supported"}, {"support": "fully"}, 1, 0),
    (Utility, {"utility": "5"}, {"utility": 5}, 1, 0),
    (Utility, {"utility": "4/5"}, {"utility": 4}, 1, 0),
    (NeedRetrieval, {"need": {"percent": 0.9}}, {"need": 90}, 1, 0),
    (CheckRelevance, {"relevant": 1}, {"relevant": True}, 1, 0),
    (CheckRelevance, {"relevant": 0}, {"relevant": False}, 1, 0),
    (CheckRelevance, {"relevant": "Yes."}, {"relevant": True}, 1, 0),
    (CheckRelevance, {"relevant": "False"}, {"relevant": False}, 1, 0),
    (RankPassages, {"order": "[3] > [1] > [2]"}, {"order": [3, 1, 2]}, 1, 0),
    (
        ReadingNotes,
        {"reading": [{"passage": 1, "note": "word " * 40, "kind": "Answers"}], "answer": "Rome"},
        {
            "reading": {"notes": [{"passage": 1, "note": ("word " * 32).strip(), "kind": "answers"}]},
            "answer": "Rome",
        },
        3,
        0,
    ),
    (ShortAnswer, {"answer": 1912}, {"answer": "1912"}, 1, 0),
    (ShortAnswer, {"answer": ["Rome", "Paris"]}, {"answer": "Rome, Paris"}, 1, 0),
    (ShortAnswer, {"response": "Paris"}, {"answer": "Paris"}, 1, 0),
    (ShortAnswer, {"answer": {"text": "Paris"}}, {"answer": "Paris"}, 1, 0),
    (ShortAnswer, {"reply": {"answer": "Paris"}}, {"answer": "Paris"}, 1, 0),
    (CHOICE, {"answer": "B."}, {"answer": "B"}, 1, 0),
    (CHOICE, {"answer": "(b)"}, {"answer": "B"}, 1, 0),
    (CHOICE, {"answer": "B. Paris"}, {"answer": "B"}, 1, 0),
    (CHOICE, {"answer": "The answer is C"}, {"answer": "C"}, 1, 0),
    (CHOICE, {"answer": "A man of letters"}, {"answer": "A man of letters"}, 0, 0),
    (
        agent_step(
            (
                "local",
                "web",
            ),
            graded=True,
        ),
        {**step(action="Local"), "answer": None, "grade": None, "explanation": "", "improvement": None},
        {"thought": "t", "step": {"action": "local", "action_input": "q"}},
        2,
        0,
    ),
    (
        agent_step(
            (
                "local",
                "web",
            ),
            graded=False,
        ),
        {"thought": "t", "step": {"Action": "Local", "action_input": "q"}},
        {"thought": "t", "step": {"action": "local", "action_input": "q"}},
        2,
        0,
    ),
    (
        Graded,
        {**step(action="Local"), "answer": None, "grade": None, "improvement": None},
        {**step(action="local"), "answer": "", "grade": "none", "improvement": ""},
        4,
        0,
    ),
]


@pytest.mark.parametrize(("signature", "value", "meaning", "mended", "dropped"), VALUES)
def test_a_value_in_other_spelling_is_read_as_it_is_meant(
    signature: Any, value: dict[str, Any], meaning: dict[str, Any], mended: int, dropped: int
) -> None:
    reading = read(signature, json.dumps(value))
    assert (plain(reading), reading.mended, reading.dropped) == (meaning, mended, dropped)


# What is wanted, a reply as it came, what it means, values mended; the same in every layout.
REPLIES = [
    (ShortAnswer, "Paris", {"answer": "Paris"}, 1),
    (ShortAnswer, '"Paris"', {"answer": "Paris"}, 1),
    (ShortAnswer, "'Paris'", {"answer": "Paris"}, 1),
    (ShortAnswer, "`Paris`", {"answer": "Paris"}, 1),
    (ShortAnswer, "```\nParis\n```", {"answer": "Paris"}, 1),
    (ShortAnswer, "Let me think.\n**Answer:** Paris", {"answer": "Paris"}, 1),
    (ShortAnswer, "## Answer\nParis\nin France", {"answer": "Paris\nin France"}, 1),
    (ShortAnswer, "[[ ## Answer ## ]]\nParis", {"answer": "Paris"}, 1),
    (ShortAnswer, "[[ answer ]]: Paris", {"answer": "Paris"}, 1),
    (ShortAnswer, "<Answer>Smith & Sons < 5</Answer>", {"answer": "Smith & Sons < 5"}, 1),
    (ShortAnswer, "<answer>Paris", {"answer": "Paris"}, 1),
    (ShortAnswer, 'Sure!\n```json\n{"Answer": "Paris"}\n```\nAnything else?', {"answer": "Paris"}, 2),
    (VerifyDocuments, "Yes", {"sufficient": "YES"}, 2),
    (VerifyDocuments, "Sufficient: no.", {"sufficient": "NO"}, 2),
    (JudgeKnown, "true", {"known": "yes"}, 2),
    (CheckRelevance, "<relevant>yes</relevant>", {"relevant": True}, 2),
    (RelevanceGrade, "90", {"grade": {"points": 90}}, 2),
    (RankPassages, "[3] > [1] > [2]", {"order": [3, 1, 2]}, 2),
    (RankPassages, "[2, 1]", {"order": [2, 1]}, 1),
    (CHOICE, "B.", {"answer": "B"}, 2),
    (CHOICE, "The answer is (b).", {"answer": "B"}, 2),
    (
        SelfAskStep,
        "Kind: Follow-up\nText: Who built it?",
        {"kind": "follow_up", "text": "Who built it?"},
        2,
    ),
    (
        SelfAskStep,
        '[{"kind": "follow_up", "text": "Who built it?"}]',
        {"kind": "follow_up", "text": "Who built it?"},
        1,
    ),
    (
        ReactStep,
        "I need the builder.\n[[ ## action ## ]]\nLocal\n[[ ## action input ## ]]\nbuilder",
        {"thought": "I need the builder.", "action": "local", "action_input": "builder"},
        2,
    ),
]


@pytest.mark.parametrize("layout", ["minimal", "json", "chat", "xml"])
@pytest.mark.parametrize(("signature", "text", "meaning", "mended"), REPLIES)
def test_a_reply_in_another_frame_is_read_in_every_layout(
    signature: Any, text: str, meaning: dict[str, Any], mended: int, layout: str
) -> None:
    reading = read(signature, text, layout)
    assert plain(reading) == meaning
    assert 1 <= reading.mended <= mended + 1


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("chat", "[[ ## answer ## ]]\nB.\n\n[[ ## completed ## ]]"),
        ("xml", "<answer>\nB.\n</answer>"),
        ("chat", "[[ ## answer ## ]]\n(b) Paris"),
    ],
)
def test_validators_run_in_every_layout(layout: str, text: str) -> None:
    assert read(CHOICE, text, layout) == Reading({"answer": "B"}, mended=1)


class Colour(Enum):
    RED = 1
    BLUE = 2


class Painted(dspy.Signature):
    question: str = dspy.InputField()
    colour: Colour = dspy.OutputField()


@pytest.mark.parametrize(
    ("layout", "text"), [("chat", "[[ ## colour ## ]]\nBLUE"), ("xml", "<colour>BLUE</colour>")]
)
def test_what_only_dspy_reads_is_read_as_dspy_does_and_counted(layout: str, text: str) -> None:
    assert read(Painted, text, layout) == Reading({"colour": Colour.BLUE}, mended=1)


@pytest.mark.parametrize(
    ("layout", "text", "answer"),
    [
        ("chat", "[[ ## answer ## ]]\nthe tag <answer>x</answer>", "the tag <answer>x</answer>"),
        ("xml", "<answer>\n[[ ## answer ## ]]\nParis\n</answer>", "[[ ## answer ## ]]\nParis"),
    ],
)
def test_marks_of_another_layout_inside_an_answer_are_part_of_it(layout: str, text: str, answer: str) -> None:
    assert read(ShortAnswer, text, layout) == Reading({"answer": answer})


@pytest.mark.parametrize(
    ("signature", "layout", "text"),
    [
        (CheckRelevance, "chat", "[[ ## relevant ## ]]\nTrue\n\n[[ ## completed ## ]]"),
        (CheckRelevance, "xml", "<relevant>False</relevant>"),
        (RankPassages, "xml", "<order><item>2</item><item>1</item></order>"),
        (RankPassages, "chat", "[[ ## order ## ]]\n[2, 1]"),
        (ShortAnswer, "xml", "<answer>\nR&amp;D\n</answer>"),
        (SyntacticParse, "xml", "".join(f"<{slot}></{slot}>" for slot in SyntacticParse.output_fields)),
        (RankPassages, "json", '{"order": [2, 1]}'),
    ],
)
def test_what_is_written_as_asked_for_is_not_counted(signature: Any, layout: str, text: str) -> None:
    reading = read(signature, text, layout)
    assert (reading.mended, reading.dropped) == (0, 0)


@pytest.mark.parametrize(
    ("text", "meaning", "dropped"),
    [
        ('{"aligned": [', [], 0),
        ('{"aligned": [{"component": 1, "segment": "sank in 1912"}, {"component": 2, "seg', [MATCH], 1),
        (
            '{"aligned": [{"component": 1, "segment": "sank in 1912"}, {"component": 2, "segment": "th',
            [MATCH],
            1,
        ),
        ('{"aligned": [{"component": 1, "segment": "sank in 1912"},', [MATCH], 0),
        ('{"aligned": [{"component": 1, "segment": "sank in 1912"}', [MATCH], 0),
        ('{"aligned": [{"component": 1, "segment": "sank in 1912"}]', [MATCH], 0),
        ('{"aligned": [{"component": 1, "segment": "sank in 1912"}], "refl', [MATCH], 0),
    ],
)
def test_a_cut_reply_keeps_what_was_finished(text: str, meaning: list[Any], dropped: int) -> None:
    reading = read(AlignComponent, text, truncated=True)
    assert plain(reading) == {"aligned": meaning, "reflected": [], "synonyms": []}
    assert reading.dropped == dropped


def test_a_list_inside_an_item_of_a_list_keeps_what_was_finished_too() -> None:
    reading = read(Crews, '{"ships": [{"name": "Titanic", "crew": ["Smith", "Wilde", "Mur', truncated=True)
    assert plain(reading) == {"ships": [{"name": "Titanic", "crew": ["Smith", "Wilde"]}]}
    assert reading.dropped == 1


def test_a_cut_reply_leaves_outputs_out_that_may_be_absent() -> None:
    class Noted(dspy.Signature):
        question: str = dspy.InputField()
        known: Literal["yes", "no"] = dspy.OutputField()
        note: str | None = dspy.OutputField(default=None)

    reading = read(Noted, '{"known": "Yes.", "no', truncated=True)
    assert reading.outputs == {"known": "yes", "note": None}


def test_a_number_that_was_cut_is_no_number() -> None:
    reading = read(RankPassages, '{"order": [3, 12, 1', truncated=True)
    assert (reading.outputs, reading.dropped) == ({"order": [3, 12]}, 1)


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        (ShortAnswer, ""),
        (ShortAnswer, "{}"),
        (ShortAnswer, "..."),
        (ShortAnswer, '{"answer": null}'),
        (ShortAnswer, '{"answer": {"a": 1, "b": 2}}'),
        (VerifyDocuments, "The documents say much about it."),
        (VerifyDocuments, '{"sufficient": "perhaps"}'),
        (JudgeKnown, '{"known": "Nobody knows"}'),
        (SelectDocuments, '{"ids": ["Rome", "Paris"]}'),
        (SelectDocuments, '{"ids": "Rome in 1912"}'),
        (Utility, '{"utility": 9}'),
        (Utility, '{"utility": "4/10"}'),
        (NeedRetrieval, '{"need": 130}'),
        (CheckRelevance, '{"relevant": 2}'),
        (ReactStep, json.dumps({"thought": "t", "action_input": "q"})),
        (ReactStep, "Rome"),
        (AlignComponent, '{"aligned": [{"component": 0, "segment": "x"}], "reflected": [], "synonyms": []}'),
        (AlignComponent, '{"aligned": [], "reflected": []}'),
    ],
)
def test_nothing_is_invented(signature: Any, text: str) -> None:
    for layout in ("json", "chat", "xml"):
        with pytest.raises(ParseFailure):
            read(signature, text, layout)


SIGNATURES = sorted(
    {repr(case[0].__name__): case[0] for case in VALUES if case[0].__name__ != "StringSignature"}.items()
)


def replies_of(signature: Any) -> st.SearchStrategy[dict[str, Any]]:
    schema = reply_schema(signature)
    kind = {"type": "object", "properties": schema["properties"]}
    strategy: st.SearchStrategy[dict[str, Any]] = value_like(kind, schema.get("$defs", {}))
    return strategy


def lay_out(signature: Any, outputs: dict[str, Any], layout: str) -> str:
    if layout in JSON_LAYOUTS:
        return json.dumps(outputs)
    typed = output_model(signature).model_validate(outputs)
    values = {name: getattr(typed, name) for name in outputs}
    text: str = adapter(layout).format_assistant_message_content(signature, values)
    return text


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_a_reply_that_fits_its_schema_is_left_as_it_is(data: Any) -> None:
    _, signature = data.draw(st.sampled_from(SIGNATURES))
    outputs = data.draw(replies_of(signature))
    parts = [
        str(outputs.get(name))
        for name, info in signature.output_fields.items()
        if name == "answer" or not info.is_required()
    ]
    assume(not any(part and part.strip().casefold() in EMPTY for part in parts))  # "none" is no part
    assume("<" not in str(outputs.get("answer")))  # the form of a prompt, not filled in
    for truncated in (False, True):
        reading = read(signature, json.dumps(outputs), truncated=truncated)
        assert (plain(reading), reading.mended, reading.dropped) == (outputs, 0, 0)


@settings(max_examples=examples(600), deadline=None)
@given(data=st.data())
def test_no_reply_of_any_bytes_raises_anything_but_a_parse_failure(data: Any) -> None:
    _, signature = data.draw(st.sampled_from(SIGNATURES))
    layout = data.draw(st.sampled_from(LAYOUTS))
    good = lay_out(signature, data.draw(replies_of(signature)), data.draw(st.sampled_from(LAYOUTS)))
    text = data.draw(
        damage(good)
        | st.binary(max_size=300).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
        | st.text(st.characters(), max_size=200)
        | st.text('[](){}<>"\\,:# `-/0123.\n', max_size=300)
    )
    try:
        reading = read(signature, text, layout, truncated=data.draw(st.booleans()))
    except ParseFailure as error:
        str(error).encode()
        return
    assert list(reading.outputs) == list(signature.output_fields)
    output_model(signature).model_validate(plain(reading))  # what was read fits
    json.dumps(plain(reading)).encode()
    assert reading.mended >= 0 <= reading.dropped


LOOPS = ["[", "{", '{"a":', "(", '"', "\\", "<a>", "<answer>", "[[ ## answer ## ]]\n", "Answer: ", "1, ",
         "1 2 x ", "- a\n", "a ", "no ", "```\n", "&",
         '{"answer": "', "\n", " \n", "[1]", "yes ", "\ud800"]  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
def test_a_model_in_a_loop_is_read_or_refused_soon(loop: str) -> None:
    start = time.process_time()
    for signature in cases((ShortAnswer, RankPassages, VerifyDocuments, AlignComponent, SyntacticParse), 2):
        for layout in LAYOUTS:
            for text in (loop * (20_000 // len(loop)), loop * (20_000 // len(loop)) + "}"):
                with contextlib.suppress(ParseFailure):
                    read(signature, text, layout, truncated=True)
    assert time.process_time() - start < 20


class Question(dspy.Signature):
    question: str = dspy.InputField()
    ids: Annotated[list[int], Field(max_length=2)] = dspy.OutputField()
    note: str = dspy.OutputField(default="nothing")


def test_a_mended_reply_costs_one_call_is_counted_and_replayed_as_it_was_read(
    tmp_path: Any,
) -> None:
    text = 'Here: {"IDs": ["3", "x", "[1]"]}'
    target = ScriptedTarget([text], capabilities=())
    store = CallStore(tmp_path)
    for at in (store, store, CallStore(tmp_path)):
        call = RagPredict(Question, Runtime({"main": target}, store=at))
        with trace.recording() as run, counting(Counters()) as spent:
            prediction = call(question="Which?")
        assert (prediction.ids, prediction.note) == ([3, 1], "nothing")
        assert (spent.lm_calls, spent.repairs, spent.mended, spent.dropped) == (1, 0, 4, 1)
        (event,) = run.events
        assert isinstance(event, trace.Call)
        assert (event.outputs, event.mended) == ({"ids": [3, 1], "note": "nothing"}, 4)
    assert len(target.requests) == 1


def test_the_schema_on_the_wire_stays_strict_and_what_fits_it_is_not_counted() -> None:
    target = ScriptedTarget([{"ids": [1, 2], "note": "n"}])
    call = RagPredict(Question, Runtime({"main": target}))
    with counting(Counters()) as spent:
        call(question="Which?")
    (request,) = target.requests
    assert request.schema is not None
    assert request.schema["required"] == ["ids", "note"]
    assert request.schema["properties"]["ids"]["maxItems"] == 2
    assert not request.schema["additionalProperties"]
    assert (spent.mended, spent.dropped) == (0, 0)


class Book(BaseModel):
    title: str = Field(description="as on the cover")
    default: int = 1
    properties: list[str]


class Shelf(dspy.Signature):
    text: str = dspy.InputField()
    title: str = dspy.OutputField(desc="of the shelf")
    books: list[Book] = dspy.OutputField()


def test_outputs_may_have_the_names_of_words_of_json_schema() -> None:
    signature: Any = Shelf
    schema = reply_schema(signature)
    book = schema["$defs"]["Book"]
    assert schema["required"] == list(schema["properties"]) == ["title", "books"]
    assert book["required"] == list(book["properties"]) == ["title", "default", "properties"]
    assert book["properties"]["title"] == {"type": "string"}
    assert book["properties"]["properties"] == {"type": "array", "items": {"type": "string"}}
    value = {"title": "Sea", "books": [{"title": "Moby Dick", "default": 2, "properties": ["worn"]}]}
    reading = read(Shelf, json.dumps(value))
    assert (plain(reading), reading.mended) == (value, 0)


def test_a_demonstration_made_of_a_mended_reply_is_stored_mended() -> None:
    program = method("vanilla").build(
        Runtime({"main": ScriptedTarget(["**Answer:** Paris"], capabilities=())}, {"local": ListSource([])}),
        {"answer_format": "short"},
    )
    with dspy.context(trace=[]):
        prediction = program(question="Which city?")
        entries = dspy.settings.trace
    assert (prediction.answer, prediction.counters["mended"]) == ("Paris", 1)
    ((_, _, shown),) = entries
    assert shown.answer == "Paris"
    (event,) = (event for event in prediction.trace if isinstance(event, trace.Call))
    assert event.outputs == {"answer": "Paris"}
