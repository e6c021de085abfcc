"""What is said of recipes that are wrong: recorded texts, and that pydantic's own messages reach nobody.

After a change that is meant: UPDATE_GOLDEN=1 python -m pytest tests/recipe/test_errors.py
"""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from ragc.errors import RecipeError
from ragc.recipe import parse
from tests.recipe.test_recipe import LEAST, WHOLE
from tests.security.mutations import tokens_changed, toml_changed

GOLDEN = Path(__file__).parent / "golden" / "errors.json"
CASES: list[dict[str, Any]] = json.loads(GOLDEN.read_text("utf-8"))

OPTIONED = """\
program = "vanilla"
[search]
programs = ["prefrag"]
demo_kinds = ["filled"]
[search.targets]
main = ["main", "small"]
[data]
questions = "q.jsonl"
dev = 3
fields = { question = "query" }
where = { level = ["easy", 2] }
[sources.local]
kind = "hybrid"
corpus = "c.jsonl"
options = { share = 0.5, dense = { m = 8 }, sparse = { k1 = 1 } }
[sources.web]
kind = "web"
options = { results = 5, pages = true }
[targets.main]
kind = "vllm"
model = "m"
base_url = "http://127.0.0.1:8000/v1"
options = { tries = 2, timeout_s = 3, has = ["schema"], fallbacks = ["small"], body = { top_k = 3 } }
[targets.small]
kind = "embedded"
options = { context = 512 }
[metrics]
entailment = "judge"
[study]
storage = "postgresql://host/d"
"""

_OF_PYDANTIC = re.compile(
    r"Input should|Field required|Extra inputs|validation error|further information|\btag\b|<class"
)


def problems(text: str, sets: list[str] | None = None) -> list[str]:
    """What is wrong with the recipe `text`; lists of known names are left out, as they grow."""
    try:
        parse(text, sets or (), files=False)
    except RecipeError as error:
        return [re.sub(r"Known: .*", "Known: …", problem) for problem in error.problems]
    return []


def test_recorded_errors() -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        for case in CASES:
            case["problems"] = problems(case["recipe"], case["sets"])
        GOLDEN.write_text(json.dumps(CASES, indent=0) + "\n", "utf-8")
    assert len(CASES) > 150
    for case in CASES:
        assert problems(case["recipe"], case["sets"]) == case["problems"], case["recipe"]


@pytest.mark.parametrize("base", [LEAST, WHOLE, OPTIONED], ids=["least", "whole", "optioned"])
def test_no_message_of_pydantic_reaches_a_user(base: str) -> None:
    assert not problems(base)
    draw, lines = random.Random(16), 0
    for change in (toml_changed, tokens_changed):
        for _ in range(150):
            for problem in problems(change(base.encode(), draw).decode("utf-8", "replace")):
                own = re.sub(r"found .*|got .*|'[^']*'|\"[^\"]*\"", "", problem)
                assert not _OF_PYDANTIC.search(own), problem
                lines += 1
    assert lines > 100


def test_everything_wrong_inside_options_has_its_key() -> None:
    text = """\
program = "vanilla"
[sources.local]
kind = "hybrid"
corpus = "c.jsonl"
[sources.local.options]
share = 2
dense = { m = 1, ef = 3 }
[sources.kg]
kind = "api"
[targets.main]
kind = "vllm"
model = "m"
base_url = "http://127.0.0.1:8000/v1"
[targets.main.options]
tries = 0
timeout_s = "3"
has = ["shema"]
quiet = true
body = { stream = true }
"""
    source, target = "sources.local.options", "targets.main.options"
    api = "A source of kind 'api' needs the address of the mock API: options.base_url = \"http://127.0.0.1:8000\"."
    of_vllm = "of a vllm target must be a"
    assert set(problems(text)) == {
        f"{source}.share: The option 'share' of a source is a number from 0 to 1, found 2.",
        f"{source}.dense.m: The option 'm' of a source is an integer of at least 2, found 1.",
        f"{source}.dense.ef: A source of kind 'dense' has no option 'ef'. Known: …",
        f"sources.kg.options.base_url: {api}",
        f"{target}.tries: Option tries {of_vllm} whole number above 0, got 0.",
        f"{target}.timeout_s: Option timeout_s {of_vllm} number above 0, got '3'.",
        f"{target}.has.0: No capability is named 'shema'. Did you mean 'schema'? Known: …",
        f"{target}.quiet: No option of vllm targets is named 'quiet'. Known: …",
        f"{target}.body: Option body of a target cannot set stream.",
    }


def test_a_table_of_no_known_kind_is_checked_all_the_same() -> None:
    text = LEAST + "[sources.web]\nkind = 'wep'\ncorpse = 'c'\n[targets.judge]\nmodle = 'm'\n"
    assert [problem.split(" Known")[0] for problem in problems(text)] == [
        "sources.web.kind: No source kind is named 'wep'. Did you mean 'web'?",
        "unknown key 'corpse' in [sources.web]. Did you mean 'corpus'?",
        "targets.judge.kind is missing.",
        "unknown key 'modle' in [targets.judge]. Did you mean 'model'?",
    ]
