"""How a study stands: read from what it keeps, while it runs or after it was cut off. Nothing is changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout

from ragc import metrics
from ragc.errors import ArtefactError, RagcError, StoreError
from ragc.masking import place, secrets
from ragc.optimizers.best_so_far import BEST
from ragc.optimizers.budget import FileLedger, StudyLedger
from ragc.optimizers.compile import study_directory
from ragc.optimizers.compiled import load
from ragc.optimizers.journal import LOG
from ragc.optimizers.shared_ledger import SharedLedger
from ragc.optimizers.sharing import mark, recipe_in, storage_address, store_address
from ragc.optimizers.storage import begun, opened
from ragc.optimizers.trials import Objective, Tried
from ragc.optimizers.winner import front, winner
from ragc.paths import cache_home
from ragc.recipe import Budget, Recipe

LINES = 5
"""How many lines of the log are shown."""

RUNNING, CUT, FINISHED = "running", "cut off", "finished"
_NEXT = {
    RUNNING: "A process is at work on it; ask again, or read its log.",
    CUT: "Run the same `ragc compile` command with --resume to go on.",
    FINISHED: "It is finished; the compiled program is where --out of `ragc compile` said.",
}


@dataclass(frozen=True, slots=True)
class StudyStatus:
    """How a study stands.

    `state` is running (a process holds the study), cut off or finished. `trials` counts: done (the baseline
    left out) of wanted, stopped early among those, running, stale (running when their process died; they are
    asked again on resume) and failed (asked and not told: drawn twice, or stale before). `best` is what would
    be compiled now, with its values, None before the baseline is done; `front` is empty with one objective.
    `budget` has what was spent and the limit of each kind, None for no limit. `workers` is where others join.
    """

    study: str
    state: str
    recipe: Mapping[str, Any]
    trials: Mapping[str, int]
    best: Mapping[str, Any] | None
    front: tuple[Mapping[str, Any], ...]
    budget: Mapping[str, Mapping[str, float | None]]
    workers: str
    log: tuple[str, ...]
    next: str

    def to_json(self) -> dict[str, Any]:
        """What `ragc study status --json` prints."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The same for people."""
        told, done = self.recipe, self.trials
        others = [f"{done[name]} {name}" for name in ("stopped", "running", "stale", "failed") if done[name]]
        found = [
            f"{self.study}: {self.state}",
            f"{told['program']} for {', '.join(told['objectives'])}, seed {told['seed']}",
            f"trials: {done['done']} of {done['wanted']}" + "".join(f", {text}" for text in others),
        ]
        if self.best is not None:
            found.append(f"best so far: {_told(self.best)}")
            if (where := Path(self.study) / BEST).exists():
                found.append(f"its compiled program: {where}")
        found += [f"on the front: {_told(trial)}" for trial in self.front]
        for name, amount in self.budget.items():
            limit = "" if amount["limit"] is None else f" of {amount['limit']:g}"
            found.append(f"{name}: {amount['spent']:g}{limit}")
        if self.workers:
            found.append(f"workers join with: ragc study worker {self.workers}")
        return [*found, *(f"  {line}" for line in self.log), self.next]


def _told(trial: Mapping[str, Any]) -> str:
    values = ", ".join(f"{name} {value:.4g}" for name, value in trial["values"].items())
    return f"trial {trial['trial']}, {values}, {trial['candidate']}"


def status(path: str | Path) -> StudyStatus:
    """How the study at `path` stands: the --out directory of a compile, or the study's own directory.

    Raises ArtefactError when there is none, StoreError when its storage cannot be read.
    """
    directory = find(path)
    recipe = recipe_in(directory)
    study = _study(directory, recipe)
    tried = _tried(study)
    objectives = [_objective(name) for name in recipe.search.objectives]
    pick = next(o for o in objectives if o.name == recipe.search.pick)
    state = _state(directory)
    best = winner(tried, objectives, pick) if tried else None
    beside = front(tried) if len(objectives) > 1 else []
    wanted = recipe.search.trials
    return StudyStatus(
        str(directory),
        state,
        {
            "program": recipe.program,
            "optimizer": recipe.search.optimizer,
            "objectives": list(recipe.search.objectives),
            "seed": recipe.seed,
        },
        _counts(
            study, tried, wanted if recipe.budget.trials is None else min(wanted, recipe.budget.trials), state
        ),
        _shown(best, objectives) if best else None,
        tuple(_shown(trial, objectives) for trial in beside),
        _budget(directory, recipe),
        mark(directory).get("workers", "") if state == RUNNING else "",
        _log(directory),
        _NEXT[state],
    )


