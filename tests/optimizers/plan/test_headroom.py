"""Headroom: what is sent, what is replayed, and what is said before and after."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.core.digest import digest
from ragc.errors import NothingAnswered, UsageError
from ragc.optimizers.plan.headroom import probe
from ragc.optimizers.plan.headroom.result import Headroom
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.optimizers.colours import (
    Killed,
    Run,
    colour_of,
    dying,
    needs_demos,
)
from tests.support.used import recorded

Probe = Callable[..., Headroom]
NO_DEMOS = ("search.demos=0",)


@pytest.fixture
def measure(folder: Path) -> Probe:
    """A headroom of the recipe in `folder`, on the store that `run` uses."""

    def go(*sets: str, target: ScriptedTarget | None = None, **more: Any) -> Headroom:
        store = more.pop("store", None) or CallStore(folder / "store")
        recipe = recipes.load(folder / "recipe.toml", sets)
        chosen = target or ScriptedTarget(needs_demos)
        return probe.headroom(recipe, store=store, targets={"main": chosen}, **more)

    return go


def prompts(target: ScriptedTarget) -> set[str]:
    return {json.dumps([list(m) for m in request.messages]) for request in target.requests}


def question_number(request: ChatRequest) -> int:
    return int(request.messages[-1].content.rsplit("thing number", 1)[-1].split("?")[0])


def test_a_compile_afterwards_sends_nothing_of_it_again(measure: Probe, run: Run) -> None:
    first, second = ScriptedTarget(needs_demos), ScriptedTarget(needs_demos)
    measure(target=first, calls=300)
    alone = ScriptedTarget(needs_demos)
    run("alone", target=alone, store=CallStore(None))
    compiled = run("after", target=second)
    assert not prompts(first) & prompts(second)
    assert compiled.counters["sent"] == len(second.requests)
    shared = prompts(first) & prompts(alone)
    assert len(shared) > 20  # the baseline's dev answers and the pool of demonstrations at least
    assert len(alone.requests) - len(second.requests) == len(shared)


def test_no_test_question_is_sent(measure: Probe) -> None:
    target = ScriptedTarget(needs_demos)
    measure(target=target, calls=1000)
    assert {question_number(request) for request in target.requests} == set(range(35))
    other = ScriptedTarget(needs_demos)
    measure(*NO_DEMOS, target=other, calls=1000, store=CallStore(None))
    assert {question_number(request) for request in other.requests} == set(range(15, 35))


@pytest.mark.parametrize(("sets", "used"), [((), {"train": 15, "dev": 20}), (NO_DEMOS, {"dev": 20})])
def test_the_record_has_the_questions_that_were_used(
    measure: Probe, sets: tuple[str, ...], used: dict[str, int]
) -> None:
    measure(*sets)
    assert {role: questions for role, work, questions in recorded() if work == "headroom"} == used


@pytest.mark.parametrize("calls", [61, 100, 300])
@pytest.mark.parametrize("readable", [True, False])
def test_the_budget_is_hard(measure: Probe, calls: int, readable: bool) -> None:
    def reply(request: ChatRequest) -> Any:
        return needs_demos(request) if readable or len(request.messages) % 2 == 0 else "no JSON"

    target = ScriptedTarget(reply)
    try:
        result = measure(target=target, calls=calls)
    except NothingAnswered:
        assert not readable
    else:
        assert result.settings
    assert 0 < len(target.requests) <= calls


def test_repeated_it_sends_nothing_and_says_the_same(measure: Probe) -> None:
    first, second = measure(), measure(target=ScriptedTarget([]))
    cost = ("counters",)
    one, two = ({k: v for k, v in r.to_json().items() if k not in cost} for r in (first, second))
    assert one == two
    assert second.counters["sent"] == 0
    assert second.counters["lm_calls"] == first.counters["lm_calls"]


def test_cut_off_it_goes_on_where_it_was(measure: Probe) -> None:
    whole = ScriptedTarget(needs_demos)
    expected = measure(target=whole, store=CallStore(None))
    with pytest.raises(Killed):
        measure(target=dying(needs_demos, 40))
    rest = ScriptedTarget(needs_demos)
    result = measure(target=rest)
    assert 40 + len(rest.requests) == len(whole.requests)
    assert result.settings == expected.settings
    assert result.gain == expected.gain


def test_demonstrations_that_help_are_worth_a_search(measure: Probe) -> None:
    result = measure("search.trials=20", calls=600)
    assert result.verdict == "worth it", result.why
    assert result.gain is not None
    assert result.gain.low > 0.1
    assert result.solved is not None
    assert result.solved.never.mean == 0
    assert result.noise is not None
    assert (result.noise.changed, result.sampled) == (0.0, False)
    assert any("demonstration" in setting.what for setting in result.settings)
    assert any(line.startswith("noise") and "temperature 0" in line for line in result.lines())


def test_a_model_that_never_knows_needs_a_change_first(measure: Probe) -> None:
    def rarely(request: ChatRequest) -> dict[str, Any]:
        return {"answer": colour_of(request) if question_number(request) in (16, 20) else "who knows"}

    result = measure(target=ScriptedTarget(rarely))
    assert result.verdict == "change it first"
    assert result.why.startswith("90% of the questions are solved by no setting; a stronger model")


def test_a_model_that_always_knows_leaves_nothing_to_gain(measure: Probe) -> None:
    result = measure(target=ScriptedTarget(lambda request: {"answer": colour_of(request)}))
    assert result.verdict == "not worth it"
    assert "leaves nothing to gain" in result.why


def test_constant_scores_are_named(measure: Probe) -> None:
    def halves(request: ChatRequest) -> dict[str, Any]:
        return {"answer": colour_of(request) if question_number(request) % 2 else "no"}

    result = measure(*NO_DEMOS, target=ScriptedTarget(halves))
    assert result.verdict == "change it first"
    assert "Every setting scores 0.500 in em, question by question" in result.why
    assert result.changes is None
    assert result.gain is None
    assert any(line.startswith("gain") and "no score differs" in line for line in result.lines())
    assert any("if as many" in line for line in result.lines())


def test_settings_that_make_no_difference_are_not_known_to_gain(measure: Probe) -> None:
    def by_luck(request: ChatRequest) -> dict[str, Any]:
        lucky = int(digest([list(m) for m in request.messages])[:8], 16) % 2
        return {"answer": colour_of(request) if lucky else "no"}

    result = measure(*NO_DEMOS, target=ScriptedTarget(by_luck))
    assert result.verdict in ("not known", "not worth it")
    assert result.gain is not None
    assert not result.gain.shown
    assert result.spread is not None
    assert result.spread.p > 0.05


def test_the_noise_of_a_sampled_model_is_measured_with_other_draws(measure: Probe) -> None:
    def drawn(request: ChatRequest) -> dict[str, Any]:
        lucky = (question_number(request) * 7 + (request.sample > 0)) % 3
        return {"answer": colour_of(request) if lucky else "no"}

    result = measure(*NO_DEMOS, "knobs.temperature=0.7", target=ScriptedTarget(drawn))
    assert result.noise is not None
    assert result.sampled
    assert result.noise.n == result.questions
    assert result.noise.changed == pytest.approx(2 / 3, abs=0.15)
    assert result.noise.size == result.noise.changed
    assert any("scored differently" in line for line in result.lines())


def test_a_server_that_varies_at_temperature_zero_is_caught(measure: Probe) -> None:
    answered: set[str] = set()

    def wavering(request: ChatRequest) -> dict[str, Any]:
        again = (shown := json.dumps([list(m) for m in request.messages])) in answered
        answered.add(shown)
        return {"answer": "no" if again and question_number(request) % 2 else colour_of(request)}

    result = measure(*NO_DEMOS, target=ScriptedTarget(wavering))
    assert result.noise is not None
    assert result.noise.changed > 0
    assert any("although at temperature 0" in line for line in result.lines())


def test_a_cost_to_minimize_counts_a_decrease_as_gain(measure: Probe) -> None:
    sets = ('search.objectives=["-tokens"]', 'search.knobs=["top_k"]', "search.ranges.top_k=[1,3]")
    result = measure(*sets, *NO_DEMOS)
    assert result.solved is None
    assert result.gain is not None
    base, *others = (setting.mean for setting in result.settings)
    assert base > max(others) > 0
    assert 0.05 * base < result.gain.value < base


DEAR = ('program="self_ask"', 'search.knobs="all"', "search.demos=0")
"""A program whose settings may take far more calls a question than they mostly do."""


def test_too_few_calls_for_what_the_first_questions_take_end_it_after_these(measure: Probe) -> None:
    target = ScriptedTarget(SchemaReplies(text="thing 3", fields={"answer": "red"}))
    with pytest.raises(UsageError, match=r"100 LM calls are too few: the baseline takes 7 a question"):
        measure(*DEAR, target=target, calls=100)
    assert len(target.requests) <= 5 * 7


@pytest.mark.parametrize(
    ("sets", "calls", "expected"),
    [
        (("data.dev=0",), 300, "no dev questions were named"),
        (("data.dev=3",), 300, "found 3; raise data.dev"),
        (("search.demos=0", "search.knobs=[]"), 300, "searches nothing: there is one setting"),
        (
            ("search.demos=0", "search.knobs=[]", "search.instructions=2"),
            300,
            "only instructions, which are proposed during the study",
        ),
        ((), 14, "14 LM calls are too few"),
        (("budget.lm_calls=14",), 300, "raise --calls and budget.lm_calls"),
        (("search.knobs=[]",), 40, "one setting beside demonstrations, which take"),
        ((), 0, "--calls must be 1 or more"),
    ],
)
def test_what_cannot_be_measured_is_named_before_anything_is_sent(
    measure: Probe, folder: Path, sets: tuple[str, ...], calls: int, expected: str
) -> None:
    target = ScriptedTarget([])
    with pytest.raises(UsageError, match=expected):
        measure(*sets, target=target, calls=calls)
    with pytest.raises(UsageError, match=expected):
        probe.plan(recipes.load(folder / "recipe.toml", sets), calls=calls, targets={"main": target})
    assert not target.requests


def test_demonstrations_that_cost_too_much_are_left_out_and_named(measure: Probe) -> None:
    target = ScriptedTarget(needs_demos)
    result = measure(target=target, calls=50)
    assert "demonstrations, which take about 15 calls" in result.left_out
    assert {question_number(request) for request in target.requests} <= set(range(15, 35))
    assert any(line.startswith("not tried") for line in result.lines())


@pytest.mark.parametrize("gain", [0.0, -0.1, float("nan"), float("inf")])
def test_a_gain_must_be_a_number_above_zero(measure: Probe, gain: float) -> None:
    with pytest.raises(UsageError, match="--gain must be above 0"):
        measure(gain=gain)


def test_a_plan_sends_nothing_and_is_what_happens(measure: Probe, folder: Path) -> None:
    target = ScriptedTarget(needs_demos)
    planned = probe.plan(recipes.load(folder / "recipe.toml"), targets={"main": target})
    assert not target.requests
    result = measure(target=target)
    assert len(result.settings) >= planned["settings_about"] / 2
    assert result.questions == planned["questions"]
    assert [setting.what for setting in result.settings] <= planned["settings"]
    assert result.settings[0].what == planned["settings"][0] == "baseline"
    assert len(target.requests) <= planned["calls"] == 300
