"""A study calibrates its thresholds: what it finds, what that costs, and that nothing of it is lost."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.cli import console
from ragc.compiled.base import load
from ragc.optimizers import compile as compiling
from ragc.optimizers.plan.estimate import estimate
from ragc.optimizers.search.storage import study_directory
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, colour_of

BEST = 62
"""Percent: below it the model knows the colour and passages mislead it, above it does not."""

GATED = (
    'program="selfrag"',
    "knobs.top_k=1",
    "knobs.w_rel=0.0",
    "knobs.w_sup=0.0",
    "knobs.w_use=0.0",
    "search.demos=0",
    'search.knobs=["selfrag_threshold"]',
    "search.trials=4",
)
CLAIMED = (
    'program="slimplm"',
    'knobs.judge_by="confidence"',
    "knobs.include_question_queries=false",
    "search.demos=0",
    'search.knobs=["judge_threshold"]',
    "search.trials=4",
    'targets.proxy.kind="embedded"',
)


def number(request: ChatRequest) -> int:
    """The number of the thing that is asked about."""
    prompt = request.messages[-1].content
    return int(prompt.rpartition("thing number")[2].partition("?")[0])


def percent(n: int) -> int:
    """How sure the model is to need a search for thing `n`: no two near ones alike, none 61 to 63."""
    sure = n * 37 % 100
    return sure + 3 if BEST - 1 <= sure <= BEST + 1 else sure


def gated(request: ChatRequest) -> dict[str, Any]:
    """Knows what it does not need to look up, and reads only what it needs."""
    thing = number(request)
    if "need" in (request.schema or {})["properties"]:
        return {"need": percent(thing)}
    reads = "Passages:" in request.messages[-1].content
    right = (percent(thing) > BEST) is reads
    known = ("red", "green", "blue", "black", "white")[thing % 5]
    return {"answer": known if right else "unknown"}


def claimed(request: ChatRequest) -> dict[str, Any]:
    """A proxy that is the surer where it is right, which is where the reader of passages is wrong."""
    *reason, name = (request.schema or {})["properties"]
    prompt = request.messages[-1].content
    if name == "answer":
        read = colour_of(request)
        return {"answer": "red" if "Passages:" not in prompt else "unknown" if read == "red" else read}
    thing = int(re.findall(r"number(\d+)", prompt)[0])
    if name == "heuristic_answer":
        return {"heuristic_answer": f"The thing number{thing} is red."}
    if name == "claims":
        one = {"claim": f"thing number{thing} is red", "need_search": "yes", "query": f"number{thing}"}
        return {"claims": [one]}
    sure = 80 if thing % 5 == 0 else 60 + 10 * (thing % 2)
    return {**dict.fromkeys(reason, "It is definite."), "confidence": sure}


def calibration(folder: Path, out: str = "out") -> Any:
    provenance = json.loads((folder / out / "provenance.json").read_text("utf-8"))
    return provenance["search"].get("calibration")


def trials(folder: Path, out: str = "out") -> Any:
    return json.loads((study_directory(folder / out) / "trials.json").read_text("utf-8"))


def log(folder: Path, out: str = "out") -> str:
    return (study_directory(folder / out) / "study.log").read_text("utf-8")


def distinct(target: ScriptedTarget) -> int:
    return len({repr(request) for request in target.requests})


def test_a_known_threshold_is_found_without_sending_a_request_twice(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = ScriptedTarget(gated)
    result = run(sets=GATED, target=target)
    (record,) = calibration(folder)
    assert (record["knob"], record["program"], record["metric"]) == ("selfrag_threshold", "selfrag", "em")
    sure = sorted(percent(n) / 100 for n in range(15, 35))
    below = max(s for s in sure if s < BEST / 100)
    above = min(s for s in sure if s > BEST / 100)
    assert record["threshold"] == pytest.approx((below + above) / 2)
    assert (record["in_sample"], record["n"], record["reached"], record["exact"]) == (1.0, 20, 20, True)
    assert record["before"] < record["validated"] <= 1.0
    assert load(folder / "out").state.knobs["selfrag_threshold"] == record["threshold"]
    assert trials(folder)[1]["candidate"]["knobs"]["selfrag_threshold"] == record["threshold"]
    assert result.verdict == "better"
    assert trials(folder)[1]["values"] == [1.0]
    assert distinct(target) == len(target.requests)
    on_dev = [request for request in target.requests if 15 <= number(request) < 35]
    assert len(on_dev) == 3 * 20  # the gate, and an answer either way
    assert "selfrag_threshold calibrated on 20 questions, 20 of which reached it" in log(folder)
    console.print_compiled(result)
    shown = capsys.readouterr().out
    assert f"1.000 at {record['threshold']:g}" in shown
    (remark,) = json.loads((folder / "out" / "provenance.json").read_text())["search"]["remarks"]
    assert f"the best of {len(record['points'])} values" in remark
    assert remark in shown


def test_the_curve_is_that_of_trials_at_its_points(run: Run, folder: Path) -> None:
    run(sets=GATED, target=ScriptedTarget(gated))
    (record,) = calibration(folder)
    again = ScriptedTarget(gated)
    for index in range(1, len(record["points"]), 7):
        point = record["points"][index]
        sets = (*GATED, "search.knobs=[]", f"knobs.selfrag_threshold={point!r}")
        run(f"at{index}", sets=sets, target=again)
        assert trials(folder, f"at{index}")[0]["values"] == pytest.approx([record["means"][index]])
    assert [request for request in again.requests if 15 <= number(request) < 35] == []


def test_without_calibration_the_ends_of_the_range_are_not_asked_for(run: Run, folder: Path) -> None:
    target = ScriptedTarget(gated)
    run(sets=(*GATED, "search.calibrate=false", "search.trials=1"), target=target)
    assert calibration(folder) is None
    assert "calibrat" not in log(folder)
    requests = [request for request in target.requests if 15 <= number(request) < 35]
    assert len(requests) < 3 * 20


@pytest.mark.parametrize("budget", ["budget.lm_calls=110", "budget.tokens=4500"])
def test_a_budget_without_room_for_it_leaves_the_threshold_alone(run: Run, folder: Path, budget: str) -> None:
    target = ScriptedTarget(gated)
    run(sets=(*GATED, "knobs.wording=brief", budget), target=target)
    (record,) = calibration(folder)
    assert record == {
        "program": "selfrag",
        "knob": "selfrag_threshold",
        "left_out": "the budget has no room for it",
    }
    assert "selfrag_threshold is not calibrated: the budget has no room for it" in log(folder)
    assert len(target.requests) <= 110
    assert load(folder / "out").state.method == "selfrag"


def test_a_gate_that_is_passed_several_times_is_tried_at_a_few_thresholds(folder: Path) -> None:
    target = ScriptedTarget(claimed)
    recipe = recipes.load(folder / "recipe.toml", CLAIMED)
    compiling.compile(
        recipe,
        folder / "out",
        store=CallStore(folder / "store"),
        targets={"main": target, "proxy": target},
    )
    (record,) = calibration(folder)
    assert record["exact"] is False
    assert 4 <= len(record["points"]) <= 11
    assert record["before"] < record["in_sample"] == 1.0
    assert record["threshold"] == 0.75  # the proxy is right where it is 80% sure, and wrong at 70%
    assert load(folder / "out").state.knobs["judge_threshold"] == record["threshold"]
    assert distinct(target) == len(target.requests)


def test_a_gate_that_no_question_reaches_is_left_alone(run: Run, folder: Path) -> None:
    def refuses(request: ChatRequest) -> dict[str, Any]:
        if "need" in (request.schema or {})["properties"]:
            return {"need": "maybe"}
        return gated(request)

    run(sets=GATED, target=ScriptedTarget(refuses))
    (record,) = calibration(folder)
    assert record["left_out"] == "no question reached it"


def test_another_program_is_calibrated_when_its_own_setting_saw_all_questions(run: Run, folder: Path) -> None:
    sets = (*GATED, 'program="vanilla"', 'search.programs=["selfrag"]', "search.trials=6")
    run(sets=sets, target=ScriptedTarget(gated))
    (record,) = calibration(folder)
    assert (record["program"], record["knob"]) == ("selfrag", "selfrag_threshold")
    tried = [trial["candidate"] for trial in trials(folder)]
    values = [c["knobs"]["selfrag_threshold"] for c in tried if c.get("program") == "selfrag"]
    assert values[0] == 0.2
    assert record["threshold"] in values
    assert load(folder / "out").state.knobs["selfrag_threshold"] == record["threshold"]


def test_what_should_be_small_is_told_as_it_is(run: Run, folder: Path) -> None:
    sets = (*GATED, 'search.objectives=["em", "-tokens"]', 'search.pick="-tokens"')
    run(sets=sets, target=ScriptedTarget(gated))
    (record,) = calibration(folder)
    assert record["metric"] == "tokens"
    assert 0 < record["in_sample"] < record["before"]
    assert record["threshold"] > max(percent(n) for n in range(15, 35)) / 100  # nothing is looked up
    assert min(record["means"]) == record["in_sample"]


def test_the_estimate_of_a_dry_run_counts_what_calibrating_takes(folder: Path) -> None:
    questions = estimate(recipes.load(folder / "recipe.toml", GATED))["questions"]
    assert questions["calibration"] == 20 * 2
    demos = "search.demos=2"
    for more in (
        ["search.calibrate=false"],
        ['search.knobs=["top_p"]'],
        ['search.optimizer="random"', demos],
    ):
        recipe = recipes.load(folder / "recipe.toml", (*GATED, *more))
        assert "calibration" not in estimate(recipe)["questions"]
