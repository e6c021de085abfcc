"""What share of a study its budget pays for, and whether that much of it then runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ragc.optimizers.plan.budget_share import Work, budget_share
from ragc.optimizers.plan.estimate import estimate
from ragc.optimizers.plan.headroom.probe import headroom
from ragc.optimizers.search.storage import study_directory
from ragc.recipe import Budget
from ragc.store.calls import CallStore
from tests.examples import thorough
from tests.optimizers.colours import written
from tests.optimizers.priced import PRICE, compiled, priced_recipe, target_of
from tests.support.progress import Notes


def test_the_share_is_that_of_the_limit_that_ends_the_study_first() -> None:
    costs, work = {"lm_calls": 1000.0, "tokens": 500_000.0, "usd": None}, Work(0.05)
    share = budget_share(Budget(lm_calls=500, tokens=50_000, usd=1.0), costs, work=work, trials=30)
    assert share is not None
    assert (share.what, share.share, share.trials, share.of) == ("tokens", 0.1, 1, 30)
    assert share.text.startswith(
        "the budget pays for about 10% of this study, enough for 1 of 30 trials on all dev questions: 50,000"
    )
    assert budget_share(Budget(usd=1.0), costs, work=work, trials=30) is None
    tiny = budget_share(Budget(lm_calls=1), costs, work=work, trials=30)
    assert tiny is not None
    assert "less than 1%" in tiny.text


def test_what_has_to_stay_unspent_pays_for_nothing() -> None:
    limits, work = Budget(usd=1.0), Work(0.2, 0.1)
    share = budget_share(limits, {"usd": 1.0}, work=work, trials=10, spares={"usd": 0.2})
    assert share is not None
    assert (round(share.share, 9), share.trials, share.is_whole) == (0.8, 7, False)
    assert "$1.00 of about $1.00 and $0.20 that requests reserve beyond what they cost" in share.text
    much = budget_share(Budget(usd=1.21), {"usd": 1.0}, work=work, trials=10, spares={"usd": 0.2})
    assert much is not None
    assert much.is_whole
    none = budget_share(Budget(usd=0.1), {"usd": 1.0}, work=work, trials=10, spares={"usd": 0.2})
    assert none is not None
    assert (none.share, none.trials) == (0, 0)


@thorough
def test_about_as_much_of_a_study_runs_as_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    folder = written(tmp_path)
    compiled(folder, PRICE, store=CallStore(None))
    whole = estimate(priced_recipe(folder, PRICE, "budget.usd=1"))
    cost, spare = whole["budget_pays"]["cost"], whole["budget_pays"]["spare"]
    said_of: list[tuple[int, bool]] = []
    for limit in (0.3 * cost, 0.6 * cost, 0.8 * cost, cost, cost + spare, 1.2 * (cost + spare)):
        sets = PRICE, f"budget.usd={limit}"
        before, watched, out = estimate(priced_recipe(folder, *sets))["budget_pays"], Notes(), "cut"
        compiled(folder, *sets, out=out, store=CallStore(None), progress=watched)
        search = json.loads((folder / out / "provenance.json").read_bytes())["search"]
        trials = json.loads((study_directory(folder / out) / "trials.json").read_bytes())
        answers = sum(len(trial["scores"]) for trial in trials[1:])
        notes = [note for note in watched.notes if "budget pays" in note]
        match = re.search(r"enough for (\d) of 4", notes[0]) if notes else None
        enough = int(match[1]) if match else 4
        said_of.append((enough, not notes))
        # An estimate: demonstrations, found after it, make the prompts of trials longer.
        assert answers >= 0.8 * enough * len(trials[0]["scores"]) or not search["budget"]
        # Before a question was answered, each chunk counts with its greatest length.
        assert before["trials"] <= enough
        if not notes:
            assert not search["budget"]
        if before["share"] >= 1:
            assert not search["budget"]
    assert {whole for _, whole in said_of} == {True, False}


def test_headroom_says_what_the_budget_pays_for_at_the_cost_that_it_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    recipe = priced_recipe(written(tmp_path), PRICE, "budget.usd=0.05")
    result = headroom(recipe, calls=100, store=CallStore(None), targets={"main": target_of(recipe)})
    assert result.noise is not None  # the second run of the baseline has the price of the first
    assert result.paid is not None
    assert not result.paid.is_whole
    assert result.paid.cost < estimate(recipe)["budget_pays"]["cost"]
