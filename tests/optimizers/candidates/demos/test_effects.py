"""The effect of demonstrations on other questions: estimated from trials, and used to choose later sets."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from ragc import metrics
from ragc.errors import RecipeError
from ragc.metrics.base import Objective
from ragc.optimizers.candidates.demos.effects import TrialDemos, estimate_effects, order_by_help
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.storage import read_study, study_directory
from ragc.store.call_store import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.examples import cases, thorough
from tests.optimizers.colours import Killed, Run, colour_of, dying, identical

EM = Objective(metrics.get("em"), 1)
KEYS = tuple(f"d{n}" for n in range(12))


def shown(number: int, keys: Sequence[str], scores: Sequence[float], settings: str = "s") -> TrialDemos:
    rows = tuple({"em": score} for score in scores)
    trial = TrialResult(number, Candidate({}), rows, (fmean(scores),), True, {})
    return TrialDemos(trial, frozenset(keys), settings)


def simulated(seed: int, trials: int) -> tuple[dict[str, float], list[TrialDemos]]:
    """True effects of twelve demonstrations, and trials that show three each on forty questions."""
    rng = random.Random(seed)
    effects = {key: rng.gauss(0, 0.12) for key in KEYS}
    ease = [rng.uniform(0.2, 0.6) for _ in range(40)]
    observed = []
    for number in range(trials):
        keys = rng.sample(KEYS, 3)
        lift = sum(effects[key] for key in keys)
        observed.append(shown(number, keys, [float(rng.random() < level + lift) for level in ease]))
    return effects, observed


def test_sets_chosen_by_effect_are_better_than_random_ones() -> None:
    gains, best = [], []
    for seed in range(60):
        effects, observed = simulated(seed, 8)
        expected = estimate_effects(observed, KEYS, EM).mean()
        chosen = sorted(KEYS, key=lambda key: -expected[key])[:3]
        gains.append(sum(effects[key] for key in chosen))
        best.append(sum(sorted(effects.values())[-3:]))
    error = (sum((g - fmean(gains)) ** 2 for g in gains) / 59 / 60) ** 0.5
    assert fmean(gains) > 4 * error  # a random set gains 0 in the mean
    assert fmean(gains) > 0.3 * fmean(best)


def test_without_evidence_all_are_equal_and_draws_differ() -> None:
    prior = estimate_effects([], KEYS, EM)
    assert set(prior.mean().values()) == {0.0}
    assert prior.draw(random.Random(1)) != prior.draw(random.Random(2))
    assert prior.draw(random.Random(1)) == prior.draw(random.Random(1))


def test_little_evidence_is_shrunk_and_more_is_shrunk_less() -> None:
    few = estimate_effects([shown(0, ["d0"], [1, 0, 1]), shown(1, ["d1"], [0, 0, 1])], KEYS, EM).mean()
    many = estimate_effects(
        [shown(0, ["d0"], [1, 0, 1] * 40), shown(1, ["d1"], [0, 0, 1] * 40)], KEYS, EM
    ).mean()
    assert 0 < few["d0"] < many["d0"] < 0.34
    assert few["d5"] == many["d5"] == 0.0


def test_what_other_settings_do_is_not_put_down_to_demonstrations() -> None:
    poor, rich = [0.0] * 20, [1.0, 0.0] * 10
    observed = [
        shown(0, ["d0"], poor, "poor"),
        shown(1, ["d1"], rich, "rich"),
        shown(2, ["d2"], poor, "poor"),
        shown(3, ["d3"], rich, "rich"),
        shown(4, ["d0"], rich, "rich"),
    ]
    means = estimate_effects(observed, KEYS, EM).mean()
    assert abs(means["d1"] - means["d0"]) < 0.1
    assert means["d0"] > means["d2"]


def test_demonstrations_of_one_question_stay_together() -> None:
    keys = {"query": ["q0", "q1", "q2"], "answer": ["a0", "a1", "a2"]}
    drawn = {"q0": 0.1, "a0": -0.3, "q1": 0.0, "a1": 0.2, "q2": -0.1, "a2": 0.0}
    assert order_by_help(keys, drawn) == {"query": [1, 2, 0], "answer": [1, 2, 0]}
    assert order_by_help({"query": ["q0", "q1"], "answer": ["a0"]}, drawn) == {"query": [0, 1], "answer": [0]}


GOOD = {3, 8, 11}
"""Things whose demonstration helps with all others; every other one misleads."""


def helped(request: ChatRequest) -> dict[str, Any]:
    """Right in a share of questions that grows with the good demonstrations shown; every train answer is."""
    number = int(re.findall(r"thing number(\d+)\?", request.messages[-1].content)[-1])
    right = colour_of(request)
    demos = [int(n) for m in request.messages[1:-1] for n in re.findall(r"thing number(\d+)\?", m.content)]
    good = len(GOOD & {*demos})
    return {"answer": right if number < 15 or number % 5 < 1 + good else f"It may be {right}"}


HELPFUL = (
    'search.demo_kinds=["filled", "helpful"]',
    "search.knobs=[]",
    "search.trials=14",
    "knobs.top_k=1",
)


def candidates(path: Path) -> list[dict[str, Any]]:
    trials = json.loads((study_directory(path) / "trials.json").read_text("utf-8"))
    return [{**trial["candidate"], "value": trial["values"][0]} for trial in trials]


def helpful_sets(path: Path) -> tuple[list[int], list[list[int]]]:
    """The things of the pool, and those that each helpful set shows first, set 0 first."""
    study = read_study(study_directory(path))
    assert study is not None
    values = study.user_attrs
    (pool,) = (values[name] for name in values if name.startswith("pool:"))
    things = [
        int(demo["values"]["question"].split("number")[1].strip("?")) for demo in pool["demos"]["answer"]
    ]
    orders = [values[name]["answer"] for name in sorted(values) if name.startswith("helpful:")]
    return things, [[things[at] for at in order[:2]] for order in orders]


@pytest.mark.parametrize("seed", cases([3, 4, 5, 6], 1))
def test_later_sets_show_what_helped_others(run: Run, seed: int) -> None:
    sets = (*HELPFUL, f"seed={seed}")
    compiled = run(sets=sets, target=ScriptedTarget(helped))
    things, shown = helpful_sets(compiled.path)
    good = GOOD & {*things}
    assert len(shown) == 4
    assert fmean(len({*one} & good) for one in shown) > 2 * len(good) / len(things)
    kinds = [c.get("demo_kind", "filled") for c in candidates(compiled.path) if c["demos"]]
    assert kinds[:3] == ["filled"] * 3  # other sets are tried before, so that something is known
    again = run("again", sets=sets, target=ScriptedTarget([]))
    assert identical(compiled.path, again.path)


@thorough
def test_killed_anywhere_it_chooses_the_same_sets(run: Run, tmp_path: Path) -> None:
    target = ScriptedTarget(helped)
    whole = run(sets=HELPFUL, target=target)
    total = len(target.requests)
    for number, after in enumerate(cases(range(total // 3, total, max(1, total // 6)), 2)):
        store = CallStore(tmp_path / f"store{number}")
        with pytest.raises(Killed):
            run(f"cut{number}", sets=HELPFUL, target=dying(helped, after), store=store)
        cut = run(f"cut{number}", sets=HELPFUL, target=ScriptedTarget(helped), store=store, resume=True)
        assert identical(whole.path, cut.path), after


def test_helpful_alone_has_nothing_to_learn_from(run: Run) -> None:
    with pytest.raises(RecipeError, match="learns from the scores of other sets"):
        run(sets=('search.demo_kinds=["helpful"]',), target=ScriptedTarget([]))
