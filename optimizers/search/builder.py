"""Builds the programs of candidates, with their demonstrations, instructions and targets.

Collecting demonstrations and proposing instructions take LM calls. Each is therefore done once a study and
stored with it. Instruction candidates are stored by program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ragc.core.counters import Counters, counting
from ragc.core.digest import digest
from ragc.core.progress import Progress
from ragc.optimizers.demos.bootstrap import collect, set_demos
from ragc.optimizers.demos.pool import ByPredictor, Pool
from ragc.optimizers.prompts import give_prompts
from ragc.optimizers.space import DEMO_SETS, Candidate
from ragc.optimizers.task import Task
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.recipe.resolved import CROSS, NEAREST
from ragc.records import Question


@dataclass(frozen=True, slots=True)
class Proposals:
    """The instruction candidates of each predictor and the cost of finding them.

    The first text of a predictor is its present instructions.
    """

    texts: Mapping[str, tuple[str, ...]]
    counters: Mapping[str, float] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """The number of instruction candidates by predictor."""
        return {name: len(texts) for name, texts in self.texts.items()}

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        return {"texts": {name: list(t) for name, t in self.texts.items()}, "counters": dict(self.counters)}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Proposals:
        """The inverse of `to_json`."""
        texts = {name: tuple(candidates) for name, candidates in value["texts"].items()}
        return cls(texts, dict(value["counters"]))


async def propose(
    program: RagProgram, task: Task, *, limit: asyncio.Semaphore, progress: Progress
) -> Proposals:
    """Proposes at most `search.instructions` new instruction candidates for each predictor of `program`.

    The present instructions come first in each list.
    """
    from ragc.optimizers.instructions.propose import propose_instructions

    n_instructions = task.recipe.search.instructions
    progress.phase("instructions", None)
    with counting(Counters()) as spent:
        texts = await propose_instructions(program, task, n=n_instructions + 1)
    new = sum(len(candidates) - 1 for candidates in texts.values())
    progress.note(f"instructions: {new} candidates for {len(texts)} predictors")
    return Proposals(texts, spent.invariant())


class Attributes(Protocol):
    """Named JSON values of a study. The names used here start with `pool:` or `proposals:`."""

    def get(self, name: str) -> Any:
        """The value stored under `name`, or None."""
        ...

    def put(self, name: str, value: Any) -> None:
        """Stores `value` under `name`."""
        ...

    def names(self) -> list[str]:
        """All names, sorted."""
        ...


class ProgramBuilder:
    """Builds the programs of `task`'s candidates. `limit` bounds the questions in flight.

    Collecting demonstrations shows its own progress phase. `phase_again` is called afterwards to show the
    phase of the search again.
    """

    def __init__(
        self, task: Task, attributes: Attributes, limit: asyncio.Semaphore, progress: Progress
    ) -> None:
        self.task, self.limit, self.progress = task, limit, progress
        self._attributes = attributes
        self._making: dict[str, asyncio.Task[Any]] = {}
        self.phase_again: Callable[[], None] = lambda: None

    async def program(self, candidate: Candidate) -> RagProgram:
        """The program of `candidate`, fitted to the train questions and with its demonstrations set.

        A program that selects demonstrations by question gets the whole pool.
        """
        built = await self._build_instructed(candidate, candidate.knobs)
        if built.chooses_demos and candidate.demos:
            shown = min(candidate.demos, int(candidate.knobs["icl_n"]))
            built = await self._build_instructed(candidate, {**candidate.knobs, "icl_n": shown})
        await self.task.fit(built)
        if not candidate.demos:
            return built
        by_predictor = await self.demos(candidate, whole=_needs_all_demos(built, candidate))
        shown = set_demos(
            built, {name: [one.values for one in demos] for name, demos in by_predictor.items()}
        )
        if candidate.demo_kind == NEAREST:
            for name, predictor in shown.named_predictors():
                predictor.nearest = candidate.demos_of(name)[0]
        return shown

    async def demos(self, candidate: Candidate, *, whole: bool = False) -> ByPredictor:
        """The demonstrations that `candidate` shows, by predictor; a predictor that is not named shows none.

        With `whole`, a predictor that shows any gets its whole pool.
        """
        if not candidate.demos:
            return {}
        pool, seed = await self._pool(candidate), self.task.seed
        shown = {name: candidate.demos_of(name) for name in pool.filled}
        return {
            name: pool.select(name, number, None if whole else count, seed, candidate.demo_kind)
            for name, (count, number) in shown.items()
            if count
        }

    async def demo_scores(self, candidate: Candidate) -> dict[str, Any]:
        """The scores of the demonstrations of `candidate` for provenance, by predictor, in their order.

        None marks a labelled demonstration, whose answer is the gold answer. A program that selects
        demonstrations by question lists its whole pool.
        """
        whole = bool(candidate.demos) and _needs_all_demos(await self._build(candidate), candidate)
        shown = await self.demos(candidate, whole=whole)
        return {name: [one.score for one in demos] for name, demos in shown.items() if demos}

    async def proposals(self, program: str) -> Proposals:
        """The instruction candidates of `program`, proposed once a study for its baseline."""
        part = next(part for part in self.task.space.parts if part.program == program)

        async def find_proposals() -> Proposals:
            built = await self._build(part.baseline())
            proposals = await propose(built, self.task, limit=self.limit, progress=self.progress)
            self._attributes.put(name, proposals.to_json())
            return proposals

        name = f"proposals:{program}"
        record = self._attributes.get(name)
        return Proposals.of(record) if record is not None else await self._run_once(name, find_proposals)

    def costs(self) -> list[Mapping[str, float]]:
        """The counters of each demonstration pool and each instruction proposal."""
        kinds: dict[str, Callable[[Any], Pool | Proposals]] = {"pool": Pool.of, "proposals": Proposals.of}
        names = [(name, name.partition(":")[0]) for name in self._attributes.names()]
        return [kinds[kind](self._attributes.get(name)).counters for name, kind in names if kind in kinds]

    async def _build(
        self, candidate: Candidate, knobs: Mapping[str, Any] | None = None, runtime: Runtime | None = None
    ) -> RagProgram:
        runtime = (runtime or self.task.runtime).with_targets(candidate.targets)
        chosen = self.task.method_of(candidate.program)
        values = dict(candidate.knobs if knobs is None else knobs)
        built = await asyncio.to_thread(chosen.build, runtime, values)
        instructions = self.task.instructions if candidate.program == self.task.space.first.program else {}
        for name, predictor in built.named_predictors():
            if name in instructions:
                predictor.signature = predictor.signature.with_instructions(instructions[name])
        return give_prompts(built, self.task.recipe)

    async def _build_instructed(self, candidate: Candidate, knobs: Mapping[str, Any]) -> RagProgram:
        built = await self._build(candidate, knobs)
        if candidate.instructions:
            texts = (await self.proposals(candidate.program)).texts
            for name, predictor in built.named_predictors():
                if number := candidate.instructions.get(name):
                    predictor.signature = predictor.signature.with_instructions(texts[name][number])
        return built

    async def _pool(self, candidate: Candidate) -> Pool:
        """The demonstration pool that fits `candidate`, collected once a study.

        A cross-domain pool is collected on the questions and sources of the other domain. All pools use each
        role's own target, because a demonstration does not depend on the target that reads it.
        """
        method = self.task.method_of(candidate.program)
        part = self.task.space.part(candidate)
        setting = method.demo_setting(part.baseline().knobs, candidate.knobs)
        other = self.task.other if candidate.demo_kind == CROSS else None
        marked = digest([candidate.program, setting] if candidate.program else setting)[:16]
        name = f"pool:{CROSS}:{marked}" if other else f"pool:{marked}"

        async def collect_pool() -> Pool:
            runtime = other.runtime if other else None
            built = await self._build(Candidate(setting, program=candidate.program), runtime=runtime)
            pool = await self._collect(built, other.questions if other else self.task.train)
            self._attributes.put(name, pool.to_json())
            return pool

        record = self._attributes.get(name)
        return Pool.of(record) if record is not None else await self._run_once(name, collect_pool)

    async def _collect(self, built: RagProgram, train: Sequence[Question]) -> Pool:
        task = self.task
        self.progress.phase("demonstrations, answering train questions", None)
        pool = await collect(
            built,
            train,
            task.scorer.only([task.demo_metric]),
            n_demos=max(8, task.space.demos + 2),
            filled=max(8, task.space.demos * DEMO_SETS),
            threshold=task.demo_threshold,
            limit=self.limit,
            done=self.progress.step,
            kinds=task.recipe.search.demo_kinds,
        )
        kinds = f"{len(pool.scores)} bootstrapped, {pool.labelled} labelled"
        self.progress.note(f"demonstrations: {kinds} ({pool.n_answered} train questions were answered)")
        self.phase_again()
        return pool

    async def _run_once(self, name: str, make: Callable[[], Awaitable[Any]]) -> Any:
        """The result of `make`, run once for all concurrent callers. A cancelled caller does not stop it."""
        if name not in self._making:
            self._making[name] = asyncio.ensure_future(_as_coroutine(make))
        return await asyncio.shield(self._making[name])


def _needs_all_demos(program: RagProgram, candidate: Candidate) -> bool:
    """Whether demonstrations are selected by question, so that the program needs the whole pool."""
    return program.chooses_demos or candidate.demo_kind == NEAREST


async def _as_coroutine(make: Callable[[], Awaitable[Any]]) -> Any:
    return await make()
