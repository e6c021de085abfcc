"""A sample of `experiments.benchmarks.serving.budgets`: what a provider is owed never exceeds a budget."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import examples
from tests.support.budget_runs import context_of, run
from tests.support.priced_provider import PricedProvider


@pytest.fixture(scope="module")
def provider() -> Iterator[PricedProvider]:
    with PricedProvider() as running:
        yield running


@pytest.mark.parametrize("seed", range(1000, 1000 + examples(20)))
def test_a_study_that_is_killed_and_resumed_stays_within_its_budget(
    seed: int, provider: PricedProvider, tmp_path: Path
) -> None:
    row = run(seed, provider, context_of(), tmp_path)
    assert row["violations"] == []
    assert row["ended"]
