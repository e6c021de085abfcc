"""Several optimizers in one compile: their shares, what they meet by, and that a kill changes nothing."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc import recipe as recipes
from ragc.cli import console
from ragc.compiled.base import load
from ragc.compiled.evaluate import score
from ragc.compiled.opened import ask, open_program
from ragc.errors import RagcError, RecipeError, UsageError
from ragc.optimizers.plan.estimate import estimate
from ragc.optimizers.search.portfolio import divide_trials
from ragc.optimizers.search.storage import study_directory
from ragc.optimizers.status import status
from ragc.store.call_store import CallStore
from ragc.targets.base import ChatRequest, Reply, Usage
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.examples import cases, thorough
from tests.optimizers.colours import (
    RECIPE,
    Killed,
    Run,
    begun,
    colour_of,
    dying,
    identical,
    lost_tries,
    written,
)

THREE = ('search.optimizer=["ragc","gepa","mipro"]', "search.trials=7", 'search.knobs=["top_k"]')
TWO = ('search.optimizer=["random","ragc"]', "search.trials=6", 'search.knobs=["top_k"]')
REPORT = ('metrics.report=["em"]',)


def taught(request: ChatRequest) -> Reply:
    """Right when it was shown how or told to give the colour alone; writes such an instruction."""
    if set((request.schema or {}).get("properties", ())) == {"answer"}:
        shown = len(request.messages) > 2
        instructed = any("the colour alone" in message.content for message in request.messages)
        right = colour_of(request)
        text = json.dumps({"answer": right if shown or instructed else f"It may be {right}"})
        return Reply(text, usage=Usage(20, 5))
    drawn = [[list(message) for message in request.messages], request.sample, request.sampling.seed]
    mark = sha256(json.dumps(drawn).encode()).hexdigest()[:8]
    return SchemaReplies(text=f"Give the colour alone, as in rule {mark}.")(request)


def only_instructed(request: ChatRequest) -> Reply:
    """As `taught`, but no demonstration helps."""
    if set((request.schema or {}).get("properties", ())) == {"answer"}:
        told_how = any("the colour alone" in message.content for message in request.messages)
        right = colour_of(request)
        return Reply(json.dumps({"answer": right if told_how else "unknown"}), usage=Usage(20, 5))
    return taught(request)


def searched(folder: Path, out: str = "out") -> Any:
    return json.loads((folder / out / "provenance.json").read_text("utf-8"))["search"]


def test_winners_meet_the_baseline_and_each_says_what_it_spent(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = ScriptedTarget(taught)
    result = run(sets=THREE, target=target)
    assert result.verdict == "better"
    facts = searched(folder)
    assert facts["optimizer"] == ["ragc", "gepa", "mipro"]
    assert [part["optimizer"] for part in facts["parts"]] == facts["optimizer"]
    assert [part["share"] for part in facts["parts"]] == [pytest.approx(1 / 3, abs=1e-6)] * 3
    assert facts["winner"] in facts["optimizer"]
    best = max(part["dev"]["em"] for part in facts["parts"])
    won = next(part for part in facts["parts"] if part["optimizer"] == facts["winner"])
    assert won["dev"]["em"] == best == 1.0
    assert all(part["spent"]["lm_calls"] >= 20 for part in facts["parts"])
    assert facts["parts"][0]["trials"] == 2  # of 7: a trial each, the other four divided
    assert facts["parts"][0]["search"]["candidate"]["demos"] > 0
    console.print_compiled(result)
    shown = capsys.readouterr().out
    assert "gepa: em 1.000 on dev" in shown
    assert f"Chosen on dev: {facts['winner']}." in shown
    assert len({repr(request) for request in target.requests}) == len(target.requests)


def test_the_result_is_compiled_as_any_other(run: Run, folder: Path) -> None:
    result = run(sets=(*THREE, *REPORT), target=ScriptedTarget(only_instructed))
    assert searched(folder)["winner"] in ("gepa", "mipro")
    assert "the colour alone" in load(folder / "out").state.predictors["answer"].instructions
    store, targets = CallStore(folder / "store"), {"main": ScriptedTarget(only_instructed)}
    opened = open_program(folder / "out", store=store, targets=targets)
    assert score(opened).metrics["em"].mean == result.test["em"].mean == 1.0
    assert ask(opened, "What colour is thing number7?").prediction == "blue"
    written = ragc.export(folder / "out", "openai-json", folder / "prompts.json")
    assert "the colour alone" in Path(written.written["openai-json"]).read_text("utf-8")
    report = status(folder / "out")
    assert report.state == "finished"
    assert report.recipe["optimizer"] == ("ragc", "gepa", "mipro")
    assert (report.trials["done"], report.trials["wanted"]) == (2, 2)
    by_name = {part["optimizer"]: part for part in report.parts}
    assert list(by_name) == ["ragc", "gepa", "mipro"]
    assert {part["state"] for part in report.parts} == {"ended"}
    assert by_name["ragc"]["trials"] == 2
    assert max(by_name[name]["dev"]["em"] for name in ("gepa", "mipro")) == 1.0
    assert sum(part["spent"]["lm_calls"] for part in report.parts) < (report.budget["lm_calls"]["spent"] or 0)
    lines = "\n".join(report.lines())
    assert re.search(
        r"^gepa +ended; \d+ LM calls, [\d,]+ tokens; \d+ trials?; leads with em ", lines, re.MULTILINE
    )


def test_the_status_of_a_portfolio_that_was_cut_off_names_what_each_did(run: Run, folder: Path) -> None:
    with pytest.raises((Killed, RagcError, BaseExceptionGroup)):
        run("cut", sets=THREE, target=dying(taught, 90))
    report = status(folder / "cut")
    states = [part["state"] for part in report.parts]
    assert states[0] == "ended"
    assert states[-1] == "not begun"
    assert report.parts[0]["dev"]["em"] > 0
    assert report.parts[-1]["spent"] == {"lm_calls": 0, "tokens": 0}
    (study_directory(folder / "cut") / "parts.json").write_text('[{"x": "\\u001b[2J"', "utf-8")
    assert status(folder / "cut").parts[0]["state"] == "begun"


Whole = tuple[Path, int]
"""A compiled program and the number of requests that led to it."""


@pytest.fixture(scope="module", params=[(), ("budget.lm_calls=140",)], ids=["free", "140"])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[tuple[str, ...], Whole]:
    """The budget, and what an unbroken compile makes of it."""
    target, folder = ScriptedTarget(taught), written(tmp_path_factory.mktemp("whole"))
    result = begun(folder)(sets=(*THREE, *request.param), target=target, store=CallStore(None))
    return request.param, (result.path, len(target.requests))


@thorough
@pytest.mark.parametrize("after", cases([5, 30, 60, 90, 110], 2))
def test_a_portfolio_cut_off_anywhere_resumes_to_the_same_bytes(
    run: Run, folder: Path, after: int, whole: tuple[tuple[str, ...], Whole]
) -> None:
    budget, (unbroken, sent) = whole
    assert not budget or sent <= 140
    assert after < sent
    with pytest.raises((Killed, RagcError, BaseExceptionGroup)):
        run("cut", sets=(*THREE, *budget), target=dying(taught, after))
    rest, lost = ScriptedTarget(taught), lost_tries(folder / "cut")
    run("cut", sets=(*THREE, *budget), target=rest, resume=True)
    # A try that was in flight stays charged, so that a binding budget may pay for fewer answers.
    assert (budget and lost) or identical(unbroken, folder / "cut")
    if budget:
        assert after + len(rest.requests) <= 140


@pytest.mark.parametrize(("calls", "shares"), [(90, ""), (120, "[3, 1]"), (150, "[1, 4]")])
def test_shares_and_the_whole_budget_are_hard(run: Run, folder: Path, calls: int, shares: str) -> None:
    target = ScriptedTarget(taught)
    sets = (*TWO, f"budget.lm_calls={calls}", *((f"search.shares={shares}",) if shares else ()))
    result = run(sets=sets, target=target)
    assert len(target.requests) <= calls
    assert result.test
    charges = study_directory(folder / "out") / "charges.jsonl"
    lines = charges.read_text("utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if "reserve" not in row]
    spent = {name: sum(row.get("part") == name for row in rows) for name in ("baseline", "random", "ragc")}
    share = searched(folder)["parts"][0]["share"]
    pool = calls - spent["baseline"] - 2 * 25
    assert all(part["spent"]["lm_calls"] > 0 for part in searched(folder)["parts"])
    assert spent["baseline"] == 20
    assert spent["random"] <= pool * share
    assert spent["random"] + spent["ragc"] <= pool


@pytest.mark.parametrize(
    ("shares", "trials", "expected"),
    [((2, 1, 1), 40, [20, 10, 10]), ((), 7, [2, 3, 2]), ((), 3, [1, 1, 1]), ((100, 1, 1), 10, [8, 1, 1])],
)
def test_trials_are_divided_whole_and_each_has_one(
    shares: tuple[float, ...], trials: int, expected: list[int]
) -> None:
    assert [n for _, n in divide_trials(("a", "b", "c"), shares, trials)] == expected


def test_what_one_leaves_over_goes_to_the_next(run: Run, folder: Path) -> None:
    """Nothing is searched by ragc's own study, so all of the budget is left for the other."""
    sets = ('search.optimizer=["reanchor","random"]', "search.trials=4", 'search.knobs=["top_k"]')
    run(sets=(*sets, "budget.lm_calls=260", "search.shares=[9, 1]"), target=ScriptedTarget(taught))
    first, second = searched(folder)["parts"]
    assert first["budget"] == second["budget"] == ""
    assert second["dev"]["em"] == 1.0


