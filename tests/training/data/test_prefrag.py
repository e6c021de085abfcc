"""Preference pairs of PrefRAG: nine samples, the teacher's label, one pair a question, a mix of classes."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.errors import NothingAnswered, RagcError, UsageError
from ragc.optimizers import task as tasks
from ragc.programs.prefrag.program import PrefRag
from ragc.store.call_store import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from ragc.training.data.prefrag import mix
from tests.training.data.common import Answering, Make, fields, maker, shown, targets, write_data

MIXED = ("training_data.true_share=0.5",)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_data(tmp_path, "prefrag")


@pytest.fixture
def make(folder: Path) -> Make:
    return maker(folder, "prefrag-dpo")


def thing(request: ChatRequest) -> int:
    """The number of the thing that is asked about."""
    return int(re.findall(r"thing number(\d+)\?", "\n".join(m.content for m in request.messages))[-1])


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
            i, searches = thing(request), shown(request).count("Search:")
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
            label = thing(request) % 2 == 0 if true is None else true
            return {"analysis": "at 0.5 and 0.5", "status": label}
        assert fields(request) == {"number"}
        return {"number": number}

    return answer


def test_a_comparison_is_judged_nine_times_and_gives_one_pair(make: Make) -> None:
    models = targets(main=small(), teacher=teacher())
    data = make(models, sets=MIXED)
    assert data.classes == {"false": 4, "true": 4}
    judged = [r for r in models["main"].requests if "status" in fields(r)]
    drawn = Counter((r.sampling.temperature, r.sampling.top_p) for r in judged)
    assert drawn == {(t, p): 8 for t in (0.1, 0.5, 0.9) for p in (0.1, 0.5, 0.9)}
    labelled = [r for r in models["teacher"].requests if "status" in fields(r)]
    assert {(r.sampling.temperature, r.sampling.top_p) for r in labelled} == {(0.1, 0.9)}
    assert len(labelled) == 8
    for row in data.rows:
        assert row.keys() == {"prompt", "chosen", "rejected"}
        assert [m["role"] for m in row["prompt"]] == ["system", "user"]
        assert [m["role"] for m in (*row["chosen"], *row["rejected"])] == ["assistant", "assistant"]
        chosen, rejected = row["chosen"][0]["content"], row["rejected"][0]["content"]
        assert ('"status": true' in chosen) != ('"status": true' in rejected)


def test_steps_are_drawn_warm_without_reflection_and_with_2_to_5_passages(make: Make) -> None:
    models = targets(main=small(), teacher=teacher())
    make(models, sets=MIXED)
    steps = [r for r in models["main"].requests if "step" in fields(r)]
    assert {(r.sampling.temperature, r.sampling.top_p) for r in steps} == {(0.9, 0.9)}
    assert not any("grade" in str(r.schema) for r in steps)
    judged = [shown(r) for r in models["main"].requests if "status" in fields(r)]
    sizes = {len(re.findall(r"^\[\d+\]", text.partition("New:")[2], re.MULTILINE)) for text in judged}
    assert sizes <= {2, 3, 4, 5}
    expected = {random.Random(f"passages 3 q{i}").randint(2, 5) for i in range(8)}
    assert sizes == expected


@pytest.mark.parametrize("layout", ["minimal", "json", "chat", "xml"])
@pytest.mark.parametrize("wording", ["full", "brief"])
def test_a_prompt_is_what_the_program_sends(
    folder: Path, make: Make, layout: str, wording: str
) -> None:
    sets = (*MIXED, f"knobs.layout={layout}", f"knobs.wording={wording}")

    def laid_out(say: Answering) -> Answering:
        def answer(request: ChatRequest) -> dict[str, Any] | str:
            return say(replace(request, schema=request.schema or guess(request)))

        return answer

    models = targets(main=laid_out(small()), teacher=laid_out(teacher()))
    data = make(models, sets=sets)
    recipe = recipes.load(folder / "recipe.toml", sets)
    runtime = tasks.prepare(recipe, store=CallStore(None), targets=models).runtime
    program: Any = recipe.method.build(runtime, recipe.fixed(recipe.method))
    assert isinstance(program, PrefRag)
    told = ScriptedTarget(laid_out(small(lambda r: {"analysis": "new", "status": True})), identity="again")
    runtime.targets["main"] = told
    for row in data.rows:
        question = re.search(r"What colour is thing number\d+\?", row["prompt"][-1]["content"])
        assert question
        program(question=question.group())
    sent = {tuple((m.role, m.content) for m in r.messages) for r in told.requests}
    held = {tuple((m["role"], m["content"]) for m in row["prompt"]) for row in data.rows}
    same_k = {key for key in held if key in sent}
    assert same_k  # those of questions whose number of passages is the program's own
    assert {key[0] for key in held} <= {key[0] for key in sent}


def guess(request: ChatRequest) -> dict[str, Any]:
    """The schema of a call that sends none, by what its instructions name."""
    text = request.messages[0].content
    names = {name for name in ("status", "number", "step", "analysis") if name in text}
    if "status" in names and "analysis" in names:
        return {"properties": dict.fromkeys(("analysis", "status"))}
    return {"properties": dict.fromkeys(("number",) if "nearest" in text else ("thought", "step"))}
