"""Compile: ragc's study, or another optimizer, as an optimizer of DSPy, on examples in memory.

    import dspy
    import ragc
    from ragc.testing import ScriptedTarget

    def answers(request):  # stands for a model that answers shortly when it was shown how
        return {"answer": "Paris" if len(request.messages) > 2 else "It is Paris."}

    local = ragc.source("bm25", corpus=[ragc.Passage("p", "France", "Its capital is Paris.")])
    program = ragc.program("vanilla", main=ScriptedTarget(answers), local=local)
    examples = [dspy.Example(question=f"Capital of France, {n}?", answer="Paris") for n in range(12)]

    def exact(example, prediction, trace=None):
        return prediction.answer == example.answer

    optimizer = ragc.Compile(metric=exact, trials=4, demos=2, budget={"lm_calls": 500}, out="compiled/france")
    compiled = optimizer.compile(program, trainset=examples[:6], valset=examples[6:])
    compiled(question="Capital of France?").answer  # "Paris"

The program that comes back runs on the targets and sources of `program`. The directory `out` is opened with
`ragc.load("compiled/france").build(program.runtime)`.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import dspy
from dspy.teleprompt import Teleprompter

from ragc.compiled import contamination
from ragc.compiled.base import CompiledProgram
from ragc.compiled.study_rows import write_questions, write_results, write_trials
from ragc.compiled.verdict import intervals_to_json
from ragc.core import event_loop
from ragc.core.display import describe, quantity
from ragc.core.progress import Display, Progress, showing
from ragc.corpora.files.splits import check_disjoint
from ragc.corpora.sources.bm25 import GivenSource
from ragc.corpora.sources.function import FunctionSource
from ragc.errors import UsageError
from ragc.metrics.base import Objective, Scorer
from ragc.optimizers.candidates.dev_order import dev_groups, shuffle_dev
from ragc.optimizers.candidates.space import Candidate, describe_difference
from ragc.optimizers.compile import baseline, failures_json, search, select
from ragc.optimizers.compile.searches import open_search
from ragc.optimizers.external.optimize import check_optimizer
from ragc.optimizers.integrations.dspy_examples import (
    ExampleAssessor,
    ExampleSet,
    distinct_passages,
    read_examples,
    together,
)
from ragc.optimizers.integrations.without_recipe import open_call_store
from ragc.optimizers.search.directory import forget_earlier, open_directory, run_of, salt_of
from ragc.optimizers.search.storage import translate_storage_errors
from ragc.programs.base import RagProgram
from ragc.programs.method import Method
from ragc.programs.own.program import OwnProgram, result_module
from ragc.programs.own.source import kept_module
from ragc.programs.runtime import Runtime
from ragc.recipe import Recipe, settings
from ragc.recipe.values import CALLERS_METRIC
from ragc.targets.dspy_lm import target_of
from ragc.task.base import DEMO_THRESHOLD, Task, check_prices, facts_of, objective_of, scorer_of
from ragc.task.budget import BudgetFile

HELD_OUT = 0.8
"""The share of the trainset that candidates are compared on where there is no valset; as MIPROv2 has it."""


Read = Callable[[Sequence[dspy.Example], str], ExampleSet]

_MARKS = "_question_marks"
"""The attribute of a compiled program with the marks of the questions that taught or chose it."""


class Compile(Teleprompter):
    """ragc's compiler as DSPy calls it: `Compile(metric=...).compile(student, trainset=..., valset=...)`.

    `metric` is one as DSPy's users write them: a function of the example and the prediction, and if it takes
    more of the trace, or GEPA's five, asynchronous or not, which returns a number, True, False, or a
    prediction with `score`; a question for which it returns none has failed. Or it is the id of a metric of
    ragc, with `-` in front if less is better. What a train question's run showed becomes a demonstration
    where the metric, given its trace, is at least `metric_threshold`; without one, above the least of the
    train set, so True where it says True or False.

    `budget` has limits (`lm_calls`, `tokens`, `usd`, `minutes`, `trials`). `knobs` are those to vary, "all"
    or names; the others keep their values in the program. Every other argument is an option of `[search]` in
    a recipe (`trials`, `demos`, `demo_kinds`, `instructions`, `ranges`, `batch`, `optimizer` and so on). With
    `out` the compiled program is written there too; `resume` continues a study of it that was cut off, and
    `again` asks the models again instead of using stored replies. `progress` is as in `ragc.compile`. After a
    compile, `compiled` is the CompiledProgram. Raises UsageError for a metric that is no function of two
    places, and at the compile RecipeError for invalid settings, all at once.
    """

    def __init__(
        self,
        *,
        metric: str | Callable[..., Any] = "em",
        metric_threshold: float | None = None,
        budget: Mapping[str, float] | None = None,
        knobs: str | Sequence[str] = (),
        demos: int = 4,
        seed: int = 0,
        concurrency: int | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        again: bool = False,
        progress: Display = None,
        **search: Any,
    ) -> None:
        super().__init__()
        if resume and out is None:
            raise UsageError("resume goes on with the study of an out, and there is none; give out a folder.")
        if budget is not None and not isinstance(budget, Mapping):
            raise UsageError(
                f"budget is a table of limits, such as budget={{'lm_calls': 500}}, found {budget!r}."
            )
        named = isinstance(metric, str)
        values = {
            "knobs": knobs if isinstance(knobs, str) else list(knobs),
            "demos": demos,
            "objectives": [metric if named else "em"],
        }
        self.metric, self.budget, self.search = metric, dict(budget or {}), {**values, **search}
        self._assessor = None if isinstance(metric, str) else ExampleAssessor(metric)
        self.metric_threshold = DEMO_THRESHOLD if named and metric_threshold is None else metric_threshold
        self.seed, self.concurrency, self.progress = seed, concurrency, progress
        self.out = None if out is None else Path(out)
        self.resume, self.again = resume, again
        self.compiled: CompiledProgram | None = None

    def __repr__(self) -> str:
        metric = (
            self.metric if isinstance(self.metric, str) else getattr(self.metric, "__name__", "a function")
        )
        return describe(
            "Compile", metric=metric, **{**self.search, "objectives": None}, budget=self.budget or None
        )

    def compile(
        self,
        student: Any,
        *,
        trainset: Sequence[dspy.Example],
        valset: Sequence[dspy.Example] | None = None,
        teacher: Any = None,
    ) -> Any:
        """Returns the best program found: a copy of `student`, which is not changed.

        `student` is the user's own `dspy.Module`, an instance that has an LM, by `set_lm` or
        `dspy.configure`; what returns is of its class, with its LMs, and runs, saves and loads in plain DSPy.
        Its examples say which fields are inputs (`with_inputs`). Or it is a program of ragc; what returns is
        on its runtime. Passages of the examples are then searched meanwhile instead of documents (`local`,
        else `web`); other sources stay.

        Demonstrations come from `trainset`, and candidates are compared on `valset`, or on four fifths of the
        trainset, where examples of one question stay together. Raises RagcError.
        """
        program = _as_program(student, teacher)
        own, gold = isinstance(program, OwnProgram), isinstance(self.metric, str)
        if self._assessor is not None:
            self._assessor.of_user = own
        read: Read = partial(read_examples, own=own, gold=gold)
        if self.out is not None:
            _check_module(program.method)
        train, dev = self._split(list(trainset), valset, read)
        recipe = self._recipe(program)
        with showing(self.progress) as progress, self._directory(recipe) as directory:
            task = self._task(program, recipe, read(train, "train"), read(dev, "val"), directory)
            gateway = task.runtime.gateway
            salt = uuid4().hex[:16] if self.again and self.out is None else salt_of(directory)
            gateway.salt = salt
            gateway.run = run_of(directory)
            if problem := contamination.record(task, "compile"):
                progress.note(problem)
            forget_earlier(directory)
            try:
                with translate_storage_errors(directory), event_loop.frozen_gc():
                    if self.out is not None:
                        write_questions(directory, shuffle_dev(task))
                    best, self.compiled, trials = event_loop.run(
                        self._search(task, recipe, directory, progress, getattr(student, _MARKS, None))
                    )
            finally:
                task.budget.close()
            if self.out is not None:
                self.compiled.save(self.out, best)
                write_results(directory, self.compiled.provenance, {})
                write_trials(directory, trials)
            progress.close()
        compiled: Any = self.compiled.build(program.runtime.with_salt(salt))
        compiled = compiled if program is student else result_module(compiled)
        compiled._compiled = True
        setattr(compiled, _MARKS, contamination.digests_in(self.compiled.provenance))
        return compiled

    def _split(
        self, train: list[dspy.Example], valset: Sequence[dspy.Example] | None, read: Read
    ) -> tuple[list[dspy.Example], list[dspy.Example]]:
        if valset is None:
            random.Random(f"valset {self.seed}").shuffle(train)
            most = len(train) - max(1, round(len(train) * HELD_OUT))
            alike = together(train, read(train, "train")[0])
            train, valset = [], []
            for group in alike:
                (train if len(train) + len(group) <= most else valset).extend(group)
        if not valset:
            raise UsageError("Compile needs examples to compare candidates on, found none; give it a valset.")
        if self.search["demos"] and not train:
            raise UsageError(
                f"Demonstrations come from the trainset, which is empty beside {len(valset)} examples to "
                "compare on; give it some, or demos=0."
            )
        return train, list(valset)

    def _recipe(self, program: RagProgram) -> Recipe:
        """Returns the settings as a recipe without data, targets and sources."""
        method = program.method
        search_spec, budget = settings(method, self.search, self.budget, where="Compile")
        if not isinstance(self.metric, str):
            pick = search_spec.pick
            pick = CALLERS_METRIC if isinstance(pick, str) else pick.replace(objective=CALLERS_METRIC)
            search_spec = search_spec.replace(objectives=(CALLERS_METRIC,), pick=pick)
        bare = Recipe(program="vanilla")  # what follows is known to be valid here, and not everywhere
        return bare.replace(
            program=method.id,
            seed=self.seed,
            concurrency=self.concurrency,
            knobs=program.knobs.to_json(),
            search=search_spec,
            budget=budget,
            metrics=bare.metrics.replace(report=(search_spec.pick_name.removeprefix("-"),)),
        )

    @contextmanager
    def _directory(self, recipe: Recipe) -> Iterator[Path]:
        """Opens the folder of the study's state: below `out`, or a temporary one without `out`."""
        if self.out is not None:
            with open_directory(self.out, _without_starts(recipe), self.resume, self.again) as directory:
                yield directory
        else:
            with tempfile.TemporaryDirectory() as folder:
                yield Path(folder)

    def _task(
        self, program: RagProgram, recipe: Recipe, train: ExampleSet, dev: ExampleSet, directory: Path
    ) -> Task:
        splits = {"train": train[0], "dev": dev[0]}
        check_disjoint(splits)
        own, budget = program.runtime, BudgetFile(directory / "charges.sqlite3", recipe.budget)
        sources = dict(own.sources)
        if passages := distinct_passages((*train[1], *dev[1])):
            sources |= {name: GivenSource(passages) for name in documents_of(program)}
        store = own.gateway.store
        runtime = Runtime(own.targets, sources, store=store, budget=budget).with_targets(own.target_names)
        if self._assessor is None:
            objective = objective_of(str(self.metric))
            scorer = scorer_of([objective.metric], recipe, runtime, store)
        else:
            objective = Objective(self._assessor.as_metric, 1)
            scorer = Scorer((objective.metric,), {CALLERS_METRIC: self._assessor})
        task = Task(
            recipe,
            runtime,
            budget,
            splits,
            scorer,
            (objective,),
            self.metric_threshold,
            facts=facts_of(recipe.seed, splits, sources, own.targets),
            instructions=_own_instructions(program),
        )
        check_prices(task)
        return task

    async def _search(
        self,
        task: Task,
        recipe: Recipe,
        directory: Path,
        progress: Progress,
        before: contamination.UsedDigests | None,
    ) -> tuple[RagProgram, CompiledProgram, list[Any]]:
        """Returns the best candidate's program, its compiled form and all trials; no test questions are
        answered.
        """
        check_optimizer(task)
        await task.runtime.open()
        limit = asyncio.Semaphore(task.in_flight)
        async with open_search(task, directory, limit, progress) as dev_search:
            searched = await search(dev_search, await baseline(dev_search))
        selected = await select(dev_search, searched)
        groups = dev_groups(task)
        dev = {
            name: intervals_to_json(task.summarize(scores, groups[: len(scores)]))
            for name, scores in selected.dev.items()
        }
        provenance = {
            **task.facts,
            **contamination.question_facts(task, before),
            "dev": dev,
            "failures": failures_json({"dev": selected.failures}),
            "search": dict(selected.facts),
        }
        progress.note(_outcome(task, dev, selected.facts))
        best = selected.best
        text = _without_starts(recipe).to_toml()
        run = {"salt": task.runtime.gateway.salt} if task.runtime.gateway.salt else {}
        compiled = CompiledProgram.of(best, provenance=provenance, recipe=text, run=run)
        return best, compiled, list(selected.trials)


