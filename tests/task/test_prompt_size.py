"""The cap on prompts: no prompt of a trial exceeds it, and one that nothing fits is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragc import recipe as recipes
from ragc.errors import UsageError
from ragc.optimizers.plan.estimate import estimate
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, needs_demos


def words(request: ChatRequest) -> int:
    return sum(len(message.content.split()) for message in request.messages)


def longest(target: ScriptedTarget) -> int:
    return max(map(words, target.requests))


def test_a_cap_that_nothing_fits_is_refused_before_anything_is_sent(run: Run, folder: Path) -> None:
    target = ScriptedTarget([])
    with pytest.raises(
        UsageError, match=r"search\.prompt_tokens = 30 is less than .* about \d+ tokens; raise"
    ):
        run(sets=("search.prompt_tokens=30",), target=target)
    with pytest.raises(UsageError, match=r"search\.prompt_tokens = 30 is less than"):
        estimate(recipes.load(folder / "recipe.toml", ("search.prompt_tokens=30",)))


def test_a_wide_range_of_passages_stays_within_the_cap(run: Run) -> None:
    target = ScriptedTarget(needs_demos)
    sets = ("knobs.chunk_size=50", "search.knobs=['top_k']", "search.ranges.top_k=[1, 9]", "search.trials=12")
    run(sets=(*sets, "search.prompt_tokens=450"), target=target)
    assert longest(target) <= 450
