"""Parsing of replies: what is read, what is asked for again, and what must never be read wrongly."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import dspy
import pytest
from dspy.adapters.utils import serialize_for_json
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from ragc.core.counters import Counters, counting
from ragc.errors import ParseFailure
from ragc.programs.calls.layouts import adapter
from ragc.programs.calls.outputs import output_model, reply_schema
from ragc.programs.calls.parsing import DEEPEST, LONGEST, Parsed, parse
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import LAYOUTS
from ragc.programs.runtime import Runtime
from ragc.signatures.align import AlignComponent, SyntacticParse
from ragc.signatures.answer import ReadingNotes, ShortAnswer, apply_format, with_reasoning
from ragc.signatures.claims import ClaimSplit
from ragc.signatures.grade import CheckRelevance, NeedRetrieval, RelevanceGrade, SupportGrade, Utility
from ragc.signatures.query import AnswerPath, RewriteQuery, with_confidence
from ragc.signatures.route import EntityExtract
from ragc.signatures.select import RankPassages, SelectDocuments, VerifyDocuments
from ragc.signatures.step import ReactStep, SelfAskStep
from ragc.testing import ScriptedTarget
from tests.examples import examples
from tests.programs.calls.labelled_replies import outcome, read, rows_of, signature_of

CHOICE = apply_format(ShortAnswer, "choice")
YES_NO = apply_format(ShortAnswer, "yesno")
REASONED = with_reasoning(ShortAnswer)
SIGNATURES = (ShortAnswer, REASONED, CHOICE, RankPassages, AlignComponent, SyntacticParse, ReactStep)


def plain(parsed: Parsed) -> dict[str, Any]:
    return {name: serialize_for_json(value) for name, value in parsed.outputs.items()}


def outputs(signature: Any, text: str, layout: str = "json", **settings: Any) -> dict[str, Any]:
    return plain(parse(signature, text, layout=layout, **settings))


@pytest.mark.parametrize(
    ("file", "every", "right", "wrong"),
    [("held3.jsonl", 1, 0.75, 6), ("held4.jsonl", 1, 0.75, 4), ("work.jsonl", 5, 0.7, 1)],
)
def test_labelled_replies_are_read_or_asked_for_again_and_hardly_ever_read_wrong(
    file: str, every: int, right: float, wrong: int
) -> None:
    rows = rows_of(file)[::every]
    outcomes = [outcome(row, read(row)) for row in rows]
    assert outcomes.count("right") >= right * sum(row["readable"] for row in rows)
    assert outcomes.count("wrong") <= wrong


# Under an enforced schema.


def valid_replies() -> list[tuple[Any, dict[str, Any]]]:
    """Signatures and JSON values that fit their reply schemas, from the labelled replies."""
    found: dict[str, tuple[Any, dict[str, Any]]] = {}
    for file in ("work.jsonl", "held.jsonl", "work2.jsonl", "held2.jsonl"):
        for row in rows_of(file):
            values = {
                name: "so" if value is None else value for name, value in (row.get("values") or {}).items()
            }
            signature = signature_of(row)
            try:
                fitting = plain(Parsed(dict(vars(output_model(signature).model_validate(values)))))
                parse(signature, json.dumps(fitting), layout="json", enforced=True)
            except (ValidationError, ParseFailure):
                continue
            found[f"{row['signature']} {row.get('variant')} {json.dumps(fitting)}"] = signature, fitting
    return list(found.values())


def with_key(value: Mapping[str, Any], key: str, **change: Any) -> str:
    return json.dumps(
        {change.get("name", name) if name == key else name: inner for name, inner in value.items()}
    )


def other_type(value: Any) -> Any:
    return {"value": value} if isinstance(value, list) else [value] if isinstance(value, str) else f"{value}"


Damage = Callable[[random.Random, str, dict[str, Any], str], str]
DAMAGES: dict[str, Damage] = {
    "cut": lambda rng, text, value, key: text[: rng.randrange(len(text))],
    "doubled": lambda rng, text, value, key: text + text,
    "two values": lambda rng, text, value, key: f'{text[:-1]}, "{key}": "other"}}',
    "foreign key": lambda rng, text, value, key: json.dumps({**value, "note": "so"}),
    "foreign object": lambda rng, text, value, key: json.dumps({"unexpected": 1}),
    "renamed key": lambda rng, text, value, key: with_key(value, key, name=f"final_{key}"),
    "wrong type": lambda rng, text, value, key: json.dumps({**value, key: other_type(value[key])}),
    "null": lambda rng, text, value, key: json.dumps({**value, key: None}),
    "wrapped": lambda rng, text, value, key: json.dumps({"properties": value}),
    "list": lambda rng, text, value, key: f"[{text}]",
    "text before": lambda rng, text, value, key: f"Here it is: {text}",
    "text after": lambda rng, text, value, key: f"{text}\nIs that right?",
    "fence": lambda rng, text, value, key: f"```json\n{text}\n```",
    "single quotes": lambda rng, text, value, key: text.replace('"', "'"),
    "Python": lambda rng, text, value, key: repr(value),
    "comma": lambda rng, text, value, key: f"{text[:-1]},}}",
    "character lost": lambda rng, text, value, key: text[: (at := rng.randrange(len(text)))] + text[at + 1 :],
    "form": lambda rng, text, value, key: json.dumps({**value, key: "..."}),
}


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_an_enforced_reply_that_is_damaged_is_never_read_otherwise(finish: str) -> None:
    rng, valid = random.Random(45), valid_replies()
    assert len(valid) > 400
    wrong = []
    # A reply that lost its last quote looks as one that was cut does.
    kinds = [name for name in DAMAGES if finish == "stop" or name != "character lost"]
    for name in rng.choices(kinds, k=500):
        signature, value = rng.choice(valid)
        required = output_model(signature).model_json_schema().get("required", list(value))
        damaged = DAMAGES[name](rng, json.dumps(value), value, rng.choice(required))
        if name == "character lost":
            with contextlib.suppress(ValueError):
                json.loads(damaged)
                continue  # lost from a text, which is as exact without it
        with contextlib.suppress(ParseFailure):
            parsed = outputs(signature, damaged, enforced=True, finish=finish)
            if parsed != value and not (finish == "length" and _is_beginning(parsed, value)):
                wrong.append((name, damaged, parsed))
    assert wrong == []


def _is_beginning(parsed: dict[str, Any], value: dict[str, Any]) -> bool:
    """Whether a cut reply has the outputs that were whole, then a beginning, then nothing."""
    return all(
        not parsed[key] or value[key][: len(parsed[key])] == parsed[key] or parsed[key] == value[key]
        for key in value
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"unexpected": 1}',
        "Paris",
        '{"answer": 1912}',
        '{"Answer": "Paris"}',
        '{"answer": "a", "answer": "b"}',
    ],
)
def test_an_enforced_reply_that_does_not_fit_its_schema_fails_and_says_why(text: str) -> None:
    with pytest.raises(
        ParseFailure, match=r"does not fit its signature: answer|no JSON|two values|in place of"
    ):
        parse(ShortAnswer, text, layout="json", enforced=True)


def test_an_enforced_reply_may_lack_an_output_with_a_default() -> None:
    assert outputs(REASONED, '{"answer": "Paris"}', enforced=True) == {"reasoning": "", "answer": "Paris"}


def test_an_enforced_list_item_must_have_all_its_fields() -> None:
    with pytest.raises(ParseFailure):
        parse(AlignComponent, '{"aligned": [{"component": 1, "segment": "x"}]}', layout="json", enforced=True)


# Replies in other forms.

FORMS = [
    (ShortAnswer, "<think>Lyon?</think>\n\nParis<|im_end|>", {"answer": "Paris"}),
    (ShortAnswer, "```\nParis\n```", {"answer": "Paris"}),
    (ShortAnswer, "**Answer:** Paris\nExplanation: passage 1", {"answer": "Paris"}),
    (ShortAnswer, "[[ ## answer ## ]]\nParis\n\n[[ ## completed ## ]]", {"answer": "Paris"}),
    (ShortAnswer, "<answer>Smith &amp; Sons</answer>", {"answer": "Smith & Sons"}),
    (ShortAnswer, 'Sure!\n```json\n{"Answer": "Paris"}\n```', {"answer": "Paris"}),
    (ShortAnswer, "{'answer': 'Paris',}", {"answer": "Paris"}),
    (ShortAnswer, '{"final_answer": "Paris"}', {"answer": "Paris"}),
    (ShortAnswer, "Paris\n\nQuestion: And of Italy?\nAnswer: Rome", {"answer": "Paris"}),
    (RewriteQuery, "Improved query: a b", {"query": "a b"}),
    (REASONED, "Reasoning: It says so.\nAnswer: Paris", {"reasoning": "It says so.", "answer": "Paris"}),
    (YES_NO, "Yes, as the first passage says.", {"answer": "yes"}),
    (CHOICE, "(b) Lyon", {"answer": "B"}),
    (VerifyDocuments, '{"sufficient": true}', {"sufficient": "YES"}),
    (CheckRelevance, "No.", {"relevant": False}),
    (SupportGrade, "[Fully supported]", {"support": "fully"}),
    (Utility, "Rating: 4/5", {"utility": 4}),
    (NeedRetrieval, '{"need": 0.85}', {"need": 85}),
    (RelevanceGrade, "90", {"grade": {"points": 90}}),
    (RankPassages, "[3] > [1] > [2]", {"order": [3, 1, 2]}),
    (SelectDocuments, '{"ids": "1 and 3"}', {"ids": [1, 3]}),
    (SelectDocuments, "None", {"ids": []}),
    (
        EntityExtract,
        '{"entities": [{"text": "Rome", "kind": "person"}]}',
        {"entities": {"items": [{"text": "Rome", "kind": "person"}]}},
    ),
    (SelfAskStep, "Kind: Follow-up\nText: Who?", {"kind": "follow_up", "text": "Who?"}),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("signature", "text", "meaning"), FORMS)
def test_a_reply_in_another_form_is_read_in_every_layout(
    signature: Any, text: str, meaning: dict[str, Any], layout: str
) -> None:
    assert outputs(signature, text, layout) == meaning


@pytest.mark.parametrize(
    ("signature", "value"),
    [
        (ShortAnswer, {"answer": "Tom & <b>Jerry</b>"}),
        (CheckRelevance, {"relevant": True}),
        (RankPassages, {"order": [2, 1]}),
        (AlignComponent, {"aligned": [{"component": 1, "segment": "R&D", "same": False}], "synonyms": []}),
        (SyntacticParse, {**dict.fromkeys(SyntacticParse.output_fields, ""), "subject": "who"}),
    ],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_reply_as_the_layout_asks_for_it_is_not_counted_as_repaired(
    signature: Any, value: dict[str, Any], layout: str
) -> None:
    typed = dict(vars(output_model(signature).model_validate(value)))
    parsed = parse(
        signature, adapter(layout).format_assistant_message_content(signature, typed), layout=layout
    )
    assert (plain(parsed), parsed.repaired, parsed.dropped) == (value, 0, 0)


REFUSED = [
    (ShortAnswer, ""),
    (ShortAnswer, "{}"),
    (ShortAnswer, '{"answer": null}'),
    (ShortAnswer, "<think>I should"),
    (ShortAnswer, "I'm sorry, but I can't help with that."),
    (ShortAnswer, "Could you please share the passages?"),
    (ShortAnswer, "Sure, here is the JSON object you asked for:"),
    (ShortAnswer, '{"answer": "a name, number or short phrase"}'),
    (ShortAnswer, '{"answer": "<your answer>"}'),
    (ShortAnswer, '{"answer": "{answer}"}'),
    (ShortAnswer, '{"answer": "Sydney"}\n{"answer": "Melbourne"}'),
    (ShortAnswer, "Answer: Sydney\nAnswer: Melbourne"),
    (ShortAnswer, "Answer: Sydney\n\nSorry, I made a mistake. The correct answer is Melbourne."),
    (ShortAnswer, '{"error": "overloaded"}'),
    (ShortAnswer, "the the the the the the the the"),
    (REASONED, "The first passage speaks of the church and of"),
    (YES_NO, "Yes and no."),
    (CHOICE, "A. Mars\nB. Jupiter"),
    (CheckRelevance, '{"relevant": true | false}'),
    (VerifyDocuments, "The documents say much about it."),
    (SelectDocuments, '{"ids": "Rome in 1912"}'),
    (Utility, '{"utility": 3.5}'),
    (Utility, '{"utility": "4/10"}'),
    (RankPassages, '{"order": true}'),
    (ClaimSplit, '{"claims": [{"text": "Baku is a capital.", "need_search": "no"}]}'),
    (ReactStep, '{"thought": "t", "action_input": "q"}'),
    (SyntacticParse, "{}"),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("signature", "text"), REFUSED)
def test_what_is_not_clear_is_refused(signature: Any, text: str, layout: str) -> None:
    with pytest.raises(ParseFailure):
        parse(signature, text, layout=layout)


def test_an_aside_may_say_what_an_answer_may_not() -> None:
    text = '{"thought": "I cannot find it yet.", "action": "web", "action_input": "Varda"}'
    assert outputs(ReactStep, text)["thought"] == "I cannot find it yet."


@pytest.mark.parametrize(
    "text",
    ['search({"q": "x"})', 'search(q="x")', '{"name": "search", "arguments": {"q": "x"}}', '{"q": "x"}'],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tool_call_or_a_foreign_object_is_no_answer(text: str, layout: str) -> None:
    with pytest.raises(ParseFailure):
        parse(ShortAnswer, text, layout=layout)


# Cut replies.

MATCH = {"component": 1, "segment": "sank in 1912", "same": True}


@pytest.mark.parametrize("enforced", [True, False])
@pytest.mark.parametrize(
    ("signature", "text", "meaning", "dropped"),
    [
        (ShortAnswer, '{"answer": "the long ans', {"answer": "the long ans"}, 0),
        (RankPassages, '{"order": [3, 12, 1', {"order": [3, 12]}, 1),
        (
            AlignComponent,
            f'{{"aligned": [{json.dumps(MATCH)}, {{"component": 2, "seg',
            {"aligned": [MATCH], "synonyms": []},
            1,
        ),
        (AlignComponent, f'{{"aligned": [{json.dumps(MATCH)},', {"aligned": [MATCH], "synonyms": []}, 0),
    ],
)
def test_a_cut_reply_keeps_what_is_whole(
    signature: Any, text: str, meaning: Any, dropped: int, enforced: bool
) -> None:
    parsed = parse(signature, text, layout="json", enforced=enforced, finish="length")
    assert (plain(parsed), parsed.dropped) == (meaning, dropped)


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        (REASONED, '{"reasoning": "first of all'),
        (CHOICE, '{"answer": "A'),
        (NeedRetrieval, '{"need": 8'),
        (with_confidence(AnswerPath), '{"answer": "Paris", "confidence": 8'),
        (ShortAnswer, "<think>I should"),
    ],
)
def test_a_cut_reply_fails_where_its_last_output_may_be_another(signature: Any, text: str) -> None:
    with pytest.raises(ParseFailure):
        parse(signature, text, layout="json", finish="length")


# Limits, and anything at all.


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a" * (LONGEST + 1), "characters"),
        ("[" * (DEEPEST + 1), "brackets"),
        ('{"a":' * 50_000, "brackets|characters"),
    ],
)
def test_a_reply_past_the_limits_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ParseFailure, match=problem):
        parse(ShortAnswer, text, layout="json")


@settings(max_examples=examples(600), deadline=None)
@given(
    signature=st.sampled_from(SIGNATURES),
    layout=st.sampled_from(LAYOUTS),
    text=st.text(max_size=200) | st.text('[](){}<>"\\,:#|* `-/0123.answer\n', max_size=300),
    finish=st.sampled_from(["stop", "length"]),
    enforced=st.booleans(),
)
def test_any_text_is_outputs_that_fit_or_a_parse_failure(
    signature: Any, layout: str, text: str, finish: str, enforced: bool
) -> None:
    try:
        parsed = parse(signature, text, layout=layout, finish=finish, enforced=enforced)
    except ParseFailure as error:
        str(error).encode()
        return
    assert list(parsed.outputs) == list(signature.output_fields)
    output_model(signature).model_validate(plain(parsed))


LOOPS = [
    "[]",
    "{}",
    '{"a',
    "(",
    '"',
    "\\",
    "<a>",
    "<answer>",
    "[[ ## answer ## ]]\n",
    "Answer: ",
    "1, ",
    "- a\n",
    "a ",
    "no ",
    "```\n",
    "&",
    '{"answer": "',
    "\n",
    " ",
    "*",
    "#",
    "yes ",
    "\ud800",
    "a|",
    "a: ",
]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_model_in_a_loop_is_read_or_refused_soon(loop: str) -> None:
    start = time.process_time()
    for signature in (ShortAnswer, RankPassages, SyntacticParse):
        for layout in LAYOUTS:
            with contextlib.suppress(ParseFailure):
                parse(signature, loop * (LONGEST // len(loop)) + "}", layout=layout)
    assert time.process_time() - start < 20


# Outputs.


class Book(BaseModel):
    title: str = Field(description="as on the cover")
    default: int = 1
    properties: list[str]


class Shelf(dspy.Signature):
    text: str = dspy.InputField()
    title: str = dspy.OutputField(desc="of the shelf")
    books: Annotated[list[Book], Field(max_length=2)] = dspy.OutputField()
    subtitle: str | None = dspy.OutputField(default=None)


def test_reply_schema_is_strict_and_takes_names_that_are_words_of_json_schema() -> None:
    signature: Any = Shelf
    schema = reply_schema(signature)
    book = schema["$defs"]["Book"]
    assert schema["required"] == list(schema["properties"]) == ["title", "books", "subtitle"]
    assert schema["properties"]["books"]["maxItems"] == 2
    assert book["required"] == list(book["properties"]) == ["title", "default", "properties"]
    assert not book["additionalProperties"]
    value = {
        "title": "Sea",
        "books": [{"title": "Moby Dick", "default": 2, "properties": ["worn"]}],
        "subtitle": None,
    }
    assert outputs(Shelf, json.dumps(value), enforced=True) == value
    assert outputs(Shelf, json.dumps(value) + "\n", "chat") == value


def test_a_repaired_reply_costs_one_call_and_is_counted() -> None:
    target = ScriptedTarget(["**Answer:** Paris"], capabilities=())
    with counting(Counters()) as spent:
        prediction = RagPredict(ShortAnswer, Runtime({"main": target}))(question="Which city?", passages=[])
    assert (prediction.answer, spent.lm_calls, spent.repairs, spent.mended) == ("Paris", 1, 0, 1)


def test_notes_of_passages_are_read_from_nested_objects() -> None:
    notes = [{"passage": 1, "note": "so", "kind": "answers"}]
    text = json.dumps({"reading": {"notes": notes}, "answer": "Rome"})
    assert outputs(ReadingNotes, text, "xml") == {"reading": {"notes": notes}, "answer": "Rome"}
