"""A task: a recipe with its questions read and its sources and targets built."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ragc import metrics
from ragc.core.digest import digest
from ragc.core.extras import __version__
from ragc.core.progress import Progress
from ragc.corpora import SOURCES
from ragc.corpora.sources.base import Source
from ragc.corpora.sources.options import build as build_source
from ragc.corpora.storage.corpus import Corpus
from ragc.errors import UsageError
from ragc.metrics import Metric
from ragc.metrics.base import Objective, Scorer, Scores, families
from ragc.programs import Method, method
from ragc.programs.base import RagProgram
from ragc.programs.knobs import Value
from ragc.programs.runtime import Runtime
from ragc.recipe import Budget, Recipe
from ragc.recipe.values import CALLERS_METRIC, CROSS, OWN_OPTIMIZER
from ragc.records import Question
from ragc.store.calls import CallStore, open_store
from ragc.targets import TARGETS
from ragc.targets.base import Target
from ragc.targets.options import TargetSpec
from ragc.targets.prices import check_priced
from ragc.targets.reasoning import check_reasoning, reasoning_of
from ragc.task.baseline import baseline_knobs, demo_kinds, fixed_knobs
from ragc.task.budget import BudgetFile
from ragc.task.passages import CorpusIds, OtherDomain, RecipePassages, searching
from ragc.task.requirements import require

if TYPE_CHECKING:
    from ragc.metrics.stats.resample import Interval
    from ragc.recipe.models import SelectionRule

DEMO_THRESHOLD = 0.75
"""The least score of a train question whose answer becomes a demonstration. Without one (None) that is any
score above the least of all train questions."""

CALL_COST_RATIO = 1.25
"""The cost of a call of the study over one of the baseline's on dev, where demonstrations or instructions may
lengthen prompts: half of the calls on test are the winner's, taken to cost half as much again.
"""

THINKING_FACT = "thinking_tokens"
"""The fact with a target's room for thoughts, where it has one."""


