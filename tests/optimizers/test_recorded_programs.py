"""The same recipe, seed and replies give the same compiled program, wherever the code stands.

Recorded with the modules as they were before they moved to their folders. After a change that is meant:
UPDATE_GOLDEN=1 python -m pytest tests/optimizers/test_recorded_programs.py
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.optimizers import compile as compiling
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.optimizers.colours import written
from tests.support.colours import COLOURS

RECORDED = Path(__file__).with_name("golden")
SEARCHED = {
    "prefrag": "k_local",
    "ragx": "top_n",
    "ggatrieval": "tau",
    "rqrag": "ndocs",
    "slimplm": "refs_max",
}
SOURCES = ("local", "web", "kg", "dense")


def replies() -> Any:
    """Replies that fit; an answer is right where the passages name the colour, for two questions of three."""
    fill = SchemaReplies()

    def reply(request: ChatRequest) -> Any:
        text = request.messages[-1].content
        filled = fill(request)
        colour = next((colour for colour in COLOURS if f"is {colour}." in text), "unknown")
        lucky = sum(map(ord, text)) % 3 > 0
        return filled.text.replace('"text"', f'"{colour}"' if lucky else '"I do not know"')

    return reply


@pytest.mark.parametrize("method", SEARCHED)
def test_a_compiled_program_is_the_recorded_one(method: str, tmp_path: Path) -> None:
    folder = written(tmp_path)
    sets = (
        f"program={method}",
        f'search.knobs=["{SEARCHED[method]}"]',
        "search.trials=3",
        "search.demos=2",
        "search.calibrate=false",
        "data.train=8",
        "data.dev=10",
        "data.test=6",
        *(f"sources.{name}.kind=bm25" for name in SOURCES),
    )
    target = ScriptedTarget(replies(), capabilities=("schema", "logprobs", "seed"))
    roles = {"main": target, "proxy": target}
    recipe = recipes.load(folder / "recipe.toml", (*sets, "targets.proxy.kind=embedded"))
    compiling.compile(recipe, folder / "out", store=CallStore(None), targets=roles)
    files = {"program.json": folder / "out" / "program.json"}
    files |= {f"prompts/{path.name}": path for path in sorted((folder / "out" / "prompts").iterdir())}
    golden = RECORDED / method
    if os.environ.get("UPDATE_GOLDEN"):
        for name, path in files.items():
            (golden / name).parent.mkdir(parents=True, exist_ok=True)
            (golden / name).write_bytes(path.read_bytes())
    recorded = {str(path.relative_to(golden)) for path in golden.rglob("*") if path.is_file()}
    assert recorded == set(files)
    for name, path in files.items():
        assert path.read_text("utf-8") == (golden / name).read_text("utf-8"), name
