"""Mending: replies in the spellings of real models are read as what they mean, and counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dspy.adapters.utils import serialize_for_json

from ragc.programs.calls.layouts import JSON_LAYOUTS, read_laid_out
from ragc.programs.calls.replies import Reading, read_reply
from ragc.signatures.align import AlignComponent, SyntacticParse
from ragc.signatures.answer import ReadingNotes, ShortAnswer, apply_format
from ragc.signatures.claims import ClaimSplit, JudgeKnown, with_judgement
from ragc.signatures.grade import (
    NeedRetrieval,
    RelevanceCheck,
    RelevanceGrade,
    SupportGrade,
    Utility,
)
from ragc.signatures.query import ChooseAction
from ragc.signatures.route import DomainRouter, EntityExtract
from ragc.signatures.select import RankPassages, SelectDocuments, VerifyDocuments
from ragc.signatures.step import ReactStep, SelfAskStep, agent_step

CHOICE = apply_format(ShortAnswer, "choice")
CONFIDENT = with_judgement(JudgeKnown, "confidence")
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
    (CONFIDENT, {"confidence": 84}, {"confidence": 80}, 1, 0),
    (CONFIDENT, {"confidence": "90%"}, {"confidence": 90}, 1, 0),
    (CONFIDENT, {"confidence": 0.9}, {"confidence": 90}, 1, 0),
    (SelectDocuments, {"ids": list(range(1, 21))}, {"ids": list(range(1, 11))}, 1, 0),
    (SelectDocuments, {"ids": ["[3]", "Document 1", 2.0]}, {"ids": [3, 1, 2]}, 2, 0),
    (SelectDocuments, {"ids": "1, 3 and 5"}, {"ids": [1, 3, 5]}, 1, 0),
    (SelectDocuments, {"ids": [1, "the second one", 3]}, {"ids": [1, 3]}, 0, 1),
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
        {"aligned": [{"component": 1, "segment": LONG[:199]}], "reflected": [], "synonyms": []},
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
    (NeedRetrieval, {"need": "85%"}, {"need": {"percent": 85}}, 2, 0),
    (SupportGrade, {"support": "Fully"}, {"support": "fully"}, 1, 0),
    (SupportGrade, {"support": "Fully supported"}, {"support": "fully"}, 1, 0),
    (Utility, {"utility": "5"}, {"utility": 5}, 1, 0),
    (Utility, {"utility": "4/5"}, {"utility": 4}, 1, 0),
    (RelevanceCheck, {"relevant": "Yes."}, {"relevant": True}, 1, 0),
    (RelevanceCheck, {"relevant": "False"}, {"relevant": False}, 1, 0),
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
        agent_step(["local", "web"], graded=True),
        {**step(action="Local"), "answer": None, "grade": None, "explanation": "", "improvement": None},
        {**step(action="local"), "answer": "", "grade": "none", "explanation": "", "improvement": ""},
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