def test_the_dry_run_bounds_it(run: Run, folder: Path) -> None:
    recipe = recipes.load(folder / "recipe.toml", TWO)
    plan = estimate(recipe)
    assert plan["bounded"]
    target = ScriptedTarget(taught)
    run(sets=TWO, target=target)
    assert len(target.requests) <= plan["lm_calls"]
    unknown = estimate(recipes.load(folder / "recipe.toml", THREE))
    assert not unknown["bounded"]
    assert len(unknown["unbounded_because"]) == 2
    assert estimate(recipes.load(folder / "recipe.toml", (*THREE, "budget.lm_calls=99")))["lm_calls"] == 99


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (("data.train=0", "search.demos=0"), "'gepa' needs train questions, found none"),
        (("search.trials=2",), "3 optimizers need a trial each, and the recipe allows 2 trials"),
        (('search.optimizer=["ragc","random"]', "search.demos=0"), "'random' searches demonstrations"),
        (('search.optimizer=["ragc","reanchor"]', 'search.knobs=["query_pos"]'), "'reanchor' fits numbers"),
    ],
)
def test_what_an_optimizer_lacks_is_an_error_before_anything_is_sent(
    run: Run, folder: Path, sets: tuple[str, ...], expected: str
) -> None:
    target = ScriptedTarget(taught)
    with pytest.raises(UsageError, match=expected):
        run(sets=(*THREE, *sets), target=target)
    assert not target.requests
    with pytest.raises(UsageError, match=expected):
        estimate(recipes.load(folder / "recipe.toml", (*THREE, *sets)))


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ('optimizer = ["ragc", "ragc"]', "twice"),
        ('optimizer = ["ragc", "gape"]', "No optimizer is named 'gape'"),
        ("optimizer = []", "an optimizer or a list of them"),
        ("optimizer = 3", "an optimizer or a list of them"),
        ('optimizer = ["ragc", "gepa"]\nshares = [1]', "a share for each of the 2 optimizers"),
        ('optimizer = ["ragc", "gepa"]\nshares = [1, 0]', "numbers above 0"),
        ("shares = [1, 2]", "a share for each of the 1 optimizers"),
    ],
)
def test_a_wrong_list_of_optimizers_is_named(search: str, expected: str) -> None:
    with pytest.raises(RecipeError, match=expected):
        recipes.parse(RECIPE.replace("[search]", f"[search]\n{search}"), files=False)


def test_a_list_is_read_back_as_written_and_one_name_is_a_name() -> None:
    text = RECIPE.replace("[search]", '[search]\noptimizer = ["ragc", "gepa"]\nshares = [2, 1]')
    recipe = recipes.parse(text, files=False)
    assert recipe.search.optimizer == ("ragc", "gepa")
    assert recipe.search.shares == (2.0, 1.0)
    assert recipes.parse(recipe.to_toml(), files=False) == recipe
    alone = recipes.parse(RECIPE.replace("[search]", '[search]\noptimizer = ["gepa"]'), files=False)
    assert alone.search.optimizer == "gepa"
    assert "shares" not in alone.to_toml()


def test_an_optimizer_that_fails_by_itself_leaves_the_others(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragc.optimizers.external import random_search

    def breaks(*_: object) -> None:
        raise ValueError("its own fault")

    monkeypatch.setattr(random_search, "search", breaks)
    result = run(sets=TWO, target=ScriptedTarget(taught))
    first, second = searched(folder)["parts"]
    assert "its own fault" in first["notes"][0]
    assert "dev" not in first
    assert second["dev"]["em"] == 1.0
    assert result.verdict == "better"
