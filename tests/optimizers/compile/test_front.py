"""Fronts, limits and `search.pick` as a table: what is chosen, tested, written and said of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc import recipe as recipes
from ragc.cli import console
from ragc.compiled.base import load
from ragc.errors import ArtefactError, RecipeError
from ragc.optimizers.plan.estimate import estimate
from ragc.optimizers.search.storage import study_directory
from ragc.optimizers.status import status
from ragc.recipe.models import PickRule
from ragc.reports.compiled import Measured, limit_lines
from ragc.reports.page import write as write_report
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.targets.embedded import target as embedded
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, colour_of, needs_demos
from tests.support.used import count_use

TWO = ('search.objectives=["em", "-tokens"]', "search.front=3")


def provenance_of(out: Path) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((out / "provenance.json").read_text("utf-8"))
    return held


def test_members_of_the_front_are_tested_together_and_written_as_programs(run: Run) -> None:
    result = run(sets=TWO)
    provenance = provenance_of(result.path)
    front = provenance["front"]
    assert 2 <= len(front) <= 3
    assert sum(member["winner"] for member in front) == 1
    assert [member["dev"]["em"] for member in front] == sorted(
        (member["dev"]["em"] for member in front), reverse=True
    )
    for number, member in enumerate(front, start=1):
        program = load(result.path / "front" / str(number))
        assert member["path"] == f"front/{number}"
        assert program.provenance["test"]["winner"] == member["test"]
        assert set(member["differences"]) == {"em", "tokens"}
        assert all(one["p_adjusted"] >= one["p"] for one in member["differences"].values())
    winner = next(member for member in front if member["winner"])
    difference = provenance["test"]["differences"]["em"]
    assert difference["p_front"] == winner["differences"]["em"]["p_adjusted"]
    assert provenance["verdict"] == winner["verdict"]
    assert load(result.path).fingerprint == load(result.path / winner["path"]).fingerprint


def _look_thirty_times() -> None:
    for n in range(30):
        count_use([f"What colour is thing number{n}?" for n in range(60)], [f"other {n}"])


def test_members_of_a_front_are_adjusted_for_the_looks_before_each_with_its_own_figures(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _look_thirty_times()
    result = run(sets=TWO)
    front = provenance_of(result.path)["front"]
    assert any(member["verdict"] == "better" for member in front)
    assert result.look is not None
    assert result.verdict == "not shown to be better"
    for member in front:
        program = load(result.path / member["path"])
        assert program.judged["verdict"] == "not shown to be better"
        own = program.judged["differences"]
        assert {name: one["mean"] for name, one in own.items()} == {
            name: one["mean"] for name, one in member["differences"].items()
        }
        assert own["em"]["p_looks"] == min(1, result.look.adjustment * own["em"]["p_adjusted"])
    console.print_compiled(result)
    printed = [line for line in capsys.readouterr().out.splitlines() if "front/" in line]
    assert len(printed) == len(front)
    assert not any("better (p 0.0" in line or "; better" in line for line in printed)
    page = write_report([result.path], folder / "report.html").page.read_text("utf-8")
    assert "<bdi>better</bdi>" not in page


def test_no_member_of_a_front_has_a_verdict_that_the_winner_may_not_have(run: Run, folder: Path) -> None:
    path = folder / "questions.jsonl"
    written = [{**json.loads(line), "for_trying": True} for line in path.read_text("utf-8").splitlines()]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in written), "utf-8")
    result = run(sets=TWO)
    assert result.verdict == "none, for trying only"
    assert {member["verdict"] for member in provenance_of(result.path)["front"]} == {result.verdict}
    assert load(result.path / "front" / "1").judged["verdict"] == result.verdict


def test_members_of_an_earlier_front_go_and_files_of_others_are_refused(run: Run) -> None:
    out = run(sets=TWO).path
    (out / "front" / "notes.txt").write_text("mine", "utf-8")
    assert (out / "front" / "2" / "program.json").exists()
    with pytest.raises(ArtefactError, match=r"notes\.txt was not written by ragc"):
        run(sets=('search.objectives=["em", "-tokens"]',))
    (out / "front" / "notes.txt").unlink()
    run(sets=('search.objectives=["em", "-tokens"]',))
    assert (out / "program.json").exists()
    assert not (out / "front").exists()


def test_a_changed_member_is_refused_before_anything_is_sent(run: Run) -> None:
    out = run(sets=TWO).path
    (out / "front" / "1" / "program.json").write_text("{}", "utf-8")
    target = ScriptedTarget(needs_demos)
    with pytest.raises(ArtefactError, match="front"):
        run(sets=TWO, target=target)
    assert target.requests == []


def test_a_budget_that_ends_leaves_members_unmeasured(run: Run) -> None:
    whole = run("whole", sets=TWO, store=CallStore(None)).counters["sent"]
    result = run("cut", sets=(*TWO, f"budget.lm_calls={int(whole) - 10}"), store=CallStore(None))
    front = provenance_of(result.path).get("front", [])
    assert all(member["test"] or member["verdict"] == "not measured" for member in front)


def test_the_plan_counts_the_test_questions_of_all_members(folder: Path) -> None:
    plans = [estimate(recipes.load(folder / "recipe.toml", sets)) for sets in ((TWO[0],), TWO)]
    assert [plan["phases"]["test"]["questions"] for plan in plans] == [50, 100]


def test_limits_hold_on_dev_and_are_told_of_test(run: Run, folder: Path) -> None:
    free = run("free")
    most = free.test["tokens"].mean if "tokens" in free.test else 0
    assert not most  # tokens are scored where a limit needs them
    wide = run("wide", sets=("search.limits.tokens=100000",))
    tokens = wide.test["tokens"].mean
    limits = provenance_of(wide.path)["limits"]["tokens"]
    assert limits == {"most": 100000, "test": pytest.approx(tokens), "standing": "unclear"}  # 25 questions
    tight = run("tight", sets=(f"search.limits.tokens={tokens * 0.9:.0f}",))
    assert provenance_of(tight.path)["search"]["limits"]["tokens"]["dev"] <= tokens * 0.9
    assert tight.test["tokens"].mean < tokens
    assert "tokens" in "".join(limit_lines(Measured.of(provenance_of(tight.path), {}, "here")))
    assert status(folder / "tight").best == {
        **(status(folder / "tight").best or {}),
        "candidate": provenance_of(tight.path)["search"]["candidate"],
    }


def test_limits_that_no_setting_meets_choose_the_nearest_and_say_so(run: Run) -> None:
    result = run(sets=("search.limits.tokens=3", "search.limits.lm_calls=1"))
    trials = json.loads((study_directory(result.path) / "trials.json").read_text("utf-8"))
    means = {
        trial["number"]: sum(scores["tokens"] for scores in trial["scores"]) / len(trial["scores"])
        for trial in trials
    }
    chosen = provenance_of(result.path)["search"]
    assert "No program kept to the limits on dev, and the nearest was chosen: tokens" in result.note
    assert chosen["limits"]["tokens"]["dev"] == pytest.approx(min(means.values()))


def test_pick_within_takes_the_cheapest_of_those_about_as_good(run: Run) -> None:
    best = run("best", sets=('metrics.report=["em", "tokens"]',))
    cheap = run("cheap", sets=('search.pick={within=1.0, then="tokens"}',))
    assert cheap.test["tokens"].mean <= best.test["tokens"].mean
    held = recipes.load(cheap.path / "recipe.toml", files=False).search
    assert held.pick == PickRule(objective="em", within=1.0, then="tokens")
    assert held.pick_name == "em"


def test_latency_of_replayed_answers_is_that_of_their_requests(run: Run) -> None:
    import time

    def slow(request: ChatRequest) -> dict[str, Any]:
        time.sleep(0.02)
        return {"answer": colour_of(request)}

    sets = ('metrics.report=["em", "latency"]', "search.trials=1")
    first = run("first", sets=sets, target=ScriptedTarget(slow))
    again = run("again", sets=sets, target=ScriptedTarget(slow))
    assert again.counters["sent"] == 0
    assert again.test["latency"].mean >= 0.02
    assert first.test["latency"].mean >= 0.02


@pytest.mark.parametrize(
    ("sets", "sentence"),
    [
        (("search.front=2",), "search.front needs several objectives"),
        (("search.front=11",), "search.front must be at most 10"),
        (("search.limits.tokens=0",), "search.limits.tokens must be above 0"),
        (
            ("search.limits.tokns=5",),
            "tokns: unknown key in [search.limits]. Did you mean 'tokens'?",
        ),
        (("search.pick={within=0.1}",), "search.pick.then is missing"),
        (('search.pick={within=-1, then="tokens"}',), "search.pick.within must be at least 0"),
        (('search.pick={within=0.1, then="tokn"}',), "'tokn'"),
        (('search.pick={objective="f1", within=0.1, then="tokens"}',), "'f1'"),
        (("search.pick=3",), "search.pick must be a table"),
        (
            ("search.limits.tokens=5", 'search.optimizer="random"'),
            'search.limits needs optimizer = "ragc"',
        ),
    ],
)
def test_bad_tables_are_one_sentence_each(folder: Path, sets: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipes.load(folder / "recipe.toml", sets)
    assert sentence in str(caught.value)


def test_a_compiled_program_is_scored_by_the_metrics_of_its_limits_too(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = run(sets=("search.limits.latency=60", "search.limits.searches=9")).path
    record = replace(embedded.KIND, build=lambda *_: ScriptedTarget(needs_demos))
    monkeypatch.setattr("ragc.targets.embedded.target.KIND", record)
    assert {"em", "latency", "searches"} <= set(ragc.evaluate(out, split="dev").metrics)


def test_a_report_shows_the_tested_front(run: Run, tmp_path: Path) -> None:
    out = run(sets=(*TWO, "search.limits.tokens=100000")).path
    written = write_report([out], tmp_path / "report.html")
    page = written.page.read_text("utf-8")
    assert "Programs of the front" in page
    assert "front/1" in page
    assert "tokens unclear" in page  # 25 questions are too few for a mean
    assert "it takes more questions to tell)" in page
    assert "where the recipe has limits, of those that keep to them" in page
