"""The log of a study: a text file for people to read while the study runs, one line an event."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ragc.core.display import quantity
from ragc.optimizers.candidates.trial import TrialResult
from ragc.task.base import Task

LOG = "study.log"
"""The name of the log in the study's directory."""


class StudyLog:
    """Appends events to the log in `directory`. A log that cannot be written is ignored."""

    def __init__(self, directory: Path, task: Task) -> None:
        self.path, self._task = directory / LOG, task

    def begins(self, trials: int) -> None:
        """Logs that a process starts or resumes the study, which has `trials` trials so far."""
        task = self._task
        names = ", ".join(objective.name for objective in task.objectives)
        sizes = f"{len(task.train)} train, {len(task.dev)} dev, {len(task.test)} test questions"
        how = f"resumed after {trials} trials" if trials else "begun"
        self._write(
            [f"{how}: {task.recipe.program} for {names}; {sizes}; {task.trials} trials, seed {task.seed}"]
        )

    def log_batch(self, trials: Sequence[TrialResult], abouts: Sequence[str]) -> None:
        """Logs the results of a batch, one line a trial."""
        self._write(
            [
                f"trial {trial.number}: {self._values(trial)}"
                + ("" if trial.complete else f", after {quantity(len(trial.scores), 'question')}")
                + f"; {about}"
                + (f"; {trial.failures.text}" if trial.failures.n else "")
                for trial, about in zip(trials, abouts, strict=True)
            ]
        )

    def note(self, text: str) -> None:
        """Logs one line of free text."""
        self._write([text])

    def ends(self, chosen: TrialResult, trials: int, spent: str) -> None:
        """Logs the end of the search: the `chosen` trial, the number of trials and the spent budget."""
        ended = f"{spent} " if spent else ""
        searched = f"{trials - 1} trial{'' if trials == 2 else 's'} and the baseline"
        flattered = " on dev, where the winner's scores flatter it" if trials > 1 else ""
        wins = f"trial {chosen.number} wins: {self._values(chosen)}{flattered}"
        self._write([f"{ended}Searched {searched}; {wins}"])

    def _values(self, trial: TrialResult) -> str:
        pairs = zip(self._task.objectives, trial.values, strict=True)
        return ", ".join(
            f"{objective.metric.id} {objective.to_metric(value):.4g}" for objective, value in pairs
        )

    def _write(self, lines: Sequence[str]) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        try:
            with self.path.open("a", encoding="utf-8") as out:
                out.writelines(f"{now} {line}\n" for line in lines)
        except OSError:
            return