def damage(directory: Path) -> str:
    """What is wrong with the files of the study in `directory`, "" for nothing. Nothing is changed.

    A study that a process holds is not looked at, and neither is what servers keep of it.
    """
    if _state(directory) == RUNNING:
        return ""
    try:
        if (directory / "recipe.toml").exists():
            recipe_in(directory)
        mark(directory)
        FileLedger(directory / "charges.jsonl", Budget()).close()
        _tried(begun(directory))
        if (directory / BEST).exists():
            load(directory / BEST)
        if (trials := directory / "trials.json").exists():
            json.loads(trials.read_text("utf-8"))
    except RagcError as error:
        return _printable(" ".join(str(error).split()))
    except (OSError, ValueError, RecursionError) as error:
        return f"trials.json cannot be read ({error}); compile again, which replays what was answered."
    return ""


def _printable(line: str) -> str:
    """`line` with a question mark for each sign that a terminal would act on."""
    return "".join(sign if sign.isprintable() else "?" for sign in line)


def find(path: str | Path) -> Path:
    """The directory of the study at `path`, as `status` takes it. Raises ArtefactError."""
    for directory in (Path(path), study_directory(Path(path))):
        if (directory / "recipe.toml").is_file() and not (directory / "program.json").exists():
            return directory
    shown = place(str(path)) if secrets(str(path)) else path
    raise ArtefactError(
        f"No study is known at {shown}; name the --out directory of a compile on this machine, or a folder "
        f"in {cache_home() / 'studies'}."
    )


def _state(directory: Path) -> str:
    lock = Path(f"{directory}.lock")
    if lock.exists():
        try:
            with FileLock(lock, timeout=0):
                pass
        except Timeout:
            return RUNNING
    return FINISHED if (directory / "trials.json").exists() else CUT


def _study(directory: Path, recipe: Recipe) -> optuna.Study | None:
    """The study as Optuna keeps it; None before its first trial and for an optimizer that has none."""
    if address := storage_address(recipe.study):
        name = mark(directory).get("name")
        return opened(address, name) if name else None
    return begun(directory)


def _tried(study: optuna.Study | None) -> list[Tried]:
    kept = study.user_attrs if study else {}
    batches = sorted(name for name in kept if name.startswith("batch:"))
    try:
        return [Tried.of(value) for name in batches for value in kept[name]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"The study holds something that is no record of a trial ({error!r}); begin anew without "
            "--resume, which replays what was answered."
        ) from error


def _counts(study: optuna.Study | None, tried: Sequence[Tried], wanted: int, state: str) -> dict[str, int]:
    trials = study.get_trials(deepcopy=False) if study else []
    states = Counter(trial.state for trial in trials)
    told = {trial.number for trial in tried}
    flying = sum(t.state == optuna.trial.TrialState.RUNNING and t.number not in told for t in trials)
    return {
        "done": max(0, len(tried) - 1),
        "wanted": wanted,
        "stopped": sum(not trial.complete for trial in tried),
        "running": flying if state == RUNNING else 0,
        "stale": 0 if state == RUNNING else flying,
        "failed": states[optuna.trial.TrialState.FAIL],
    }


def _objective(name: str) -> Objective:
    return Objective(metrics.get(name.removeprefix("-")), -1 if name.startswith("-") else 1)


def _shown(trial: Tried, objectives: Sequence[Objective]) -> dict[str, Any]:
    pairs = zip(objectives, trial.values, strict=True)
    return {
        "trial": trial.number,
        "values": {objective.metric.id: objective.sign * value for objective, value in pairs},
        "candidate": trial.candidate.to_json(),
    }


def _budget(directory: Path, recipe: Recipe) -> dict[str, dict[str, float | None]]:
    limits, ledger = recipe.budget, _ledger(directory, recipe)
    spent = {"lm_calls": ledger.calls, "tokens": ledger.tokens, "usd": ledger.usd, "minutes": ledger.minutes}
    ledger.close()
    return {
        name: {"spent": round(amount, 6), "limit": getattr(limits, name)} for name, amount in spent.items()
    }


def _ledger(directory: Path, recipe: Recipe) -> StudyLedger:
    name, address = mark(directory).get("name"), store_address(recipe.study)
    if recipe.study.workers and name and address:
        return SharedLedger(address, name, recipe.budget)
    return FileLedger(directory / "charges.jsonl", recipe.budget)


def _log(directory: Path) -> tuple[str, ...]:
    path = directory / LOG
    try:
        lines = path.read_text("utf-8", "replace").splitlines()[-LINES:]
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (f"the log cannot be read: {error.strerror or error}",)
    return tuple(map(_printable, lines))
