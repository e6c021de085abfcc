"""Preference pairs of PrefRAG: nine samples, the teacher's label, one pair a question, a mix of classes."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ragc.errors import NothingAnswered, RagcError, UsageError
from ragc.targets.base import ChatRequest
from tests.support.requests import inputs_of
from tests.training.data.common import (
    Answering,
    Make,
    fields,
    maker,
    sent_by_program,
    targets,
    thing_number,
    write_data,
)

MIXED = ("training_data.true_share=0.5",)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_data(tmp_path, "prefrag")


@pytest.fixture
def make(folder: Path) -> Make:
    return maker(folder, "prefrag-dpo")


def small(status: Answering | None = None) -> Answering:
    """A small model that searches for the thing, then for its maker, then finishes.

    It judges by `status`, by default true at a temperature below .9.
    """

    def answer(request: ChatRequest) -> dict[str, Any] | str:
        if "status" in fields(request):
            if status is not None:
                return status(request)
            warm = request.sampling.temperature
            return {"analysis": f"at {warm} and {request.sampling.top_p}", "status": warm < 0.9}
        if "step" in fields(request):
            i, searches = thing_number(request), inputs_of(request).count("Search:")
            queries = (f"thing number{i}", f"maker{i} lives")
            if searches < 2:
                return {"thought": "next", "step": {"action": "search", "action_input": queries[searches]}}
            return {"thought": "done", "step": {"action": "finish", "answer": "red"}}
        return {"answer": "red"}

    return answer


def teacher(true: bool | None = None, number: int = 1) -> Answering:
    """A teacher whose label is `true`, by default true for even things; it picks `number`."""

    def answer(request: ChatRequest) -> dict[str, Any] | str:
        if "status" in fields(request):
            label = thing_number(request) % 2 == 0 if true is None else true
            return {"analysis": "at 0.5 and 0.5", "status": label}
        assert fields(request) == {"number"}
        return {"number": number}

    return answer


def test_a_comparison_is_judged_nine_times_and_gives_one_pair(make: Make) -> None:
    """Steps are drawn warm, without self-reflection and with 2 to 5 passages."""
    models = targets(main=small(), teacher=teacher())
    data = make(models, sets=MIXED)
    assert data.classes == {"false": 4, "true": 4}
    judged = [r for r in models["main"].requests if "status" in fields(r)]
    drawn = Counter((r.sampling.temperature, r.sampling.top_p) for r in judged)
    assert drawn == {(t, p): 8 for t in (0.1, 0.5, 0.9) for p in (0.1, 0.5, 0.9)}
    labelled = [r for r in models["teacher"].requests if "status" in fields(r)]
    assert {(r.sampling.temperature, r.sampling.top_p) for r in labelled} == {(0.1, 0.9)}
    assert len(labelled) == 8
    steps = [r for r in models["main"].requests if "step" in fields(r)]
    assert {(r.sampling.temperature, r.sampling.top_p) for r in steps} == {(0.9, 0.9)}
    assert not any("grade" in str(r.schema) for r in steps)
    new = [inputs_of(r).partition("New:")[2] for r in judged]
    sizes = {len(re.findall(r"^ ?\[\d+\]", text, re.MULTILINE)) for text in new}
    assert sizes == {passages_of(i) for i in range(8)}
    for row in data.rows:
        assert row.keys() == {"prompt", "chosen", "rejected"}
        assert [m["role"] for m in row["prompt"]] == ["system", "user"]
        assert [m["role"] for m in (*row["chosen"], *row["rejected"])] == ["assistant", "assistant"]
        chosen, rejected = row["chosen"][0]["content"], row["rejected"][0]["content"]
        assert ('"status": true' in chosen) != ('"status": true' in rejected)


@pytest.mark.parametrize("wording", ["brief", "full"])
def test_a_prompt_is_what_the_program_sends(folder: Path, make: Make, wording: str) -> None:
    sets = (*MIXED, f"knobs.wording={wording}")
    models = targets(main=small(), teacher=teacher())
    prompts = [row["prompt"] for row in make(models, sets=sets).rows]
    adds = small(lambda r: {"analysis": "new", "status": True})
    sent = sent_by_program(folder, models, "main", adds, sets, 8)
    n_default = sum(passages_of(i) == 5 for i in range(8))  # only those are as many as the program shows
    assert n_default
    assert sum(prompt in sent for prompt in prompts) >= n_default


def passages_of(i: int) -> int:
    """The number of passages that a search for question `i` finds."""
    return random.Random(f"passages 3 q{i}").randint(2, 5)


def test_a_pair_is_of_what_the_teacher_picked_and_one_that_differs(make: Make) -> None:
    models = targets(main=small(), teacher=teacher(true=True, number=4))
    data = make(models, sets=("training_data.true_share=1",))
    assert data.classes == {"true": 8}
    assert {row["chosen"][0]["content"] for row in data.rows} == {
        '{"analysis": "at 0.5 and 0.1", "status": true}'
    }
    assert all('"status": false' in row["rejected"][0]["content"] for row in data.rows)
    picks = [r for r in models["teacher"].requests if "number" in fields(r)]
    assert inputs_of(picks[0]).startswith("Reference: at 0.5 and 0.5\nCandidates:\n[1] at 0.1 and 0.1\n[2]")


DROPS: dict[str, tuple[Answering | None, Answering]] = {
    "no sample differs from the teacher": (lambda r: {"analysis": "a", "status": True}, teacher(true=True)),
    "no sample agrees with the teacher": (lambda r: {"analysis": "a", "status": True}, teacher(true=False)),
    "the teacher's label could not be read": (None, lambda r: "I would rather not."),
    "the teacher's choice names no candidate": (None, teacher(true=True, number=99)),
    "a sample of the small model could not be read": (lambda r: "???", teacher(true=True)),
}


@pytest.mark.parametrize("reason", DROPS)
def test_a_question_without_a_pair_says_why(make: Make, folder: Path, reason: str) -> None:
    status, label = DROPS[reason]
    with pytest.raises(NothingAnswered) as error:
        make(targets(main=small(status), teacher=label))
    assert f"{reason} (" in str(error.value)
    assert "None of 8 questions gave a row, so nothing was written: " in str(error.value)
    assert not list(folder.glob("rows.*"))


def test_a_question_without_a_second_search_has_nothing_to_compare(make: Make) -> None:
    def answer(request: ChatRequest) -> dict[str, Any]:
        return {"thought": "known", "step": {"action": "finish", "answer": "red"}}

    with pytest.raises(NothingAnswered, match=r"a question without a comparison \(8\)"):
        make(targets(main=answer, teacher=teacher()))


def test_a_teacher_that_always_says_the_same_leaves_no_mix(make: Make, folder: Path) -> None:
    models = targets(main=small(), teacher=teacher(true=True))
    with pytest.raises(
        RagcError, match=r"The class of 8 pairs is true, of none another.*set training_data.true_share to 1"
    ):
        make(models)
    assert not list(folder.glob("rows.*"))
    again = targets(main=small(), teacher=teacher(true=True))
    assert make(again, sets=("training_data.true_share=1",)).counters["sent"] == 0


def test_what_is_left_out_for_the_mix_is_counted(make: Make) -> None:
    data = make(targets(main=small(), teacher=teacher()))
    assert data.classes == {"false": 2, "true": 4}
    assert data.drops == {"left out for the mix of classes": 2}
    fewer = make(targets(main=small(), teacher=teacher()), sets=(*MIXED, "training_data.pairs=2"))
    assert fewer.classes == {"false": 1, "true": 1}


@pytest.mark.parametrize(
    ("sets", "sentence"),
    [
        (("knobs.pref=false",), "the knob pref is false; set knobs.pref to true"),
        (("knobs.pref_style=prompt",), "set knobs.pref_style to module"),
        (("knobs.source_check=confidence",), "set knobs.source_check to status"),
        (("program=vanilla",), r"the recipe's is 'vanilla'; set program = \"prefrag\""),
    ],
)
def test_a_program_without_comparisons_is_refused(make: Make, sets: tuple[str, ...], sentence: str) -> None:
    models = targets(main=small(), teacher=teacher())
    with pytest.raises(UsageError, match=sentence):
        make(models, sets=sets)
    assert not models["main"].requests
