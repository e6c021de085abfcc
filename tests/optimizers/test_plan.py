"""What a dry run says at most is never exceeded, whatever is searched and whatever the model replies."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc import plan_view
from ragc import recipe as recipes
from ragc.cli import main
from ragc.errors import RagcError, RecipeError, UsageError
from ragc.fingerprint import digest
from ragc.optimizers import compile as compiling
from ragc.optimizers.call_bounds import part_bound
from ragc.optimizers.plan import estimate
from ragc.optimizers.suggest import suggest
from ragc.optimizers.task import prepare
from ragc.programs import METHODS
from ragc.store import CallStore
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import Filling, ScriptedTarget
from tests.examples import examples
from tests.optimizers.colours import RECIPE, COLOURS, Run, needs_demos

SMALL = RECIPE.replace("concurrency = 8", "concurrency = 16")
SOURCES = 'sources.web.kind="bm25"'

QUICK = (
    "no_retrieval", "vanilla", "prefrag", "rqrag", "slimplm", "cot", "vanilla_sources", "react", "self_ask",
    "iter_retgen", "skr", "self_eval", "crag", "selfrag", "flare", "chain_of_note", "ggatrieval",
)  # fmt: skip

CHEAP = ("search.ranges.candidates=[1, 3]", "search.ranges.top_k=[1, 3]", "search.ranges.rounds=[1, 2]")
"""Fewer calls where a range would allow hundreds; each is asked for only where a program has it."""


def small(folder: Path, train: int, dev: int, test: int) -> None:
    """Questions and passages on so many things, and the recipe."""
    n = train + dev + test
    passages, questions = [], []
    for i in range(n):
        colour = COLOURS[i % 5]
        passages.append({"id": f"d{i}", "title": f"Thing {i}", "text": f"Thing number{i} is {colour}."})
        split = "train" if i < train else "dev" if i < train + dev else "test"
        question = f"What colour is thing number{i}?"
        questions.append(
            {"id": f"q{i}", "question": question, "answers": [colour], "gold_ids": [f"d{i}"], "split": split}
        )
    for name, rows in (("corpus", passages), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (folder / "recipe.toml").write_text(SMALL, "utf-8")


def fickle(seed: int, rubbish: float) -> Callable[[ChatRequest], Reply | str]:
    """Replies that depend on the request alone: fits of any kind, right answers, and a share of rubbish."""

    def reply(request: ChatRequest) -> Reply | str:
        drawn = int(digest([seed, [list(m) for m in request.messages], request.sample])[:8], 16)
        if drawn % 100 < rubbish * 100:
            return ("[[[", "I cannot say", "{}", "")[drawn % 4]
        colour = COLOURS[drawn % 5]
        fields = {"answer": colour, "query": f"number{drawn % 9}", "action_input": f"number{drawn % 9}"}
        filling = Filling(
            last=bool(drawn & 256),
            full=bool(drawn & 512),
            text=f"thing {drawn % 7}",
            fields=fields,
            logprob=-3.0 if drawn & 1024 else -0.01,
        )
        return filling(request)

    return reply


def charged(folder: Path, sets: Sequence[str], reply: Callable[[ChatRequest], Any]) -> tuple[int, Any]:
    """The requests that a compile of the recipe in `folder` sent, all of which are charged, and its plan."""
    target = ScriptedTarget(reply)
    recipe = recipes.load(folder / "recipe.toml", sets)
    plan = estimate(recipe)
    roles = dict.fromkeys(plan["targets"], target)
    compiling.compile(recipe, folder / "out", store=CallStore(folder / "store"), targets=roles)
    return len(target.requests), plan


@st.composite
def searches(draw: st.DrawFn) -> tuple[str, ...]:
    """Overrides of a recipe: programs, what varies, demonstrations, instructions, calibration."""
    programs = draw(st.lists(st.sampled_from(QUICK), min_size=1, max_size=3, unique=True))
    declared = {knob.name for entry in METHODS if entry.id in programs for knob in entry.knobs.declared()}
    kinds = draw(st.lists(st.sampled_from(("filled", "labelled", "bootstrapped", "nearest")), min_size=1, unique=True))
    return (
        f'program="{programs[0]}"',
        f"search.programs={json.dumps(programs[1:])}",
        *(('search.knobs="all"',) if draw(st.booleans()) else ("search.knobs=[]",)),
        *(text for text in CHEAP if text.split("=")[0].split(".")[-1] in declared),
        f"search.demos={draw(st.integers(0, 2))}",
        f"search.demo_kinds={json.dumps(kinds)}",
        f"search.instructions={draw(st.sampled_from((0, 0, 1, 2)))}",
        f"search.trials={draw(st.integers(1, 5))}",
        f"search.calibrate={json.dumps(draw(st.booleans()))}",
        SOURCES,
    )


@settings(max_examples=examples(40))
@given(searches(), st.integers(0, 10**6), st.sampled_from((0.0, 0.2, 1.0)))
def test_a_compile_sends_no_more_requests_than_its_dry_run_says(
    sets: tuple[str, ...], seed: int, rubbish: float
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small(folder, train=4, dev=4, test=3)
        try:
            sent, plan = charged(folder, (*sets, f"seed={seed % 100}"), fickle(seed, rubbish))
        except UsageError:  # settings that no program can have, which a dry run need not know
            return
        assert plan["bounded"]
        assert sent <= plan["lm_calls"], plan["phases"]
