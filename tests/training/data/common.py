"""Coloured things and their makers, recipes over them, and models that answer by what they are asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ragc import recipe as recipes
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.task import base as tasks
from ragc.testing import ScriptedTarget
from ragc.training.data import build
from ragc.training.data.base import TrainingData
from tests.support.colours import colour_passages, colour_questions
from tests.support.recipes import recipe_toml, write_files
from tests.support.rows import read_rows, write_rows

Answering = Callable[[ChatRequest], dict[str, Any] | str]

RECIPE = recipe_toml(
    "{program}",
    seed=3,
    concurrency=4,
    sources=["local", "web"],
    targets=["main", "proxy", "teacher"],
    metrics=["em", "f1"],
)


def write_data(folder: Path, program: str, n: int = 8) -> Path:
    """`folder`, with `n` train questions, a dev question, a corpus and a recipe in it."""
    passages = colour_passages(n + 1, "Thing number{i} is {colour}. Its maker is maker{i}.")
    makers = [
        {"id": f"m{i}", "title": f"Maker {i}", "text": f"The person maker{i} lives in town{i}."}
        for i in range(n + 1)
    ]
    questions = colour_questions(n + 1, train=n, dev=1)
    recipe = RECIPE.format(program=program)
    return write_files(folder, recipe=recipe, questions=questions, corpus=passages + makers)


Make = Callable[..., TrainingData]


def maker(folder: Path, kind: str) -> Make:
    """Makes training data of `kind` from the recipe in `folder`, on scripted targets by role."""

    def make(
        models: Mapping[str, ScriptedTarget],
        out: str = "rows.jsonl",
        *,
        sets: tuple[str, ...] = (),
        **more: Any,
    ) -> TrainingData:
        store = more.pop("store", None) or CallStore(folder / "store")
        resolved = recipes.load(folder / "recipe.toml", sets)
        return build.build(kind, resolved, folder / out, store=store, targets=models, **more)

    return make


def fields(request: ChatRequest) -> set[str]:
    """The fields that the reply to `request` should have."""
    return set((request.schema or {}).get("properties", ()))


def thing_number(request: ChatRequest) -> int:
    """The number of the thing that is asked about."""
    return int(re.findall(r"thing number(\d+)", "\n".join(m.content for m in request.messages))[-1])


def targets(**models: Answering) -> dict[str, ScriptedTarget]:
    """Scripted targets by role, each with an identity of its own."""
    return {role: ScriptedTarget(answer, identity=role) for role, answer in models.items()}


def change_questions(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Changes each question in `folder`."""
    write_rows(folder / "questions.jsonl", [change(row) for row in read_rows(folder / "questions.jsonl")])


def sent_by_program(
    folder: Path,
    models: Mapping[str, ScriptedTarget],
    role: str,
    say: Answering,
    sets: tuple[str, ...],
    n: int,
) -> list[list[dict[str, str]]]:
    """The messages of requests to `role`, which answers by `say`, as the program answers `n` questions."""
    recipe, target = recipes.load(folder / "recipe.toml", sets), ScriptedTarget(say, identity="again")
    runtime = tasks.prepare(recipe, store=CallStore(None), targets={**models, role: target}).runtime
    program: Any = recipe.method.build(runtime, recipe.fixed(recipe.method))
    for i in range(n):
        program(question=f"What colour is thing number{i}?")
    return [[{"role": m.role, "content": m.content} for m in r.messages] for r in target.requests]
