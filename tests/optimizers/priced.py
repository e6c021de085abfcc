"""The data of `colours` on a model with a price, whose prompts cost a token for four characters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ragc import recipe as recipes
from ragc.optimizers import compile as compiling
from ragc.recipe import Recipe
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Reply, Usage
from ragc.targets.prices import Price
from ragc.task.base import prepare
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import needs_demos

HOSTED = (
    'targets.main.kind="hosted"',
    'targets.main.model="openai/our-own-model"',
    'targets.main.base_url="http://127.0.0.1:9/v1"',
    "search.trials=4",
    "concurrency=1",
)
PRICE = "targets.main.options.price={input=1.0, output=2.0}"


def replied(request: ChatRequest) -> Reply:
    """The reply of `needs_demos`, with a quarter of the prompt read from a cache."""
    prompt = sum(len(message.content) for message in request.messages) // 4
    return Reply(json.dumps(needs_demos(request)), usage=Usage(prompt, 10, prompt // 4))


def priced_recipe(folder: Path, *sets: str) -> Recipe:
    """The recipe in `folder` on a hosted model, with the overrides `sets`."""
    return recipes.load(folder / "recipe.toml", (*HOSTED, *sets))


def target_of(recipe: Recipe, target: Any = None) -> Any:
    """A scripted target, `target` if one is given, with the identity and the price of that of `recipe`."""
    target = target or ScriptedTarget(replied)
    target.identity = prepare(recipe, store=CallStore(None)).runtime.target("main").identity
    if typed := recipe.targets["main"].options.get("price"):
        target.price = Price.of(typed)
    return target


def compiled(
    folder: Path, *sets: str, out: str = "out", target: ScriptedTarget | None = None, **more: Any
) -> compiling.Compiled:
    """Compiles that recipe on a scripted target, with a store in `folder` where none is given."""
    recipe, store = priced_recipe(folder, *sets), more.pop("store", None) or CallStore(folder / "store")
    targets = {"main": target_of(recipe, target)}
    return compiling.compile(recipe, folder / out, store=store, targets=targets, **more)