@dataclass(frozen=True)
class Task:
    """The inputs of a study.

    `instructions` replace those of the recipe's own program, by predictor. `folds` are the ids of the
    questions of each fold where questions are cross-validated. `until` is the share of the budget that is
    spent when the search of this task ends.
    """

    recipe: Recipe
    runtime: Runtime
    budget: BudgetFile
    splits: Mapping[str, tuple[Question, ...]]
    scorer: Scorer
    objectives: tuple[Objective, ...]
    demo_threshold: float | None = DEMO_THRESHOLD
    facts: Mapping[str, Any] = field(default_factory=dict)
    other: OtherDomain | None = None
    instructions: Mapping[str, str] = field(default_factory=dict)
    folds: tuple[frozenset[str], ...] = ()
    until: float = 1.0

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The reported and the optimised metrics, without duplicates."""
        return self.scorer.metrics

    @property
    def method(self) -> Method:
        """The recipe's own program."""
        return self.recipe.method

    def method_of(self, program: str) -> Method:
        """Returns the program of a candidate; "" is the recipe's own."""
        return method(program) if program else self.recipe.method

    @property
    def pick(self) -> Objective:
        """The objective that selects among trials of the Pareto front."""
        return self.rule.pick

    @property
    def rule(self) -> SelectionRule:
        """The rule that chooses among trials."""
        from ragc.recipe.models import SelectionRule

        return SelectionRule.of(self.recipe.search, self.objectives)

    @property
    def tested(self) -> int:
        """The most programs that answer the test questions: the baseline, and the winner or a front."""
        return 1 + max(1, self.recipe.search.front)

    @property
    def train(self) -> tuple[Question, ...]:
        """The questions that demonstrations come from."""
        return self.splits.get("train", ())

    @property
    def dev(self) -> tuple[Question, ...]:
        """The questions that candidates are compared on."""
        return self.splits.get("dev", ())

    @property
    def test(self) -> tuple[Question, ...]:
        """The questions that only the baseline and the winner answer."""
        return self.splits.get("test", ())

    @property
    def planned_budget(self) -> Budget:
        """The budget that is spent at most when the search of this task ends."""
        budget = self.recipe.budget
        if self.until == 1:
            return budget
        limits = {name: limit for name in ("lm_calls", "tokens", "usd") if (limit := getattr(budget, name))}
        parts = {name: type(limit)(limit * self.until) for name, limit in limits.items()}
        return budget.replace(**parts)

    def answers_left(self, cost: Mapping[str, float], answers: int) -> float:
        """Returns how many answers the planned budget still allows where `answers` have the counters `cost`.

        Infinite without a limit on calls, tokens or dollars.
        """
        limits, spent = self.planned_budget, self.budget.spent
        tokens = cost.get("prompt_tokens", 0) + cost.get("completion_tokens", 0)
        rooms = [
            (limits.lm_calls, spent.calls, cost.get("lm_calls", 0)),
            (limits.tokens, spent.tokens, tokens),
            (limits.usd, spent.usd, cost.get("usd", 0)),
        ]
        left = [(limit - used) * answers / each for limit, used, each in rooms if limit is not None and each]
        return min(left, default=math.inf)

    def price_calls(self, calls: int) -> dict[str, float]:
        """Sets what a held-back call costs by the first `calls` of the study; see `BudgetFile.price_held`."""
        longer = self.recipe.search.demos or self.recipe.search.instructions
        return self.budget.price_held(calls, CALL_COST_RATIO if longer else 1.0)

    @property
    def seed(self) -> int:
        """The seed of all randomness."""
        return self.recipe.seed

    @property
    def trials(self) -> int:
        """The number of trials, without the baseline."""
        limit = self.recipe.budget.trials
        return self.recipe.search.trials if limit is None else min(limit, self.recipe.search.trials)

    @property
    def batch(self) -> int:
        """The number of trials in a batch."""
        return self.recipe.search.batch

    @property
    def looks(self) -> int:
        """The most looks of a round, decided together."""
        return min(self.recipe.search.looks, self.recipe.search.batch)

    @property
    def demo_metric(self) -> Metric:
        """The metric that qualifies demonstrations: the first objective that is a share, else the first
        share.
        """
        shares = [o.metric for o in self.objectives if o.sign > 0] + list(self.metrics)
        return next((m for m in shares if m.unit in ("share", "score")), shares[0])

    @property
    def baseline_knobs(self) -> dict[str, Value]:
        """The knobs of the baseline of the recipe's own program."""
        return baseline_knobs(self.recipe, self.method)

    @property
    def note(self) -> str:
        """Returns what the study cannot show by its sizes, before anything is sent; "" for nothing."""
        from ragc.metrics.stats.power import small_data_note

        chosen_by = (*self.train, *self.dev) if self.folds else self.dev
        sizes = {
            name: _group_sizes(questions) for name, questions in (("dev", chosen_by), ("test", self.test))
        }
        small = small_data_note(sizes["dev"], sizes["test"], folded=bool(self.folds))
        lines = [folds_note(self), small, groups_note(self.facts)]
        lines += [
            f"{role} ({target.name}) has {tokens:,} tokens for reasoning in every call."
            for role, target in self.runtime.targets.items()
            if (tokens := reasoning_of(target))
        ]
        if self.recipe.search.optimizer == OWN_OPTIMIZER and self.recipe.searches_nothing:
            lines.insert(0, "The recipe searches nothing, so its program is compiled as it is.")
        return " ".join(filter(None, lines))

    def summarize(self, scores: Sequence[Scores], groups: Sequence[str] | None = None) -> dict[str, Interval]:
        """Returns the interval of each metric that applies to any question; empty for no questions.

        `groups` are those of the questions; without them questions are independent.
        """
        if not scores:
            return {}
        labels = groups if groups and any(groups) else None
        by_metric = {metric.id: _interval(metric, scores, self.seed, labels) for metric in self.metrics}
        return {name: interval for name, interval in by_metric.items() if interval is not None}

    async def fit(self, program: RagProgram) -> None:
        """Fits `program` to the train questions beyond demonstrations, such as labels of nearest neighbours.

        It is scored with the metric for demonstrations. Does nothing without train questions. Repeating it
        sends nothing: the calls are replayed from the store.
        """
        if self.train:
            await program.fit(self.train, self.scorer.only([self.demo_metric]))

    @property
    def in_flight(self) -> int:
        """The number of questions answered concurrently."""
        if self.recipe.concurrency is not None:
            return self.recipe.concurrency
        return max((target.concurrency for target in self.runtime.targets.values()), default=1)