def _outcome(task: Task, dev: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Returns the last line of a search: what was chosen, with its mean on the valset and the baseline's."""
    chosen = facts.get("candidate")
    what = f": {describe_difference(Candidate.of(chosen), task.recipe)}" if isinstance(chosen, dict) else ""
    name = task.objectives[0].metric.id
    winner, base = dev["winner"].get(name), dev["baseline"].get(name)
    if not winner or not base:
        return f"chosen{what}"
    number = quantity(winner["n"], "question")
    return (
        f"chosen{what}; {name} {winner['mean']:.3f} on {number} of the valset, which flatter it, and the "
        f"baseline {base['mean']:.3f}"
    )


def _without_starts(recipe: Recipe) -> Recipe:
    """Returns `recipe` without starting values of searched knobs, as a recipe file can have it.

    A file names a knob either in `[knobs]` or in `[search]`.
    """
    fixed = {name: value for name, value in recipe.knobs.items() if name not in recipe.search.knobs}
    return recipe.replace(knobs=fixed)


def documents_of(program: RagProgram) -> Sequence[str]:
    """Returns the sources that the passages of examples replace.

    `local`, or the pages of `web` and `dense` in a program without it; facts (`kg`) are not replaced.
    """
    method, own = program.method, program.runtime.sources
    names = {*method.sources, *method.optional_sources, *own}
    return ("local",) if "local" in names else [name for name in ("web", "dense") if name in own]


def _as_program(student: Any, teacher: Any) -> RagProgram:
    """Returns `student`, or a program around the user's DSPy module on its LM. Raises UsageError."""
    if teacher is not None:
        raise UsageError(
            "Compile takes no teacher program; a target with the role 'teacher' proposes instructions."
        )
    if isinstance(student, RagProgram):
        return student
    if not isinstance(student, dspy.Module):
        raise UsageError(
            "Compile takes a dspy.Module of your own, an instance of it, or a program of ragc, such as "
            f"ragc.program('vanilla', main=..., local=...), found {type(student).__name__}."
        )
    lms = [dspy.settings.lm, *(call.lm for call in student.predictors())]
    lm = next((lm for lm in lms if lm is not None), None)
    if lm is None:
        raise UsageError(
            f"The module {type(student).__name__} has no LM; set one with dspy.configure(lm=dspy.LM(...)) or "
            "its set_lm."
        )
    from ragc.programs.own import method_of

    own = method_of(student)
    sources = {"local": FunctionSource(dspy.settings.rm)} if dspy.settings.rm else {}
    runtime = Runtime({"main": target_of(lm)}, sources, store=open_call_store())
    return own.build(runtime)


def _check_module(method: Method) -> None:
    """Raises UsageError if the module of `method` could not be built again; warns of unstored files."""
    module = getattr(method, "module", None)
    source_file = None if module is None else kept_module(method.id, module)
    if module is not None and not isinstance(module, type) and (changed := _set_by_hand(method)):
        raise UsageError(
            f"This instance of {method.id!r} differs from one that is built without arguments "
            f"({', '.join(changed)}), so what is written to a folder would open as another program; declare "
            "these values with ragc.number, ragc.switch or ragc.choice, or make them defaults of its class."
        )
    if source_file is not None and source_file.beside:
        warnings.warn(
            f"{method.id!r} is kept as one file, and it imports {', '.join(source_file.beside)}, which is "
            "neither installed nor kept; put what it needs into the module, or carry these files along.",
            stacklevel=3,
        )


def _set_by_hand(method: Method) -> list[str]:
    """Returns the names of plain values in which `method`'s instance differs from a new one of its class."""
    module: Any = getattr(method, "module", None)
    declared = {knob.name for knob in method.knobs.list_knobs()}
    try:
        bare = vars(type(module)())
    except Exception:
        return [] if type(module).__module__.startswith("dspy.") else ["it needs arguments"]
    plain = (str, int, float, bool, type(None))
    return sorted(
        name
        for name, value in vars(module).items()
        if isinstance(value, plain)
        and not name.startswith("_")
        and name not in declared
        and (name not in bare or bare[name] != value)
    )


def _own_instructions(program: RagProgram) -> dict[str, str]:
    """Returns the instructions of `program` that differ from those of its method."""
    plain = program.method.build(program.runtime, program.knobs)
    written = {name: call.signature.instructions for name, call in plain.named_predictors()}
    own = {name: call.signature.instructions for name, call in program.named_predictors()}
    return {name: text for name, text in own.items() if text != written.get(name)}
