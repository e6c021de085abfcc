"""The checks of `ragc doctor`: this machine, what is stored on it, and the targets of a recipe."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_args

from ragc import targets
from ragc.core import event_loop
from ragc.core.display import quantity
from ragc.core.extras import EXTRAS, is_installed, remedy
from ragc.core.files import cache_home
from ragc.errors import RagcError
from ragc.recipe import Recipe
from ragc.store import used_questions
from ragc.store.calls import open_store
from ragc.targets.base import Capability, ChatRequest, Message, Sampling, Target
from ragc.targets.options import TargetSpec
from ragc.targets.reasoning import check_reasoning, reasoning_of, with_reasoning
from ragc.task.requirements import lacking

NEEDED = ("dspy", "litellm", "optuna", "diskcache", "pydantic", "jinja2", "orjson")
OPTIONAL = {module: extra for extra, modules in EXTRAS.items() for module in modules}

LEAST_FREE_MIB = 200
"""The least free space for stored replies."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check.

    `needed` is False for things that only some recipes use, and for those that repair themselves.
    """

    id: str
    ok: bool
    found: str
    needed: bool = True

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TargetCheck(Check):
    """The check of one target: `id` is its name in the recipe, `found` a one-line verdict.

    `thinking_tokens` are the tokens for thoughts of every call.
    """

    capabilities: tuple[Capability, ...] = ()
    thinking_tokens: int = 0


def examine_machine() -> list[Check]:
    """Returns the checks of this machine, the required ones first; nothing is downloaded or sent."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    checks = [
        Check("python", (3, 11) <= sys.version_info[:2] < (3, 14), sys.version.split()[0]),
        Check("cpus", True, f"{cpus}"),
        *(_library(name, f"pip install {name}", needed=True) for name in NEEDED),
        _kept(),
        _store(),
        _uses(),
        *(_library(name, remedy(extra), needed=False) for name, extra in OPTIONAL.items()),
    ]
    return sorted(checks, key=lambda check: not check.needed)


def _library(name: str, remedy: str, *, needed: bool) -> Check:
    if not is_installed(name):
        return Check(name, False, f"not installed; {remedy}", needed)
    try:
        return Check(name, True, version(name), needed)
    except PackageNotFoundError:
        return Check(name, True, "installed, version unknown", needed)


def _kept() -> Check:
    """Returns the cache folder, and the size of each of its parts, without the record of used questions,
    which nothing makes again.
    """
    home, ledger = cache_home(), used_questions.database().parent
    found = sorted(home.iterdir()) if home.is_dir() else []
    parts = [path for path in found if path.is_dir() and path != ledger]
    sizes = ", ".join(f"{part.name} {_mebibytes(part):.1f} MiB" for part in parts)
    how = "; any of these may be deleted while no ragc runs" if parts else ""
    return Check("kept", True, f"{home}: {sizes or 'empty'}{how}")


def _mebibytes(folder: Path) -> float:
    """Returns the size of all files in `folder`; files deleted meanwhile are ignored."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total / 2**20


def _store() -> Check:
    """Returns whether the call store can be used, by SQLite's own check of its database."""
    try:
        store = open_store()
        try:
            store.check()
        finally:
            store.close()
    except RagcError as error:
        return Check("store", False, str(error))
    free = shutil.disk_usage(cache_home()).free >> 20 if cache_home().exists() else LEAST_FREE_MIB + 1
    return Check("store", free > LEAST_FREE_MIB, f"{store.where}, {free} MiB free")


def _uses() -> Check:
    """Returns how many questions were used on this machine, and whether that can be read."""
    try:
        with used_questions.opened(write=False) as record:
            tests, searched = record.counts()
    except RagcError as error:
        return Check("uses", False, str(error), needed=False)
    what = f"{quantity(tests, 'use')} of test questions, {quantity(searched, 'set')} of train and dev"
    return Check("uses", True, f"{what}, in {used_questions.database()}", needed=False)


def examine_recipe(recipe: Recipe) -> Check:
    """Returns whether this machine has the libraries, keys and roles that `recipe` needs. Sends nothing."""
    problems = lacking(recipe)
    return Check("recipe", not problems, ". ".join(problems) or "nothing that it needs is missing here")


def examine_targets(recipe: Recipe) -> list[TargetCheck]:
    """Opens each target of `recipe`, in order, and asks it for one reply, with a schema if it takes one."""
    return [event_loop.run(_examine(name, spec)) for name, spec in recipe.target_specs().items()]


_SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["ultramarine"]}},
    "required": ["colour"],
    "additionalProperties": False,
}
_QUESTION = (Message("user", "Which colour is the sea? Answer as JSON."),)


async def _examine(name: str, spec: TargetSpec) -> TargetCheck:
    target: Target | None = None
    try:
        target = targets.build(spec)
        await target.open()
        check_reasoning([target])
        able = tuple(sorted(target.capabilities, key=get_args(Capability).index))
        schema = _SCHEMA if "schema" in able else None
        request = ChatRequest(_QUESTION, schema=schema, sampling=Sampling(max_tokens=64))
        reply = await target.complete(with_reasoning(target, request))
        fits = schema is None or _fits(reply.text)
        advice = (
            "ready" if fits else 'its reply does not fit the schema: add lacks = ["schema"] to its options'
        )
        found = f"{target.name}: {advice}; {', '.join(able) or 'no capabilities'}{_thoughts(target)}"
        return TargetCheck(name, fits, found, capabilities=able, thinking_tokens=reasoning_of(target))
    except (RagcError, ModuleNotFoundError) as error:
        label = f"{spec.kind} {spec.model}".strip()
        return TargetCheck(name, False, f"{label}: {' '.join(str(error).split())}")
    finally:
        if target is not None:
            await target.aclose()


def _fits(text: str) -> bool:
    with suppress(ValueError, RecursionError):
        return bool(json.loads(text) == {"colour": "ultramarine"})
    return False


def _thoughts(target: Target) -> str:
    """Returns clauses on the tokens for thoughts of `target`, and on options that it does not take."""
    thinking = reasoning_of(target)
    clauses = [f"room for {thinking:,} tokens of thoughts in every call"] if thinking else []
    if refused := getattr(target, "refused_by_thinking", ()):
        clauses.append(f"it takes no {' and no '.join(refused)}")
    return "".join(f"; {clause}" for clause in clauses)
