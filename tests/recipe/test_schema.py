"""The JSON Schema of recipes: valid, complete, and of one mind with the reader."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from ragc.cli.main import main
from ragc.errors import RecipeError
from ragc.recipe import parse
from ragc.recipe.models import Recipe
from ragc.recipe.schema import json_schema
from tests.recipe.test_recipe import LEAST, WHOLE

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
"""

ROOT = Path(__file__).parents[2]
SCHEMA = json_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def refused(text: str) -> list[str]:
    """Where the schema refuses the recipe `text`."""
    return [".".join(map(str, error.absolute_path)) for error in VALIDATOR.iter_errors(tomllib.loads(text))]


def recipes() -> Iterator[str]:
    """Every recipe of the repository and of its tests that is valid."""
    texts = [path.read_text("utf-8") for path in (ROOT / "experiments").glob("*.toml")]
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    for path in (ROOT / "tests").rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        texts += [value for value in constants if isinstance(value, str) and "program = " in value]
    for text in [*texts, *blocks]:
        try:
            parse(text, files=False)
        except RecipeError:
            continue
        yield text


def test_the_schema_is_valid_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(SCHEMA))


def test_the_schema_accepts_every_recipe_that_is_read() -> None:
    texts = list(recipes())
    assert len(texts) > 10
    for text in texts:
        assert not refused(text), text


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (LEAST + "sead = 1", "targets.main"),
        ("sead = 1\n" + LEAST, ""),
        (LEAST.replace('"vanilla"', '"vanila"'), "program"),
        (LEAST.replace('program = "vanilla"', ""), ""),
        (LEAST + "[search]\ntrails = 3", "search"),
        (LEAST + "[search]\ntrials = 0", "search.trials"),
        (LEAST + "[search]\ntrials = true", "search.trials"),
        (LEAST + "[search]\ntrials = '3'", "search.trials"),
        (LEAST + "[search]\nknobs = 'some'", "search.knobs"),
        (LEAST + "[search]\nobjectives = ['tokens']", "search.objectives.0"),
        (LEAST + "[search]\noptimizer = 'mirpo'", "search.optimizer"),
        (LEAST + "[search.targets]\nboss = ['main']", "search.targets"),
        (LEAST + "[data]\ndataset = 'pydoc'", "data.dataset"),
        (LEAST + "[data]\ndev = -1", "data.dev"),
        (LEAST + "[data]\nfields.questions = 'q'", "data.fields"),
        (LEAST + "[metrics]\nreport = ['recall@k']", "metrics.report.0"),
        (LEAST + "[budget]\nusd = 0", "budget.usd"),
        (LEAST + "[study]\nstorage = 'http://x'", "study.storage"),
        (LEAST + "[sources.web]\nkind = 'bm52'", "sources.web"),
        (LEAST + "[sources.kg]\nkind = 'api'", "sources.kg"),
        (LEAST + "[sources.kg]\nkind = 'api'\noptions = {}", "sources.kg.options"),
        (LEAST + "[sources.local.options]\nk1 = '1'", "sources.local.options.k1"),
        (LEAST + "[sources.local.options]\nk2 = 1", "sources.local.options"),
        (LEAST + "[targets.main.options]\ntries = 0", "targets.main.options.tries"),
        (LEAST + "[targets.main.options]\nhas = ['shema']", "targets.main.options.has.0"),
        (LEAST + "[targets.main.options]\nserve = true", "targets.main.options"),
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(text: str, where: str) -> None:
    assert where in refused(text)
    with pytest.raises(RecipeError):
        parse(text, files=False)


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key of every table in `schema`."""
    tables = [("", schema), *schema["$defs"].items()]
    for table, entry in tables:
        for name, field in entry.get("properties", {}).items():
            yield f"{table}.{name}", field


def test_every_key_is_described_in_a_sentence() -> None:
    described = dict(fields(SCHEMA))
    assert len(described) > 150
    for name, field in described.items():
        text = field.get("description", "")
        assert len(text) > 10, name
        assert text.endswith("."), name
        assert text[0].isupper() or text.startswith(("ragc", '"')), name


def test_sources_and_targets_are_told_apart_by_kind() -> None:
    for family in ("sources", "targets"):
        union = SCHEMA["properties"][family]["additionalProperties"]
        assert union["discriminator"]["propertyName"] == "kind"
        assert len(union["oneOf"]) == len(union["discriminator"]["mapping"]) + 1  # and a class of one's own


def test_whole_recipes_are_accepted() -> None:
    assert not refused(WHOLE)
    assert not refused(OPTIONED)
    assert set(SCHEMA["properties"]) == set(Recipe.model_fields)
