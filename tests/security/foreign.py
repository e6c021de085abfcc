"""Compiled directories from elsewhere, and a server that writes down what it is sent."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc.compiled.base import CompiledProgram
from ragc.compiled.opened import open_program
from ragc.store.calls import CallStore
from ragc.testing import ScriptedTarget
from tests import processes
from tests.support.recipes import value as value_text
from tests.support.recipes import write_files
from tests.support.server import Answer, Asked, Visit, build_answer, models, serving

SECRET = "a-secret-that-must-stay-here"
VARIABLE = "AWS_SECRET_ACCESS_KEY"
QUESTION = "What colour is the mug?"

RECIPE = """
program = "vanilla"
[data]
questions = "questions.jsonl"
dev = 2
[sources.local]
kind = "bm25"
corpus = "corpus.jsonl"
[metrics]
report = ["em"]
"""


def write_data(folder: Path) -> None:
    """A corpus and its questions in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus = [{"id": f"d{i}", "title": f"Mug {i}", "text": "The mug is red."} for i in range(3)]
    questions = [{"id": f"q{i}", "question": f"{QUESTION} {i}", "answers": ["red"]} for i in range(4)]
    write_files(folder, questions=questions, corpus=corpus)


def target_table(**options: Any) -> str:
    """`[targets.main]` as TOML; what is no key of a target stands among its options."""
    top = {name: options.pop(name) for name in ("kind", "model", "base_url") if name in options}
    lines = ["[targets.main]", *(f"{name} = {json.dumps(value)}" for name, value in top.items())]
    if options:
        lines += ["[targets.main.options]"]
        lines += [f"{name} = {value_text(value)}" for name, value in options.items()]
    return "\n".join(lines) + "\n"


def compiled_directory(folder: Path, out: Path, target: str = '[targets.main]\nkind = "embedded"\n') -> Path:
    """A compiled program of this machine at `out`, whose data are in `folder`."""
    write_data(folder)
    (folder / "recipe.toml").write_text(RECIPE + target, "utf-8")
    opened = open_program(
        folder / "recipe.toml", store=CallStore(None), targets={"main": ScriptedTarget([])}, questions=False
    )
    text, run = opened.task.recipe.to_toml(), {"base": str(folder.resolve())}
    CompiledProgram.of(opened.program, provenance=opened.task.facts, recipe=text, run=run).save(
        out, opened.program
    )
    return out


def foreign_directory(
    tmp: Path, recipe: str = "", target: str = '[targets.main]\nkind = "embedded"\n'
) -> Path:
    """A compiled directory with its data inside, whose recipe nobody here compiled."""
    out = compiled_directory(tmp / "origin", tmp / "foreign")
    (out / "recipe.toml").write_text((recipe or RECIPE) + target, "utf-8")
    write_data(out)
    return out


@dataclass
class Recorded:
    """What a server was sent: `paths` and all `headers` and bodies as text, in `seen`."""

    url: str = ""
    paths: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)


@contextmanager
def recording() -> Iterator[Recorded]:
    """A server that speaks OpenAI's chat API on the loopback address and answers "red"."""
    recorded = Recorded()

    def note(path: str, headers: Mapping[str, str], body: object = "") -> None:
        recorded.paths.append(path)
        recorded.seen.append(f"{headers}{body}")

    def complete(request: Asked) -> Answer:
        note("/v1/chat/completions", request.headers, json.dumps(request.body))
        return build_answer('{"answer": "red"}')

    def list_models(visit: Visit) -> Answer:
        note(visit.path, visit.headers)
        return models({"id": "echo", "object": "model", "max_model_len": 8192})

    with serving(complete) as server:
        server.pages = dict.fromkeys(("", "/v1/models"), list_models)
        recorded.url = server.url
        yield recorded


def command(
    *words: str | Path, home: Path, cwd: Path, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`ragc WORDS` in a process of its own, for a user with that `home` and a secret in the environment."""
    return python("-m", "ragc", *words, home=home, cwd=cwd, more=more)


def python(
    *words: str | Path, home: Path, cwd: Path, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The interpreter with `words`, as `command`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RAGC_", "XDG_"))}
    home.mkdir(parents=True, exist_ok=True)
    environment = {**inherited, "HOME": str(home), VARIABLE: SECRET, **(more or {})}
    return processes.run([*map(str, words)], cwd=cwd, environment=environment)
