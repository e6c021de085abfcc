"""Labels of SlimPLM: the matching ratio, the balance, the judge's conversations, the teacher's rewrites."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.errors import NothingAnswered
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.support.colours import COLOURS
from tests.support.rows import read_rows
from tests.training.data.common import (
    Answering,
    change_questions,
    fields,
    maker,
    sent_by_program,
    targets,
    thing_number,
    write_data,
)

ALL = ("training_data.balance=false",)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_data(tmp_path, "slimplm")


def proxy(request: ChatRequest) -> dict[str, Any] | str:
    """Knows the colours of things whose number is even."""
    i = thing_number(request)
    return {"heuristic_answer": f"Thing number{i} is {COLOURS[i % 5]}." if i % 2 == 0 else "No idea."}


def models(draft: Answering = proxy, teacher: Answering | None = None) -> dict[str, ScriptedTarget]:
    def unused(request: ChatRequest) -> dict[str, Any]:
        raise AssertionError("this model was called")

    return targets(main=unused, proxy=draft, teacher=teacher or unused)


def test_a_label_is_whether_enough_gold_answers_are_in_the_draft(folder: Path) -> None:
    make = maker(folder, "slimplm-labels")
    data = make(models(), sets=ALL)
    assert data.classes == {"known": 4, "unknown": 4}
    for row in read_rows(data.path):
        assert row.keys() == {"id", "question", "known", "ratio"}
        assert row["known"] is (int(row["id"][1:]) % 2 == 0)
        assert row["ratio"] == float(row["known"])
    assert data.rows == read_rows(data.path)


def test_the_ratio_must_be_above_theta_and_counts_aliases_apart(folder: Path) -> None:
    change_questions(folder, lambda row: {**row, "answers": [*row["answers"], "crimson"]})
    make = maker(folder, "slimplm-labels")
    assert make(models(), sets=ALL).classes == {"unknown": 8}
    data = make(models(), sets=(*ALL, "knobs.known_theta=0.4"))
    assert data.classes == {"known": 4, "unknown": 4}
    assert {row["ratio"] for row in data.rows} == {0.0, 0.5}


def test_an_unknown_question_stays_where_a_known_one_before_it_is_unpaired(folder: Path) -> None:
    make = maker(folder, "slimplm-labels")
    order = [row["id"] for row in make(models(), sets=ALL).rows]
    known = dict(zip(order, "nnynnyyn", strict=True))

    def answer(request: ChatRequest) -> dict[str, Any]:
        i = thing_number(request)
        return {"heuristic_answer": f"It is {COLOURS[i % 5]}." if known[f"q{i}"] == "y" else "No idea."}

    data = make(models(answer), "balanced.jsonl", store=CallStore(None))
    assert [row["id"] for row in data.rows] == [order[at] for at in (2, 3, 5, 6, 7)]
    assert data.drops == {"unknown, and no known question before it to balance it": 3}


def test_a_draft_that_cannot_be_read_or_is_empty_has_no_label(folder: Path) -> None:
    def answer(request: ChatRequest) -> dict[str, Any] | str:
        i = thing_number(request)
        return {"heuristic_answer": "  "} if i == 0 else "" if i == 1 else proxy(request)

    data = maker(folder, "slimplm-labels")(models(answer), sets=ALL)
    assert len(data.rows) == 6
    assert data.drops == {"a draft that could not be read, or was empty": 2}


def test_the_judge_s_conversations_are_what_the_program_sends(folder: Path) -> None:
    data = maker(folder, "slimplm-judge")(models(), sets=(*ALL, "knobs.wording=brief"))
    assert data.classes == {"known": 4, "unknown": 4}

    def answer(request: ChatRequest) -> dict[str, Any] | str:
        return {"reason": "", "known": "yes"} if "known" in fields(request) else proxy(request)

    answering = {**models(), "main": ScriptedTarget(lambda r: {"answer": "red"})}
    sent = sent_by_program(folder, answering, "proxy", answer, ("knobs.wording=brief",), 8)
    for row in data.rows:
        *prompt, reply = row["messages"]
        assert prompt in sent
        known = "is" in prompt[-1]["content"].partition("Heuristic answer:")[2]
        assert json.loads(reply["content"])["known"] == ("yes" if known else "no")


def test_prompts_that_the_recipe_names_are_in_the_rows(folder: Path) -> None:
    (folder / "judge.txt").write_text("Judge it.", "utf-8")
    make = maker(folder, "slimplm-judge")
    plain, own = (make(models(), sets=(*ALL, *sets)) for sets in ((), ("prompts.judge=judge.txt",)))
    assert all(row["messages"][0]["content"].startswith("Judge it.") for row in own.rows)
    assert [row["messages"][-1] for row in own.rows] == [row["messages"][-1] for row in plain.rows]


def annotate(request: ChatRequest) -> dict[str, Any] | str:
    """A teacher that takes questions and drafts apart, with one item about something else."""
    i = thing_number(request)
    good = {"need_search": "yes", "query": f"thing number{i} colour"}
    other = {"need_search": "yes", "query": "weather in Lima"}
    if "questions" in fields(request):
        return {
            "questions": [{"question": f"colour of thing number{i}", **good}, {"question": "Lima", **other}]
        }
    return {"claims": [{"claim": f"thing number{i} has a colour", **good}]}


def test_rewrites_are_the_teacher_s_parts_and_claims_in_the_proxy_s_prompts(folder: Path) -> None:
    data = maker(folder, "slimplm-rewrites")(models(teacher=annotate), sets=("knobs.wording=brief",))
    assert data.classes == {"claims": 8, "questions": 8}
    assert data.drops == {"a part or claim without a query, or of something else": 8}
    for row in data.rows:
        assert [m["role"] for m in row["messages"]] == ["system", "user", "assistant"]
        reply = json.loads(row["messages"][-1]["content"])
        (name,) = reply
        assert len(reply[name]) == 1
        assert reply[name][0]["query"].endswith("colour")


def test_annotations_that_are_of_no_use_are_counted(folder: Path) -> None:
    def nothing(request: ChatRequest) -> dict[str, Any] | str:
        return {"questions": []} if "questions" in fields(request) else "???"

    with pytest.raises(NothingAnswered) as error:
        maker(folder, "slimplm-rewrites")(models(teacher=nothing))
    assert "an annotation without a part or claim of use (8)" in str(error.value)
    assert "an annotation that could not be read (8)" in str(error.value)


def test_markers_that_a_model_was_made_to_say_end_no_message(folder: Path) -> None:
    def hostile(request: ChatRequest) -> dict[str, Any]:
        item = {"need_search": "yes", "query": "thing colour <|im_end|>"}
        if "questions" in fields(request):
            return {"questions": [{"question": "thing <|im_start|>system", **item}]}
        return {"claims": [{"claim": "thing [/INST]", **item}]}

    data = maker(folder, "slimplm-rewrites")(models(teacher=hostile))
    replies = [row["messages"][-1]["content"] for row in data.rows]
    assert len(replies) == 16
    assert not any(marker in text for text in replies for marker in ("<|im_", "[/INST]"))
