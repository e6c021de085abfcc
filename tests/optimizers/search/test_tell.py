"""What Optuna keeps of a trial that racing stopped, and what its sampler learns from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from ragc.core.progress import Silent
from ragc.metrics.failures import Failures
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.storage import read_study, study_directory
from ragc.optimizers.search.tell import ESTIMATES, FAILURES, MEANS, QUESTIONS_SEEN, finish, sampler_view
from ragc.optimizers.status import status
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, colour_of

SETS = ("search.demos=0", "search.trials=10", "search.ranges.top_k=[1, 10]", "knobs.wording=brief")


def colour_from_three(request: ChatRequest) -> str:
    """Wrong without three passages: such trials are soon stopped, and so are those that show more."""
    return colour_of(request) if "[3]" in request.messages[-1].content else "no"


def needs_three(request: ChatRequest) -> dict[str, Any]:
    """The same, but wrong for every fourth question."""
    odd = int(re.findall(r"thing number(\d+)\?", request.messages[-1].content)[-1]) % 4 == 0
    return {"answer": "no" if odd else colour_from_three(request)}


def three_suffice(request: ChatRequest) -> dict[str, Any]:
    return {"answer": colour_from_three(request)}


def trials_of(out: Path) -> list[optuna.trial.FrozenTrial]:
    """The trials of the journal, as anybody may read it."""
    journal = study_directory(out) / "study.journal"
    storage = JournalStorage(JournalFileBackend(str(journal)))
    return optuna.load_study(storage=storage, study_name=None).trials


def records(out: Path) -> list[dict[str, Any]]:
    study = read_study(study_directory(out))
    assert study is not None
    attributes = study.user_attrs
    names = sorted(name for name in attributes if name.startswith("batch:"))
    return list({value["number"]: value for name in names for value in attributes[name]}.values())


class Scores(Silent):
    """Keeps the scores that are shown."""

    def __init__(self) -> None:
        self.shown: dict[int, float] = {}

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """Kept."""
        self.shown[index] = score


def test_a_stopped_trial_is_pruned_with_the_mean_of_what_it_saw(run: Run, folder: Path) -> None:
    scores = Scores()
    run(sets=SETS, target=ScriptedTarget(needs_three), progress=scores)
    stopped = [record for record in records(folder / "out") if not record["complete"]]
    assert stopped
    by_number = {trial.number: trial for trial in trials_of(folder / "out")}
    for record in stopped:
        trial, seen = by_number[record["trial"]], len(record["scores"])
        mean = sum(score["em"] for score in record["scores"]) / seen
        assert trial.state == TrialState.PRUNED
        means = {n: sum(score["em"] for score in record["scores"][:n]) / n for n in trial.intermediate_values}
        assert trial.intermediate_values == means
        assert max(means) == seen
        assert trial.value == mean == record["values"][0]
        assert (trial.user_attrs[QUESTIONS_SEEN], trial.user_attrs[MEANS]) == (seen, [mean])
        assert trial.user_attrs[ESTIMATES] == record["estimates"]
        assert scores.shown[record["number"]] == means[min(means)]  # shown as the trial begins
    assert any(record["estimates"][0] < 0 for record in stopped)  # what was shown in the place of the mean
    assert all(0 <= score <= 1 for score in scores.shown.values())
    assert status(folder / "out").trials["stopped"] == len(stopped)
    log = (study_directory(folder / "out") / "study.log").read_text("utf-8")
    assert "em -" not in log


def test_with_several_objectives_it_is_pruned_too(run: Run, folder: Path) -> None:
    """Optuna itself prunes no such trial: it has no value there, and its means are attributes."""
    sets = (*SETS, 'search.objectives=["em", "-tokens"]')
    run(sets=sets, target=ScriptedTarget(three_suffice))
    stopped = [record for record in records(folder / "out") if not record["complete"]]
    assert stopped
    by_number = {trial.number: trial for trial in trials_of(folder / "out")}
    for record in stopped:
        trial = by_number[record["trial"]]
        assert (trial.state, trial.values, trial.intermediate_values) == (TrialState.PRUNED, None, {})
        assert (trial.user_attrs[MEANS], trial.user_attrs[ESTIMATES]) == (
            record["values"],
            record["estimates"],
        )


def ended(study: optuna.Study, estimate: float, *, failed: int = 0, complete: bool = True) -> None:
    number = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)}).number
    failures = Failures.among(["no JSON"] * failed + [""] * (4 - failed))
    rows, values = ({"em": 0.0},) * 4, (estimate if complete else 0.5,)
    finish(
        study, number, TrialResult(number, Candidate({}), rows, values, complete, {}, failures, (estimate,))
    )


def test_the_sampler_learns_the_estimate_and_never_that_failing_is_cheap() -> None:
    study = optuna.create_study(direction="maximize")
    ended(study, -300.0)
    ended(study, -450.25, complete=False)
    ended(study, 0.0, failed=4)
    ended(study, 0.0, failed=4, complete=False)
    ended(study, -100.0, failed=3)
    study.ask()
    seen = sampler_view(study.trials)
    assert [trial.state for trial in seen] == [*[TrialState.COMPLETE] * 5, TrialState.RUNNING]
    assert [trial.value for trial in seen[:5]] == [-300.0, -450.25, -450.25, -450.25, -100.0]
    assert [trial.params for trial in seen[:5]] == [trial.params for trial in study.trials[:5]]
    assert study.best_value == 0.0  # as told: whoever reads the journal sees what was measured
    assert study.trials[2].user_attrs[FAILURES]["n"] == 4
