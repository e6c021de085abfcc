"""What holds for every feature of a compile: kills, repeats, budgets, keys, and the number in flight."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable
from itertools import cycle, product

import pytest

from tests.examples import THOROUGH, cases
from tests.laws.conftest import Make
from tests.laws.features import FEATURES, Feature
from tests.laws.world import LOST, World
from tests.support.names import PROGRAM, PROVENANCE, RESUME, RUN, TEST_USE

Unbroken = Callable[[Feature], World]

PLACES = {"early": 0.05, "middle": 0.5, "late": 0.95}
"""Shares of all requests, at the arrival of which the process is killed."""
SHOWN = ("reasoning", "own program", "front")
"""Features that write other files than the rest."""
UNSAID = ("instructions", "rounds", "mipro", "random", "gepa")
"""Features where the outage is outside of ragc's own trials, and nothing names --resume."""
LIMITS = ("lm_calls", "tokens", "usd")
SHARE = 0.7
"""What a budget allows of what the unbroken run spent."""


def paired(others: Iterable[str]) -> list[tuple[Feature, str]]:
    """Every feature with all of `others`, or on a developer's machine with one of them, in turns."""
    if THOROUGH:
        return list(product(FEATURES, others))
    return list(zip(FEATURES, cycle(others)))


@pytest.mark.parametrize(("feature", "place"), paired(PLACES), ids=str)
def test_a_compile_killed_and_resumed_is_the_unbroken_one(
    feature: Feature, place: str, unbroken: Unbroken, make: Make
) -> None:
    whole, world = unbroken(feature), make(feature)
    request = max(2, round(PLACES[place] * len(whole.account.tries)))
    assert world.compile(killed_at=request).status == -signal.SIGKILL
    assert world.compile(resume=True).status == 0
    assert (world.written(), world.best()) == (whole.written(), whole.best())
    assert json.loads((world.folder / "out" / RUN).read_bytes())[TEST_USE]["number"] == 1
    assert world.account.tries.keys() == whole.account.tries.keys()
    assert world.account.arrived <= whole.account.arrived + LOST
    world.assert_no_key()


@pytest.mark.parametrize("feature", FEATURES, ids=str)
def test_a_second_compile_sends_nothing_and_writes_the_same(feature: Feature, unbroken: Unbroken) -> None:
    world = unbroken(feature)
    before, written = world.account.arrived, world.written()
    assert before == len(world.account.tries)
    out = "out" if feature.options else "second"
    world.account.down = True  # replies are stored, and so is what the server is
    again = world.compile(out=out, resume=bool(feature.options))
    world.account.down = False
    assert again.status == 0, again.err
    assert world.account.arrived == before
    assert world.written(out) == written


@pytest.mark.parametrize("feature", cases(FEATURES, 2), ids=str)
def test_an_outage_of_the_model_is_one_sentence_and_resumed_it_is_the_unbroken_one(
    feature: Feature, unbroken: Unbroken, make: Make
) -> None:
    whole, world = unbroken(feature), make(feature)
    ended = world.compile("--set", "targets.main.options.tries=1", outage_at=20)
    assert (ended.status, len(ended.messages)) == (1, 1)
    assert RESUME in ended.err or feature.name in UNSAID
    assert world.written() == {}
    world.account.down = False
    assert world.compile("--set", "targets.main.options.tries=1", resume=True).status == 0
    assert world.written()[PROGRAM] == whole.written()[PROGRAM]


@pytest.mark.parametrize(("feature", "what"), cases(paired(LIMITS), 7), ids=str)
def test_a_budget_holds_over_a_kill_and_leaves_a_program_or_a_sentence(
    feature: Feature, what: str, unbroken: Unbroken, make: Make
) -> None:
    whole = unbroken(feature).spent
    limit = type(whole[what])(SHARE * whole[what])
    world = make(feature, 0.05)
    budget = ("--set", f"budget.{what}={limit!r}")
    world.compile(*budget, killed_at=round(whole["lm_calls"] / 3))
    ended = world.compile(*budget, resume=True)
    assert world.spent[what] <= limit
    assert (ended.status, len(ended.messages)) in ((0, 0), (1, 1))
    if ended.status == 0:
        written = world.written()
        assert json.loads(written[PROGRAM]).keys() == json.loads(unbroken(feature).written()[PROGRAM]).keys()
        assert json.loads(written[PROVENANCE])["verdict"]
    world.assert_no_key()


@pytest.mark.parametrize("feature", cases(FEATURES, 2), ids=str)
def test_the_number_of_questions_in_flight_changes_nothing(
    feature: Feature, unbroken: Unbroken, make: Make
) -> None:
    whole, world = unbroken(feature), make(feature)
    assert world.compile("--set", "concurrency=16").status == 0
    for name in (PROGRAM, PROVENANCE):
        assert world.written()[name] == whole.written()[name]


@pytest.mark.parametrize("name", cases(SHOWN, 2))
def test_no_command_shows_or_writes_a_key_of_the_environment(name: str, unbroken: Unbroken) -> None:
    world = unbroken(next(feature for feature in FEATURES if feature.name == name))
    for words in (
        ("ask", "out", "What colour is thing number3?", "--trace"),
        ("eval", "out", "--split", "dev", "--out", "rows.jsonl"),
        ("export", "out", "--to", "all", "--out", "exported"),
        ("report", "out", "--out", "page.html"),
        ("study", "status", "out", "--json"),
    ):
        assert world.run(*words).status == 0
    world.run("doctor", "recipe.toml")
    world.assert_no_key()
