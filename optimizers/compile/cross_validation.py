"""Cross-validation in place of a test split: each question is answered by a program chosen without it.

    all questions          ─► search ─► the compiled program
    all but those of fold 1 ─► search ─► a program that answers fold 1, as the baseline does
    ...

The verdict is therefore on programs that are chosen this way, from somewhat fewer questions, and not on the
compiled program itself. The searches share store, budget and seed: what the first asked is replayed. Each
keeps its study in a folder of its own, so that a resumed compile goes on in the fold where it ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragc.compiled.base import state_of
from ragc.core.progress import Progress
from ragc.optimizers.compile.searches import open_search
from ragc.optimizers.compile.searches.base import Selected
from ragc.optimizers.search.directory import fold_directory
from ragc.optimizers.search.log import StudyLog
from ragc.records import Question
from ragc.task.answering import Row
from ragc.task.base import Task
from ragc.task.folds import fold_tasks, held_calls, questions_of
from ragc.task.run import MeasuredRun


@dataclass(frozen=True, slots=True)
class FoldAnswers:
    """All questions, answered by "baseline" and "winner" of the searches without them, in one order.

    `facts` say for each fold how many questions it has, what was chosen, and which budget ended the search.
    `costs` are the counters of the parts of the searches.
    """

    rows: Mapping[str, tuple[Row, ...]]
    facts: Sequence[Mapping[str, Any]]
    costs: Sequence[Mapping[str, float]]


async def answer_folds(run: MeasuredRun, directory: Path) -> FoldAnswers:
    """Searches without each fold of the run's task, and answers the questions of the fold.

    `directory` is that of the study. Raises BudgetExhausted, and NothingAnswered if no program answered any
    question of a search.
    """
    rows: dict[str, list[Row]] = {"baseline": [], "winner": []}
    facts: list[Mapping[str, Any]] = []
    costs: list[Mapping[str, float]] = []
    tasks = fold_tasks(run.task)
    for number, (task, questions) in enumerate(tasks, start=1):
        sentence = f"fold {number} of {len(tasks)}: the search without {len(questions)} questions"
        run.progress.note(sentence)
        StudyLog(directory, run.task).note(sentence)
        selected = await _choose(task, questions, fold_directory(directory, number), run.limit, run.progress)
        for name, program in (("baseline", selected.baseline), ("winner", selected.best)):
            run.progress.phase(f"{name} on fold {number}", len(questions))
            rows[name] += await run.answer(program, questions)
        facts.append(_facts_of(selected, questions))
        costs += selected.costs
    task.budget.hold(0)
    order = {question.id: at for at, question in enumerate(questions_of(run.task))}
    ordered = {
        name: tuple(sorted(answered, key=lambda row: order[row.question.id]))
        for name, answered in rows.items()
    }
    return FoldAnswers(ordered, facts, costs)


async def _choose(
    task: Task, fold: Sequence[Question], directory: Path, limit: asyncio.Semaphore, progress: Progress
) -> Selected:
    """Returns what the search of `task` chooses. The cost of later searches and of `fold` is held back."""
    async with open_search(task, directory, limit, progress) as search:
        first = await search.baseline()
        each = task.price_calls(round(first.lm_calls * len(first.scores)))
        later = held_calls(task, each)
        held = later + first.calls_on(len(fold))
        task.budget.hold(held)
        selected = await search.select(await search.search(held))
    task.budget.hold(later)
    return selected


def _facts_of(selected: Selected, questions: Sequence[Question]) -> dict[str, Any]:
    facts = {
        name: selected.facts[name] for name in ("candidate", "trials", "budget") if name in selected.facts
    }
    is_baseline = state_of(selected.best) == state_of(selected.baseline)
    return {"questions": len(questions), "baseline_kept": is_baseline, **facts}
