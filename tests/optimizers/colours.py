"""A data set of coloured things, a recipe over it, and a model that answers better when shown how."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragc import recipe as recipes
from ragc.compiled.trust_record import DIGESTED
from ragc.optimizers import compile as compiling
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.support.colours import COLOURS, colour_passages, colour_questions
from tests.support.recipes import recipe_toml, write_files


def write_data(folder: Path, n: int = 60) -> None:
    passages = colour_passages(n, "Thing number{i} is {colour}. It was made in {i}.")
    write_files(folder, questions=colour_questions(n, train=15, dev=20), corpus=passages)


RECIPE = recipe_toml(
    seed=3,
    concurrency=8,
    search={"knobs": ["top_k", "query_pos"], "demos": 2, "trials": 6, "batch": 2, "objectives": ["em"]},
    metrics=["em", "f1", "recall@5"],
)


def colour_of(request: ChatRequest) -> str:
    prompt = request.messages[-1].content
    thing = re.findall(r"thing (number\d+)\?", prompt)[-1]
    return next((c for c in COLOURS if f"{thing} is {c}." in prompt), "unknown")


def needs_demos(request: ChatRequest) -> dict[str, Any]:
    """Right when it was shown how, or for every third question; wrong otherwise."""
    right = colour_of(request)
    shown = len(request.messages) > 2
    lucky = sum(map(ord, request.messages[-1].content)) % 3 == 0
    return {"answer": right if shown or lucky else "I think it may be " + right}


def identical(one: Path, other: Path) -> bool:
    names = [*DIGESTED, *(f"prompts/{p.name}" for p in (one / "prompts").iterdir())]
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


Run = Callable[..., compiling.Compiled]

Unbroken = Callable[..., tuple[Path, int]]
"""The directory and the number of requests of a compile with some overrides, on `needs_demos`."""


def written(folder: Path, recipe: str = RECIPE) -> Path:
    """`folder`, with the data and the recipe in it."""
    write_data(folder)
    (folder / "recipe.toml").write_text(recipe, "utf-8")
    return folder


def begun(folder: Path) -> Run:
    """Compiles the recipe in `folder`, on a scripted target where none is given."""

    def go(
        out: str = "out", *, sets: tuple[str, ...] = (), target: ScriptedTarget | None = None, **more: Any
    ) -> Any:
        store = more.pop("store", None) or CallStore(folder / "store")
        main_target = target or ScriptedTarget(needs_demos)
        recipe = recipes.load(folder / "recipe.toml", sets)
        return compiling.compile(recipe, folder / out, store=store, targets={"main": main_target}, **more)

    return go


class Killed(BaseException):
    """Stands for a process that dies."""


def dying(reply: Callable[[ChatRequest], Any], after: int) -> ScriptedTarget:
    """Says what `reply` says, and dies at the request that follows `after` others."""
    sent = 0

    def answer(request: ChatRequest) -> Any:
        nonlocal sent
        sent += 1
        if sent > after:
            raise Killed
        return reply(request)

    return ScriptedTarget(answer)
