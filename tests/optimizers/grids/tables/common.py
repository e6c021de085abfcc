"""A folder of data sets in the form that the tables read, and what runs a table on scripted targets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragc.optimizers.grids.tables.result import Reproduction
from ragc.optimizers.grids.tables.run import reproduce
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.support.rows import write_rows

THINGS = ("plum", "fern", "moss", "clay", "rust", "slate", "coal", "jade", "sand", "ash")
Run = Callable[..., Reproduction]


def write_data(folder: Path) -> Path:
    """The data sets hotpotqa (with train questions) and crag, ten questions each."""
    colours = [
        {
            "id": f"q{n}",
            "question": f"Which colour has the {thing}?",
            "answers": ["blue" if n % 2 else "red"],
            "context_ids": [f"p{n}"],
        }
        for n, thing in enumerate(THINGS)
    ]
    passages = [
        {"id": f"p{n}", "title": thing, "text": f"The {thing} is {'blue' if n % 2 else 'red'}."}
        for n, thing in enumerate(THINGS)
    ]
    train = [{"id": f"t{n}", "question": f"Is {n} even?", "answers": ["yes"]} for n in range(6)]
    for name in ("hotpotqa", "crag"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    write_rows(folder / "hotpotqa/questions_dev.jsonl", colours)
    write_rows(folder / "hotpotqa/questions_train.jsonl", train)
    write_rows(folder / "hotpotqa/corpus.jsonl", passages)
    write_rows(folder / "crag/questions.jsonl", colours)
    write_rows(folder / "crag/pages.jsonl", passages)
    return folder


def answer(request: ChatRequest) -> Reply:
    """An answer that is right for half of the questions."""
    return SchemaReplies(fields={"answer": "blue", "accuracy": False})(request)


def runner(folder: Path) -> Run:
    """Runs a table on the data in `folder` and a scripted target, with a store of its own each time."""

    def run(table: str, *, target: ScriptedTarget | None = None, **more: Any) -> Reproduction:
        main = target or ScriptedTarget(answer)
        more = {"data": folder / "data", "out": folder / "out", "store": CallStore(None), **more}
        return reproduce(table, targets={"main": main}, **more)

    return run
