"""What a study says that it was charged: one sum everywhere, and apart what stored replies make of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.cli import console
from ragc.core.display import dollars
from ragc.optimizers.search.storage import study_directory
from ragc.optimizers.status import status
from ragc.recipe import Budget
from ragc.task.budget import BudgetFile
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import identical
from tests.optimizers.priced import PRICE, compiled, replied


def sums(folder: Path, out: str) -> dict[str, Any]:
    """The sums in the charges of the study of `out`: of all, and of stored replies."""
    charges = BudgetFile(study_directory(folder / out) / "charges.sqlite3", Budget())
    parts = {"study": charges.spent.to_json(), "stored": charges.cached.to_json()}
    charges.close()
    return {f"{name}_{what}": amount for name, part in parts.items() for what, amount in part.items()}


def test_what_a_run_says_that_it_was_charged_is_what_its_study_was_charged(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = compiled(folder, PRICE, "budget.usd=0.03")  # cut off: the test answers are asked for twice
    charged, report = sums(folder, "out"), status(folder / "out")
    assert result.counters["replayed"] > 0
    assert charged["stored_calls"] == 0
    assert {name: result.counters[name] for name in charged} == pytest.approx(charged)
    assert result.counters["usd"] == pytest.approx(charged["study_usd"])
    assert report.budget["usd"]["spent"] == pytest.approx(charged["study_usd"])
    assert report.budget["tokens"]["spent"] == result.counters["tokens"] == charged["study_tokens"]
    console.print_compiled(result)
    shown = capsys.readouterr().out
    assert f"{charged['study_tokens']:,} tokens, {dollars(charged['study_usd'])}" in shown
    assert "Charged to the study" not in shown
    run = json.loads((folder / "out" / "run.json").read_bytes())
    assert run["charged"]["usd"] == pytest.approx(charged["study_usd"])


def test_what_stored_replies_would_have_cost_is_said_apart(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = compiled(folder, PRICE)
    capsys.readouterr()
    again = compiled(folder, PRICE, out="again")
    charged, report = sums(folder, "again"), status(folder / "again")
    assert again.counters["sent"] == 0
    assert charged["stored_usd"] == charged["study_usd"] == pytest.approx(first.counters["usd"])
    assert again.counters["stored_usd"] == pytest.approx(charged["stored_usd"])
    assert report.stored == {
        "calls": charged["stored_calls"],
        "tokens": charged["stored_tokens"],
        "usd": pytest.approx(charged["stored_usd"]),
    }
    assert any(line.startswith("of it stored") for line in report.lines())
    console.print_compiled(again)
    shown = " ".join(capsys.readouterr().out.split())
    assert "for stored replies, which count as if sent and cost nothing" in shown


def test_a_finished_study_is_replayed_in_full_by_its_own_budget(folder: Path) -> None:
    limit = "budget.usd=0.1"
    first = compiled(folder, PRICE, limit)
    target = ScriptedTarget(replied)
    again = compiled(folder, PRICE, limit, out="again", target=target)
    assert target.requests == []
    assert identical(folder / "out", folder / "again")
    assert again.counters["study_usd"] == pytest.approx(first.counters["study_usd"])
    # No limit holds back what is stored: it is charged beyond a limit, and nothing is sent.
    small = compiled(folder, PRICE, "budget.lm_calls=1", "search.trials=1", out="small", target=target)
    assert target.requests == []
    assert small.counters["study_calls"] > 1
