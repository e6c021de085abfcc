"""A program whose replies cannot be read: it never wins, and whoever shows a score says that it failed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragc.compiled.base import load
from ragc.errors import NothingAnswered
from ragc.optimizers.search.storage import study_directory
from ragc.optimizers.status import status
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.examples import cases, thorough
from tests.optimizers.colours import Run, colour_of, identical
from tests.support.progress import Notes

RUBBISH = "%%%"
THREE = (
    "search.demos=0",
    "search.trials=9",
    "search.batch=3",
    "program=vanilla",
    'search.programs=["no_retrieval", "cot"]',
)


def program_of(request: ChatRequest) -> str:
    """Which of the three programs asks."""
    if any("It was made in" in message.content for message in request.messages):
        return "vanilla"
    return "cot" if "reason" in json.dumps(request.schema) else "no_retrieval"


def broken(*programs: str, right: bool = False) -> Callable[[ChatRequest], Any]:
    """Rubbish to `programs`; to others an answer, the right one where it can be known and it is to be so."""

    def reply(request: ChatRequest) -> Any:
        if program_of(request) in programs:
            return RUBBISH
        answer = colour_of(request) if right else "nothing of the kind"
        names = (request.schema or {}).get("properties", {"answer": None})
        return dict.fromkeys(names, "because") | {"answer": answer}

    return reply


class Lines(Notes):
    """Keeps what is told of trials and noted."""

    def __init__(self) -> None:
        super().__init__()
        self.trials: dict[int, tuple[float, float, str]] = {}

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """Kept."""
        self.trials[index] = score, best, what


def trials_of(out: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((study_directory(out) / "trials.json").read_text())
    return records


@thorough
@pytest.mark.parametrize(
    ("failing", "objectives", "seed"),
    cases(  # of five each program fails, under each of the objectives
        [
            (failing, objectives, 4 * index + seed)
            for index, failing in enumerate(("vanilla", "no_retrieval", "cot"))
            for seed, objectives in enumerate(
                ('["em"]', '["em", "-tokens"]', '["-tokens"]', '["-lm_calls", "em"]')
            )
        ],
        5,
    ),
)
def test_a_program_that_gets_rubbish_never_wins(
    failing: str, objectives: str, seed: int, run: Run, folder: Path
) -> None:
    """All others answer wrong: their em is 0 too, and failing may be cheaper than answering."""
    sets = (*THREE, f"search.objectives={objectives}", f"seed={seed}")
    result = run(sets=sets, target=ScriptedTarget(broken(failing)))
    chosen = load(folder / "out")
    assert chosen.state.method != failing
    assert result.failures["dev"]["winner"].n == result.failures["test"]["winner"].n == 0
    tried = trials_of(folder / "out")
    of = {trial["number"]: trial["candidate"]["program"] for trial in tried}
    seen = [trial for trial in tried if of[trial["number"]] == failing]
    assert seen
    assert all(trial["failures"]["n"] == len(trial["scores"]) for trial in seen)
    assert not any(trial["failures"]["n"] for trial in tried if trial not in seen)
    search = chosen.provenance["search"]
    assert not any(of[entry["trial"]] == failing for entry in search.get("front", ()))
    assert load(study_directory(folder / "out") / "best").state.method != failing


def test_early_stopping_does_not_favour_what_fails_cheaply(run: Run, folder: Path) -> None:
    """The baseline fails for nothing; whoever answers at a price is not stopped for that price."""
    sets = (*THREE, 'search.objectives=["-tokens"]')
    run(sets=sets, target=ScriptedTarget(broken("vanilla")))
    tried = trials_of(folder / "out")
    first = next(trial for trial in tried if trial["candidate"]["program"] != "vanilla")
    assert first["complete"]
    assert first["failures"]["n"] == 0


def test_failures_stand_beside_every_score(run: Run, folder: Path) -> None:
    lines = Lines()
    sets = (*THREE, "program=no_retrieval", 'search.programs=["vanilla", "cot"]')
    result = run(sets=sets, target=ScriptedTarget(broken("no_retrieval", right=True)), progress=lines)
    assert result.verdict == "better"
    score, best, what = lines.trials[0]
    assert (score, best) == (0, 0)
    text = r"20 of 20 questions failed: A reply is no JSON"
    assert re.match(rf"baseline; {text}", what)
    assert not any("failed" in note for score, _, note in lines.trials.values() if score)
    assert result.failure_lines[0].startswith("baseline on dev: 20 of 20 questions failed: A reply")
    assert result.failure_lines[1].startswith("baseline on test: 25 of 25 questions failed: A reply")
    assert len(result.failure_lines) == 2
    failures = load(folder / "out").provenance["failures"]
    assert failures == result.to_json()["failures"]
    assert failures["dev"]["baseline"]["n"] == 20
    assert failures["test"]["winner"] == {"n": 0, "of": 25, "reasons": []}
    assert (failures["test"]["baseline"]["reasons"][0]["n"], failures["test"]["baseline"]["of"]) == (25, 25)
    report = status(folder / "out")
    assert report.failing[0] == {"trial": 0, "failures": failures["dev"]["baseline"]}
    assert any(re.search(f"trial 0: {text}", line) for line in report.lines())
    log = (study_directory(folder / "out") / "study.log").read_text("utf-8")
    assert re.search(rf"trial 0: em 0; baseline; {text}", log)
    run("again", sets=sets, target=ScriptedTarget([]))
    assert identical(folder / "out", folder / "again")


def test_where_nothing_is_answered_nothing_is_compiled_and_all_is_kept(run: Run, folder: Path) -> None:
    target = ScriptedTarget(broken("vanilla", "no_retrieval", "cot"))
    lines = Lines()
    with pytest.raises(NothingAnswered, match=r"no dev question was answered by each of the 10 programs"):
        run(sets=THREE, target=target, progress=lines)
    assert "20 of 20 questions failed" in lines.trials[0][2]
    assert not (folder / "out").exists()
    report = status(folder / "out")
    assert report.best is not None
    assert report.best["failures"]["n"] == 20
    assert "No trial so far answered any question" in report.lines()[-1]
    assert any("20 of 20 questions failed" in line for line in report.lines())
    sent = len(target.requests)
    with pytest.raises(NothingAnswered, match="20 of 20 questions failed: A reply"):
        run(sets=THREE, target=target, resume=True)
    assert len(target.requests) == sent


def test_an_unreadable_test_split_is_no_verdict_on_either(run: Run, folder: Path) -> None:
    dev = {row["question"] for row in map(json.loads, (folder / "questions.jsonl").read_text().splitlines())
           if row["split"] == "dev"}  # fmt: skip

    def reply(request: ChatRequest) -> Any:
        question = next((text for text in dev if text in request.messages[-1].content), "")
        return {"answer": colour_of(request)} if question else RUBBISH

    result = run(sets=("search.demos=0",), target=ScriptedTarget(reply))
    assert result.verdict.startswith("nothing answered: A reply is no JSON")


@pytest.mark.parametrize(("optimizer", "answered"), [("random", ""), ("random", "number20?")])
def test_a_peer_that_chose_what_hardly_answers_gives_the_baseline(
    optimizer: str, answered: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scripted target answers prompts without demonstrations only, or one question beside."""

    def reply(request: ChatRequest) -> Any:
        readable = len(request.messages) == 2 or (answered and answered in request.messages[-1].content)
        return {"answer": "red"} if readable else RUBBISH

    from ragc.optimizers.external import optimize

    chosen = optimize.ExternalResult.program

    async def shown(self: Any, task: Any) -> Any:
        program = await chosen(self, task)
        for predictor in program.predictors():
            predictor.demos = [{"question": "Why?", "passages": ["[1] It is."], "answer": "So."}]
        return program

    monkeypatch.setattr(optimize.ExternalResult, "program", shown)
    sets = (f'search.optimizer="{optimizer}"', "search.knobs=[]", "search.trials=2")
    lines = Lines()
    result = run(sets=sets, target=ScriptedTarget(reply), progress=lines)
    failed = 19 if answered else 20
    assert any(f"; {failed} of 20 questions failed: A reply" in what for _, _, what in lines.trials.values())
    assert "failed" not in lines.trials[0][2]
    assert result.failures["dev"]["winner"].n == 0
    assert any("the baseline is kept" in note for note in result.program.provenance["search"]["notes"])


def test_thresholds_of_a_program_that_answers_nothing_are_not_fitted(run: Run, folder: Path) -> None:
    """Under `-tokens` the failing program would be the cheapest, and so the one to calibrate."""
    sets = (
        "search.demos=0",
        "search.trials=6",
        'search.knobs=["top_k", "retrieve_threshold"]',
        'search.programs=["rqrag"]',
        'search.objectives=["-tokens"]',
    )

    def reply(request: ChatRequest) -> Any:
        return {"answer": "red"} if "[1]" in request.messages[-1].content else RUBBISH

    lines = Lines()
    run(sets=sets, target=ScriptedTarget(reply), progress=lines)
    chosen = load(folder / "out")
    assert chosen.state.method == "vanilla"
    assert any("questions failed" in what for _, _, what in lines.trials.values())
    assert "calibration" not in chosen.provenance["search"]