def prepare(
    recipe: Recipe,
    *,
    store: CallStore | None = None,
    budget: BudgetFile | None = None,
    questions: bool = True,
    targets: Mapping[str, Target] | None = None,
    progress: Progress | None = None,
    answering: bool = True,
) -> Task:
    """Builds the task of `recipe`: files are read and checked, nothing is sent and no model is loaded.

    `budget` is in memory unless it is given. With `questions` False all splits are empty and nothing is
    scored, for answering questions outside the data. `targets` replace those of the recipe. `progress` shows
    the first conversion of a large corpus to disk. `answering` False skips the check of what targets and
    metrics need on this machine. Raises RecipeError with everything that this machine lacks, DataError and
    UsageError.
    """
    store = store or open_store()
    here = answering and targets is None
    require(recipe, targets=here, metrics=here and questions, study=False)
    if questions:
        from ragc.task.data import RecipeData

        data: RecipePassages = RecipeData(recipe, progress)
    else:
        data = RecipePassages(recipe, progress)
    corpora = {name: data.corpus(spec) for name, spec in searching(recipe).items()}
    splits = data.splits(CorpusIds(corpora.values()))
    by_role = dict(targets or _build_targets(recipe))
    check_reasoning(by_role.values())
    budget = budget or BudgetFile(None, recipe.budget)
    runtime = Runtime(by_role, _build_sources(recipe, corpora, store), store=store, budget=budget)
    for program in recipe.methods:
        runtime.require(program)
    objectives = tuple(map(objective_of, recipe.search.objectives))
    ids = _scored_metrics(recipe, objectives) if questions else ()
    scorer = scorer_of([metrics.get(name, load=True) for name in ids], recipe, runtime, store)
    other = data.other_domain(runtime, splits, store)
    all_splits = splits | ({"cross_domain": other.questions} if other else {})
    facts = facts_of(recipe.seed, all_splits, runtime.sources, by_role)
    facts |= data.notes | _judge_facts(scorer) | _prompt_facts(recipe)
    folds = data.folds
    task = Task(recipe, runtime, budget, splits, scorer, objectives, facts=facts, other=other, folds=folds)
    _check_answers(task)
    _check_train(task, questions=questions)
    check_prices(task)
    return task


def _scored_metrics(recipe: Recipe, objectives: Iterable[Objective]) -> Iterable[str]:
    """Returns the ids of the reported metrics, the `objectives`, and those of limits and `search.pick`."""
    pick = recipe.search.pick
    ids = [*recipe.metrics.report, *(objective.metric.id for objective in objectives)]
    ids += [limit.metric.id for limit in recipe.search.limits.limits]
    return dict.fromkeys(ids if isinstance(pick, str) else [*ids, pick.then])


def check_prices(task: Task) -> None:
    """Raises UsageError if a budget in dollars cannot be held to, because a target has no known price."""
    if task.recipe.budget.usd is not None:
        targets = reachable_targets(task.recipe, task.runtime, tuple(task.baseline_knobs.values()))
        check_priced({**targets, **_own_lms(task, targets)})


def reachable_targets(recipe: Recipe, runtime: Runtime, chosen: Collection[object] = ()) -> dict[str, Target]:
    """Returns by name the targets that may be called: those in a used role or `chosen`, and fallbacks."""
    targets, roles = runtime.targets, recipe.search.targets
    used = {"main", "judge", *roles, *(name for names in roles.values() for name in names)}
    used |= {name for name in chosen if isinstance(name, str)}
    for entry in recipe.methods:
        used |= {*entry.roles, *entry.optional_roles}
    if recipe.search.instructions or recipe.search.optimizer != OWN_OPTIMIZER:
        used.add("teacher")
    found_targets = {name: target for name, target in targets.items() if name in used}
    for target in tuple(found_targets.values()):
        others = runtime.gateway.fallbacks.get(target, ())
        found_targets |= {name: other for name, other in targets.items() if other in others}
    return found_targets


def _own_lms(task: Task, known: Mapping[str, Target]) -> dict[str, Target]:
    """Returns the targets of LMs set on predictors of the user's modules, except the `known` ones."""
    from ragc.targets.dspy_lm import target_of

    own: dict[str, Target] = {}
    for chosen in task.recipe.methods:
        program = chosen.build(task.runtime, baseline_knobs(task.recipe, chosen))
        for name, call in program.named_predictors():
            lm = getattr(call, "lm", None)
            if lm is not None and (target := target_of(lm)) not in (*known.values(), *own.values()):
                own[f"the LM of {name}"] = target
    return own


