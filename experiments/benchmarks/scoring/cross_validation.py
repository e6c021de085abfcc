"""Cross-validation in place of a test split, by simulated studies: coverage, false claims, and new answers.

    PYTHONPATH=src:. python experiments/benchmarks/scoring/cross_validation.py [RUNS] [chosen|studied]...

A table has 12 settings and 20, 40 or 60 questions in 4 to 20 documents of unequal sizes (Dirichlet). A score
is 0 or 1 by a latent normal value: difficulty of document and question, an effect of each setting on each
document, and a rest. The true means are .45 for the baseline and, for the others,

    null     .45            better   six of them .60
    worse    .37            spread   .45 with a standard deviation of .07

Folds are those of `ragc compile`, and each question is answered by what is chosen without its fold.

    chosen    every setting answers all questions, and `select` chooses
    studied   ragc's own study searches, on the tables of `search/choosing/table_study.py`; also the share of
              the answers of a fold's search that the searches before had not asked

The truth is the mean true difference of the programs that answered (the procedure), and for one column that
of the program that ships. `paired` is the verdict of `ragc compile`; beside it intervals by group: `t`
(paired t, linearised), and both widened as Nadeau and Bengio (2003) do for the overlap of the folds'
questions (`nb`).
With 1000 runs the simulation error of a coverage of .93 is .8 points.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from experiments.benchmarks.search.choosing import table_study
from experiments.benchmarks.search.choosing.worlds import World
from ragc.corpora.files.splits import fold
from ragc.metrics.stats.groups import Groups
from ragc.metrics.stats.resample import paired, verdict
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.selection import select
from ragc.recipe.models import SelectionRule
from ragc.records import Question
from ragc.task.base import objective_of

Array = np.ndarray[Any, np.dtype[np.float64]]
Columns = np.ndarray[Any, np.dtype[np.intp]]

QUESTIONS, DOCUMENTS = (20, 40, 60), (4, 6, 8, 12, 20)
KINDS = ("null", "better", "spread", "worse")
SETTINGS = [{"top_k": k, "chunk": c} for k, c in product((1, 2, 3, 4), (100, 200, 300))]
BASE = 0.45
_SD_DOCUMENT, _SD_QUESTION, _SD_EFFECT, _SD_REST = 0.7, 1.0, 0.6, 0.7


@dataclass(frozen=True)
class Table:
    """Scores, shape (settings, questions), true means of the settings, and the document of each question."""

    scores: Array
    means: Array
    labels: tuple[str, ...]
    questions: tuple[Question, ...] = field(init=False)

    def __post_init__(self) -> None:
        listed = [
            Question(f"q{at}", f"Question {at}?", ("yes",), group=label)
            for at, label in enumerate(self.labels)
        ]
        object.__setattr__(self, "questions", tuple(listed))

    @classmethod
    def draw(cls, rng: np.random.Generator, questions: int, documents: int, kind: str) -> Table:
        """A table of one of `KINDS`."""
        gains = np.zeros(len(SETTINGS))
        gains[1:] = -0.08 if kind == "worse" else 0
        gains[6:] += 0.15 if kind == "better" else 0
        if kind == "spread":
            gains[1:] = 0.07 * rng.standard_normal(len(SETTINGS) - 1)
        means = np.clip(BASE + gains, 0.01, 0.99)
        sizes = np.maximum(1, np.round(rng.dirichlet(np.full(documents, 4.0)) * questions)).astype(int)
        while sizes.sum() != questions:
            sizes[sizes.argmax() if sizes.sum() > questions else sizes.argmin()] += (
                -1 if sizes.sum() > questions else 1
            )
        of = np.repeat(np.arange(documents), sizes)
        hard = _SD_DOCUMENT * rng.standard_normal(documents)[of] + _SD_QUESTION * rng.standard_normal(
            questions
        )
        effect = _SD_EFFECT * rng.standard_normal((len(means), documents))[:, of]
        latent = hard + effect + _SD_REST * rng.standard_normal((len(means), questions))
        spread = np.sqrt(_SD_DOCUMENT**2 + _SD_QUESTION**2 + _SD_EFFECT**2 + _SD_REST**2)
        scores = (latent > stats.norm.ppf(1 - means)[:, None] * spread).astype(float)
        return cls(scores, means, tuple(f"d{code}" for code in of))

    def part(self, columns: Columns) -> Table:
        """The table of some of the questions."""
        return replace(
            self, scores=self.scores[:, columns], labels=tuple(np.array(self.labels)[columns].tolist())
        )


Chooser = Callable[[Table, "Asked"], int]


@dataclass
class Asked:
    """Which answers searches have had, of all: those before, and the numbers of the latest one."""

    known: np.ndarray[Any, np.dtype[np.bool_]]
    columns: Columns
    new: list[float] = field(default_factory=list)


def by_model(table: Table, answers: Asked) -> int:
    """What `select` chooses when every setting has answered all questions."""
    del answers
    order = np.argsort(np.array(table.labels), kind="stable")
    sizes = tuple(np.unique(np.array(table.labels), return_counts=True)[1].tolist())
    objective = objective_of("f1")
    trials = [
        TrialResult(
            at,
            Candidate(knobs=SETTINGS[at]),
            tuple({"f1": float(score)} for score in table.scores[at, order]),
            (float(table.scores[at].mean()),),
            True,
            {},
            groups=sizes,
        )
        for at in range(len(SETTINGS))
    ]
    return select(trials, SelectionRule.by(objective)).number


def by_study(table: Table, answers: Asked) -> int:
    """What ragc's own study chooses, with as many trials as there are other settings."""
    world = World(SETTINGS, 0, table.scores, table.means, budget=10**6)
    with tempfile.TemporaryDirectory() as name:
        task = table_study.table_task(world, 0, Path(name))
        task = replace(task, splits={"dev": table.questions})
        study = asyncio.run(table_study._studied(task, Path(name)))
        chosen = task.setting_of(study.select(study.trials, "").candidate)
    seen = np.zeros_like(answers.known)
    seen[:, answers.columns] = world.seen
    answers.new.append(float((seen & ~answers.known).sum() / seen.sum()))
    answers.known |= seen
    return chosen


