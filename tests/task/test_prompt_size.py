"""The cap on prompts: no prompt of a trial exceeds it, and one that nothing fits is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.errors import UsageError
from ragc.optimizers.plan.estimate import estimate
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.examples import cases, thorough
from tests.optimizers.colours import Run, colour_of, needs_demos

SHORT = ("knobs.chunk_size=50", "knobs.top_k=1", "search.knobs=[]")


def words(request: ChatRequest) -> int:
    return sum(len(message.content.split()) for message in request.messages)


def longest(target: ScriptedTarget) -> int:
    return max(map(words, target.requests))


def needs_two(request: ChatRequest) -> dict[str, Any]:
    """Right when it was shown two examples; after one for every second question; else for every third."""
    right, messages = colour_of(request), len(request.messages)
    luck = sum(map(ord, request.messages[-1].content)) % 6
    some = luck % 2 == 0 if messages > 2 else luck % 3 == 0
    return {"answer": right if messages > 4 or some else f"I think it may be {right}"}


def demos_of(run: Run, *sets: str) -> tuple[int, int]:
    """The demonstrations of the winner, and the words of the longest prompt."""
    target = ScriptedTarget(needs_two)
    compiled = run(sets=(*SHORT, *sets), target=target, store=CallStore(None))
    return len(compiled.program.state.predictors["answer"].demos), longest(target)


@thorough
def test_candidates_show_fewer_demonstrations_under_a_cap(run: Run) -> None:
    free, _ = demos_of(run)
    assert free == 2
    with pytest.raises(UsageError) as caught:
        demos_of(run, "search.prompt_tokens=1")
    least = int(str(caught.value).split("about ")[1].split()[0])
    shown = {}
    for cap in cases(range(least, least + 60, 12), 4):
        shown[cap], length = demos_of(run, f"search.prompt_tokens={cap}")
        assert length <= cap
    assert sorted(set(shown.values())) == [0, 1, 2]
    assert list(shown.values()) == sorted(shown.values())


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