def _check_answers(task: Task) -> None:
    """Raises UsageError for train questions without a gold answer, as those of a set for retrieval."""
    if unanswered := [question.id for question in task.train if not question.answers]:
        raise UsageError(
            f"{len(unanswered)} train questions have no gold answer ({unanswered[0]!r} is one), and programs "
            "learn from answers; leave data.train out, or name questions with answers."
        )


def _check_train(task: Task, *, questions: bool) -> None:
    """Raises UsageError for demonstrations that no program can show, and where train questions lack."""
    search, lacking = task.recipe.search, questions and not task.train
    if search.demos:
        for chosen in task.recipe.methods:
            demo_kinds(task.recipe, chosen.build(task.runtime, fixed_knobs(task.recipe, chosen)))
        if set(search.demo_kinds) - {CROSS} and lacking:
            raise UsageError("search.demos needs train questions, found none; set data.train, or demos = 0.")
    if search.instructions and search.optimizer == OWN_OPTIMIZER and lacking:
        raise UsageError(
            "search.instructions needs train questions, found none; set data.train, or instructions = 0."
        )


def _build_sources(recipe: Recipe, corpora: Mapping[str, Corpus], store: CallStore) -> dict[str, Source]:
    """Returns the sources of `recipe` by name, over `corpora`, those with passages of their own."""
    return {
        name: build_source(
            SOURCES.get(spec.kind),
            spec.options,
            corpora.get(name),
            store,
            recording=spec.corpus,
            resolve=recipe.path,
        )
        for name, spec in recipe.sources.items()
    }


def build_target(spec: TargetSpec) -> Target:
    """The target of `spec`, not opened yet. Raises UsageError."""
    return TARGETS.get(spec.kind).build(spec)


def _build_targets(recipe: Recipe) -> dict[str, Target]:
    """Builds the targets of `recipe` by role."""
    return {role: build_target(spec) for role, spec in recipe.target_specs().items()}


def _group_sizes(questions: Sequence[Question]) -> list[int]:
    """Returns the number of questions of each group."""
    named = Counter(question.group for question in questions)
    alone = named.pop("", 0)
    return [*named.values(), *[1] * alone]


def folds_note(task: Task) -> str:
    """Returns a sentence on the cross-validation of `task`; "" without."""
    if not task.folds:
        return ""
    return (
        f"The recipe names no splits, so its {len(task.train) + len(task.dev)} questions are cross-validated "
        f"in {len(task.folds)} folds: all choose the program, and each is also answered by a program that "
        "was chosen without its fold."
    )


def groups_note(facts: Mapping[str, Any]) -> str:
    """Returns a sentence on the groups of questions in each split, and on those that did not fit; "" without
    groups.
    """
    if not (groups := facts.get("groups")):
        return ""
    data, unfit = facts["data"], groups["unfit"]
    counts = [
        f"{data[name]['n']} {name} questions in {n} groups"
        for name, n in groups["n"].items()
        if data[name]["n"]
    ]
    why = "share gold passages" if groups["by"] == "gold_ids" else f"have one {groups['by']!r}"
    left = [f"{n} did not fit {name}" for name, n in unfit.items()]
    return (
        f"Questions that {why} stay together: {', '.join(counts)}"
        + (f"; of the groups {' and '.join(left)}" if left else "")
        + "."
    )


def _interval(
    metric: Metric, scores: Sequence[Scores], seed: int, groups: Sequence[str] | None
) -> Interval | None:
    """Returns the interval of one metric; None if it applies to no question."""
    from ragc.metrics.stats.groups import labels_where
    from ragc.metrics.stats.resample import mean_ci, pooled_ci

    if metric.combine is None:
        column = [s[metric.id] for s in scores]
        values = [score for score in column if score is not None]
        bounds, labels = metric.bounds_of(values), labels_where(groups, column)
        return mean_ci(values, seed=seed, bounds=bounds, groups=labels) if values else None
    columns = columns_of(metric, scores)
    if not all(any(value is not None for value in column) for column in columns):
        return None
    return pooled_ci(columns, metric.combine, seed=seed, groups=groups)


def columns_of(metric: Metric, scores: Sequence[Scores]) -> list[list[float | None]]:
    """Returns the scores of the metrics that `metric` pools, a column each."""
    return [[s[name] for s in scores] for name in metric.pools]