@dataclass(frozen=True)
class Study:
    """One cross-validated study: scores of baseline and of the programs in its place, and the truths."""

    before: Array
    after: Array
    labels: tuple[str, ...]
    folds: int
    truth: float
    ships: float
    new: float

    @classmethod
    def of(cls, table: Table, choose: Chooser) -> Study:
        """The study of `table`."""
        every = np.arange(len(table.labels))
        answers = Asked(np.zeros(table.scores.shape, dtype=bool), every)
        shipped = choose(table, answers)
        after, truth = np.empty(len(every)), 0.0
        folds = fold(table.questions, 0, taught=False)
        for ids in folds:
            inside = np.array([question.id in ids for question in table.questions])
            answers.columns = every[~inside]
            chosen = choose(table.part(answers.columns), answers)
            after[inside] = table.scores[chosen, inside]
            truth += inside.mean() * (table.means[chosen] - table.means[0])
        ships = float(table.means[shipped] - table.means[0])
        new = float(np.mean(answers.new[1:])) if answers.new else 0.0
        return cls(table.scores[0], after, table.labels, len(folds), float(truth), ships, new)

    def intervals(self) -> Iterator[tuple[str, float, float, bool]]:
        """Yields the name, the ends and whether "better" is said, of each way to compare."""
        result = paired(self.before.tolist(), self.after.tolist(), seed=0, groups=self.labels)
        wider = np.sqrt(1 + self.folds / (self.folds - 1))
        yield "paired", result.low, result.high, verdict(result) == "better"
        low = result.diff - wider * (result.diff - result.low)
        yield "paired nb", low, result.diff + wider * (result.high - result.diff), low > 0
        gaps = self.after - self.before
        groups = Groups.of(self.labels)
        sums, sizes = (groups.sums(gaps), groups.sizes) if groups else (gaps, np.ones(len(gaps)))
        n = len(sums)
        error = np.sqrt(n / (n - 1) * ((sums - gaps.mean() * sizes) ** 2).sum()) / len(gaps)
        half = float(stats.t.ppf(0.975, n - 1) * error)
        for name, width in (("t", half), ("t nb", half * wider)):
            yield name, gaps.mean() - width, gaps.mean() + width, gaps.mean() - width > 1e-9


def cell(runs: int, questions: int, documents: int, kind: str, choose: Chooser) -> Mapping[str, Any]:
    """The figures of `runs` studies of one kind."""
    counts: dict[str, Array] = {}
    changed = ships = new = 0.0
    for run in range(runs):
        rng = np.random.default_rng([questions, documents, KINDS.index(kind), run])
        study = Study.of(Table.draw(rng, questions, documents, kind), choose)
        changed += bool((study.after != study.before).any())
        new += study.new
        for name, low, high, better in study.intervals():
            covered = low - 1e-9 <= study.truth <= high + 1e-9
            false = better and study.truth <= 1e-9
            counts.setdefault(name, np.zeros(4))
            counts[name] += [covered, better, false, high - low]
            if name == "paired":
                ships += low - 1e-9 <= study.ships <= high + 1e-9
    return {
        "changed": changed / runs,
        "ships": ships / runs,
        "new": new / runs,
        **{name: amounts / runs for name, amounts in counts.items()},
    }


def line(figures: Mapping[str, Any]) -> str:
    """The figures of a cell in one line."""
    ways = [
        f"{name} {c:.3f} {b:.3f} {f:.3f} {w:.2f}"
        for name, values in figures.items()
        if isinstance(values, np.ndarray)
        for c, b, f, w in [values]
    ]
    new = f", new answers {figures['new']:.2f}" if figures["new"] else ""
    return f"changed {figures['changed']:.2f}, ships {figures['ships']:.3f}{new} | " + " | ".join(ways)


def main() -> None:
    """Prints the parts that are named, all by default."""
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    parts = [word for word in sys.argv[1:] if not word.isdigit()] or ["chosen", "studied"]
    runs = numbers[0] if numbers else 1000
    print("way: coverage, better, false better, mean width")
    for part in parts:
        cells = product(QUESTIONS, DOCUMENTS, KINDS) if part == "chosen" else product((40,), (8,), KINDS)
        for questions, documents, kind in cells:
            choose = by_model if part == "chosen" else by_study
            figures = cell(runs, questions, documents, kind, choose)
            print(f"{part} {questions} in {documents:2} {kind:6} {line(figures)}", flush=True)


if __name__ == "__main__":
    main()
