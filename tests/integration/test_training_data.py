"""Training data where it costs something: a process killed by the system, and a real model."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

import ragc
from ragc.errors import NothingAnswered
from tests.integration.fetched import default_weights
from tests.support.rows import read_rows
from tests.training.data.common import RECIPE, write_data

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def weights() -> Path:
    return default_weights()


SMALL = """
[knobs]
wording = "brief"
[training_data]
balance = false
true_share = 1
"""
"""What a recipe of the unit tests needs beside for a model of 135M."""

KINDS = {
    "slimplm-labels": (2, ("knobs.proxy_tokens=64",)),
    "slimplm-judge": (2, ("knobs.proxy_tokens=64",)),
    "slimplm-rewrites": (1, ("knobs.proxy_tokens=64",)),
    "rqrag-sft": (2, ()),
    "prefrag-dpo": (1, ("knobs.max_step=1",)),
}
"""By kind the number of questions, and settings that spare tokens."""

ALWAYS = {"slimplm-labels": 2, "slimplm-judge": 2}
"""Rows of kinds that filter nothing; of others so small a model may give none."""


@pytest.mark.parametrize("kind", KINDS)
def test_smollm2_makes_training_data(tmp_path: Path, weights: Path, kind: str) -> None:
    """With a model of 135M as student and teacher; a second run sends nothing and writes the same bytes."""
    n, sets = KINDS[kind]
    sets = (*sets, *(f"targets.{role}.model={weights}" for role in ("main", "proxy", "teacher")))
    write_data(tmp_path, kind.partition("-")[0], n=n)
    recipe, out = tmp_path / "recipe.toml", tmp_path / "rows.jsonl"
    recipe.write_text(RECIPE.format(program=kind.partition("-")[0]) + SMALL, "utf-8")
    planned = ragc.training_data(kind, recipe, sets=sets, dry_run=True)
    rows = 0
    with suppress(NothingAnswered):
        data = ragc.training_data(kind, recipe, sets=sets, out=out)
        rows = len(data.rows)
        assert data.counters["sent"] <= 3 * planned["lm_calls_about"]
        before = out.read_bytes()
        again = ragc.training_data(kind, recipe, sets=sets, out=out)
        assert (again.counters["sent"], out.read_bytes()) == (0, before)
        assert read_rows(out) == data.rows
    assert rows == ALWAYS.get(kind, rows)
    assert out.exists() == bool(rows)