def scorer_of(chosen_metrics: Sequence[Metric], recipe: Recipe, runtime: Runtime, store: CallStore) -> Scorer:
    """Returns the scorer of metrics and those they pool. Raises UsageError if a judge or model is missing."""
    whole = dict.fromkeys(
        (*chosen_metrics, *(metrics.get(name) for metric in chosen_metrics for name in metric.pools))
    )
    ask = None
    if "judge" in runtime.targets:
        from ragc.task.judge import Judge

        ask = Judge(runtime)
    settings = recipe.metrics
    kind, _, model = settings.entailment.partition(":")
    if model and recipe.path(model).exists():
        settings = settings.replace(entailment=f"{kind}:{recipe.path(model)}")
    family_ids = families(tuple(whole))
    graders = metrics.make_graders(family_ids, settings, ask, store=store)
    if family_ids:
        from ragc.metrics.own import assessors

        graders |= assessors(family_ids, recipe.base)
    return Scorer(tuple(whole), graders)


def _prompt_facts(recipe: Recipe) -> dict[str, Any]:
    if not recipe.prompts:
        return {}
    from ragc.task.prompts import fingerprints

    return {"prompts": fingerprints(recipe)}


def _judge_facts(scorer: Scorer) -> dict[str, Any]:
    return {"backends": scorer.backends} if scorer.backends else {}


def objective_of(written: str) -> Objective:
    """Returns the objective `written` in a recipe: a metric's id, with `-` before it if less is better.

    In a stored recipe it may be a function that only the Python of the compile had. Raises UnknownName, and
    UsageError for the wrong sign.
    """
    name, minus = written.removeprefix("-"), written.startswith("-")
    if name == CALLERS_METRIC:
        from ragc.metrics.own import own_metric

        metric = own_metric(name)
    else:
        metric = metrics.get(name, load=True)
    if minus == metric.higher_is_better:
        better, sign = ("more", "") if metric.higher_is_better else ("less", "-")
        raise UsageError(f"Of {name!r} {better} is better; write {sign}{name} in the objectives.")
    return Objective(metric, -1 if minus else 1)


def facts_of(
    seed: int,
    splits: Mapping[str, tuple[Question, ...]],
    sources: Mapping[str, Source],
    targets: Mapping[str, Target],
) -> dict[str, Any]:
    """Returns the facts on the inputs for provenance: fingerprints and names, no secrets and no absolute
    paths.
    """
    libraries = {name: version(name) for name in ("dspy", "optuna")}
    return {
        "versions": {"ragc": __version__, **libraries, "python": platform.python_version()},
        "seed": seed,
        "data": data_facts(splits),
        "sources": {name: {"kind": s.kind, "fingerprint": s.fingerprint} for name, s in sources.items()},
        "targets": {role: _target_facts(target) for role, target in targets.items()},
    }


def inputs_of(task: Task) -> dict[str, Any]:
    """Returns what the scores of a study depend on beside its recipe: data, sources, targets, own metrics."""
    facts = {name: task.facts.get(name) for name in ("data", "sources", "targets")}
    graders = task.scorer.assessors.items()
    codes = {family: code for family, grader in graders if (code := getattr(grader, "code", ""))}
    return facts | ({"metrics": codes} if codes else {})


def data_facts(splits: Mapping[str, tuple[Question, ...]]) -> dict[str, Any]:
    """Returns the number and the fingerprint of the questions of each split."""
    return {
        name: {"n": len(qs), "fingerprint": digest([[q.id, q.whole_text, list(q.answers)] for q in qs])}
        for name, qs in splits.items()
    }


def _target_facts(target: Target) -> dict[str, Any]:
    others = getattr(getattr(target, "options", None), "fallbacks", ())
    facts: dict[str, Any] = {"name": target.name, "identity": digest(target.identity)[:16]}
    if thinking := reasoning_of(target):
        facts[THINKING_FACT] = thinking
    if (sampling := getattr(target, "sampling", None)) is not None:  # of an LM of DSPy, which no knob sets
        facts["sampling"] = sampling
    return {**facts, "fallbacks": list(others)} if others else facts


def recorded_rooms(facts: Mapping[str, Any]) -> dict[str, int]:
    """Returns the tokens for thoughts of each target in the `facts` of an earlier task; 0 if it had none."""
    held = facts.get("targets")
    tables = held if isinstance(held, Mapping) else {}
    rooms = {name: table.get(THINKING_FACT) for name, table in tables.items() if isinstance(table, Mapping)}
    return {
        name: thinking if type(thinking) is int and thinking > 0 else 0 for name, thinking in rooms.items()
    }
