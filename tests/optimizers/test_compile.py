"""Compile, end to end, on a scripted target whose answers depend on the prompt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from ragc.compiled.base import load
from ragc.compiled.evaluate import score
from ragc.compiled.opened import open_program
from ragc.optimizers.search.storage import study_directory
from ragc.optimizers.status import open_study, status
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, colour_of, needs_demos
from tests.support.colours import COLOURS


def test_a_program_that_needs_demonstrations_gets_them_and_is_proved_better(run: Run, folder: Path) -> None:
    result = run()
    assert result.verdict == "better"
    assert result.test["em"].mean > result.baseline["em"].mean
    assert load(folder / "out").state.predictors["answer"].demos
    provenance = json.loads((folder / "out" / "provenance.json").read_text())
    assert provenance["search"]["candidate"]["demos"] > 0
    assert str(folder) not in json.dumps(provenance) + (folder / "out" / "recipe.toml").read_text()


@pytest.mark.parametrize("objectives", ['["em"]', '["em", "-tokens"]'])
def test_no_trial_runs_on_in_optunas_storage_when_the_budget_is_spent(run: Run, objectives: str) -> None:
    out = run(sets=(f"search.objectives={objectives}", "budget.lm_calls=110", 'metrics.report=["em"]')).path
    study = open_study(study_directory(out))
    assert study is not None
    trials = study.get_trials()
    assert {trial.state for trial in trials} <= {TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL}
    assert status(out).trials["stale"] == 0


def test_racing_stops_trials_that_cannot_win(run: Run, folder: Path) -> None:
    def only_three_passages(request: ChatRequest) -> dict[str, Any]:
        prompt = request.messages[-1].content
        return {"answer": colour_of(request) if "[3]" in prompt and "[4]" not in prompt else "no"}

    target = ScriptedTarget(only_three_passages)
    run(
        sets=("search.demos=0", 'search.knobs=["top_k"]', "search.trials=6"),
        target=target,
    )
    trials = json.loads((study_directory(folder / "out") / "trials.json").read_text())
    losers = [t for t in trials if t["candidate"]["knobs"]["top_k"] != 3]
    assert losers
    assert not any(t["complete"] for t in losers)
    assert all(len(t["scores"]) <= 6 for t in losers)  # an incumbent at 1.0 leaves no room for a miss
    seen = {(t["candidate"]["knobs"]["top_k"], n) for t in losers for n in range(len(t["scores"]))}
    assert len(target.requests) == 20 + len(seen) + 25
    assert load(folder / "out").state.knobs["top_k"] == 3


def test_no_candidate_is_tried_twice_while_others_are_left(run: Run, folder: Path) -> None:
    run(sets=("search.demos=1", 'search.knobs=["query_pos"]', "search.trials=9", "search.batch=3"))
    trials = json.loads((study_directory(folder / "out") / "trials.json").read_text())
    candidates = [json.dumps(trial["candidate"], sort_keys=True) for trial in trials]
    assert len(candidates) == 10 == len(set(candidates))


def test_nothing_to_search_gives_the_baseline_and_no_false_claim(run: Run) -> None:
    result = run(sets=("search.demos=0", "search.knobs=[]"))
    assert result.verdict == "not shown to be better"
    assert result.differences["em"]["mean"] == 0


def test_where_a_trial_led_by_luck_and_the_baseline_is_kept_the_note_says_so(run: Run) -> None:
    def lucky(request: ChatRequest) -> dict[str, Any]:
        prompt = request.messages[-1].content
        thing = int(re.findall(r"number(\d+)\?", prompt)[-1])
        right = thing % 2 == 0 if "[3] " in prompt else thing % 2 == 1 or thing == 16
        return {"answer": COLOURS[thing % 5] if right else "none"}

    sets = ("search.demos=0", "search.knobs=[]", "search.ranges.top_k=[2, 3]")
    result = run(sets=sets, target=ScriptedTarget(lucky))
    assert result.note == (
        "The baseline is kept: trial 1 led by 0.05 on 20 dev questions, "
        "too little to expect that it is better."
    )


def test_a_weak_model_gets_labelled_demonstrations(run: Run, folder: Path) -> None:
    def parrot(request: ChatRequest) -> dict[str, Any]:
        return {"answer": colour_of(request) if len(request.messages) > 2 else "no idea"}

    assert run(target=ScriptedTarget(parrot)).verdict == "better"
    demos = load(folder / "out").state.predictors["answer"].demos
    assert all(demo["answer"] in COLOURS for demo in demos)
    assert all(f"is {demo['answer']}." in demo["passages"][0] for demo in demos)


def test_what_a_program_learns_from_train_is_kept_and_sent_once(run: Run, folder: Path) -> None:
    def reads(request: ChatRequest) -> dict[str, str]:
        prompt = request.messages[-1].content
        return {"answer": colour_of(request) if "Passages:" in prompt else "red"}

    target = ScriptedTarget(reads)
    sets = ('program="skr"', "search.demos=0", 'search.knobs=["skr_k"]', "search.trials=2")
    compiled = run(sets=sets, target=target)
    learned = load(compiled.path).state.learned
    assert {question for question, _ in learned["labels"]} == {
        f"What colour is thing number{i}?" for i in range(15) if COLOURS[i % 5] != "red"
    }
    assert {how for _, how in learned["labels"]} == {"better"}
    asked_without = [r for r in target.requests if "Passages:" not in r.messages[-1].content]
    assert len(asked_without) == 15
    opened = open_program(compiled.path, store=CallStore(None), targets={"main": target})
    assert opened.program.learned == learned
    plain = open_program(
        folder / "recipe.toml", sets, store=CallStore(folder / "store"), targets={"main": target}
    )
    before = len(target.requests)
    score(plain, "dev")
    assert plain.program.learned == learned
    assert len(target.requests) == before


def test_a_program_that_chooses_its_demonstrations_keeps_them_all(run: Run) -> None:
    def answers(request: ChatRequest) -> dict[str, str]:
        if '"domain"' in request.messages[0].content:
            return {"domain": "open"}
        return needs_demos(request)

    sets = (
        'program="ragx"',
        'knobs.icl_domain="same"',
        'sources.web.kind="bm25"',
        "search.demos=2",
        "search.knobs=[]",
        "search.trials=1",
    )
    state = load(run(sets=sets, target=ScriptedTarget(answers)).path).state
    assert state.knobs["icl_n"] == 2
    assert len(state.predictors["answer"].demos) > 2
    assert all(demo["domain"] == "open" for demo in state.predictors["answer"].demos)
