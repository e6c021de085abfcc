"""Budgets by the count of a provider that charges, fails and is killed off: 25 of the benchmark's runs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.processes import PATH
from tests.support.budget_runs import context_of, run
from tests.support.priced_provider import PricedProvider

pytestmark = pytest.mark.integration

RUNS = range(1000, 1025)


@pytest.fixture(scope="module")
def provider() -> Iterator[PricedProvider]:
    with pytest.MonkeyPatch.context() as patch, PricedProvider() as server:
        patch.setenv("PYTHONPATH", PATH)
        yield server


def test_no_budget_is_exceeded_and_none_is_refused_that_would_have_fitted(
    provider: PricedProvider, tmp_path: Path
) -> None:
    context = context_of()

    def one(seed: int) -> dict[str, object]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        return run(seed, provider, context, folder)

    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(one, RUNS))
    assert [(row["seed"], row["violations"]) for row in rows if row["violations"]] == []
    assert sum(bool(row["refusals"]) for row in rows) > 5
    assert all(row["ended"] for row in rows)
