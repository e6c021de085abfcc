"""Builds the programs of candidates, with their demonstrations, instructions and targets.

Collecting demonstrations and proposing instructions take LM calls. Each is therefore done once a study and
stored with it. Instruction candidates are stored by program.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Protocol

from ragc.core.counters import Counters, counting
from ragc.core.digest import digest
from ragc.core.display import quantity
from ragc.core.progress import Progress
from ragc.optimizers.candidates.demos.bootstrap import BLOCK, collect, set_demos
from ragc.optimizers.candidates.demos.pool import ByPredictor, Demonstration, DemoPool
from ragc.optimizers.candidates.demos.setting import demo_setting
from ragc.optimizers.candidates.instructions.base import Proposals, Round, round_name
from ragc.optimizers.candidates.space import DEMO_SETS, Candidate, SearchSpace, search_space
from ragc.programs.base import RagProgram
from ragc.programs.knobs import Value
from ragc.programs.runtime import Runtime
from ragc.recipe.values import CROSS, NEAREST
from ragc.records import Question
from ragc.task.base import Task
from ragc.task.prompt_size import longest_prompt
from ragc.task.prompts import give_prompts


async def propose(
    program: RagProgram, task: Task, *, limit: asyncio.Semaphore, progress: Progress
) -> Proposals:
    """Proposes at most `search.instructions` new instruction candidates for each predictor of `program`.

    The present instructions come first in each list.
    """
    from ragc.optimizers.candidates.instructions.propose import propose_instructions

    n_instructions = task.recipe.search.instructions
    progress.phase("instructions", None)
    with counting(Counters()) as spent:
        texts = await propose_instructions(program, task, n=n_instructions + 1)
    new = sum(len(candidates) - 1 for candidates in texts.values())
    progress.note(f"instructions: {new} candidates for {len(texts)} predictors")
    return Proposals(texts, spent.invariant())


class Attributes(Protocol):
    """Named JSON values of a study. They begin with `pool:`, `proposals:`, `round:` or `size:`."""

    def get(self, name: str) -> Any:
        """Returns the value stored under `name`, or None."""
        ...

    def put(self, name: str, value: Any) -> None:
        """Stores `value` under `name`."""
        ...

    def names(self) -> list[str]:
        """Returns all names, sorted."""
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
        self.space = search_space(task.recipe, task.runtime)
        self._attributes = attributes
        self._making: dict[str, asyncio.Task[Any]] = {}
        self._first_pool: tuple[str, DemoPool] | None = None
        self._demo_settings: dict[str, Mapping[str, Value]] = {}
        self.phase_again: Callable[[], None] = lambda: None

    async def program(self, candidate: Candidate) -> RagProgram:
        """Returns the program of `candidate`, fitted to the train questions and with its demonstrations set.

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
            built, {name: [demo.values for demo in demos] for name, demos in by_predictor.items()}
        )
        if candidate.demo_kind == NEAREST:
            for name, predictor in shown.named_predictors():
                predictor.nearest = candidate.demos_of(name)[0]
        return shown

    async def fitted(self, candidate: Candidate) -> Candidate:
        """Returns `candidate`, changed as little as `search.prompt_tokens` needs.

        It shows fewer demonstrations; if it exceeds the cap without any, it has the present instructions, and
        if that is still too long, it is the baseline.
        """
        if not self.task.recipe.search.prompt_tokens:
            return candidate
        fewer = [candidate, *(candidate.with_at_most(shown) for shown in reversed(range(candidate.demos)))]
        for smaller in (*fewer, replace(fewer[-1], instructions={})):
            if self._within_cap(await self.program(smaller), smaller.knobs):
                return smaller
        return self.space.part(candidate).baseline()

    async def fits(self, candidate: Candidate, texts: Mapping[str, str]) -> bool:
        """Returns whether `candidate` without demonstrations, with the instructions `texts`, is within the
        cap.
        """
        if not self.task.recipe.search.prompt_tokens:
            return True
        plain = candidate.with_at_most(0)
        built = await self._build_instructed(plain, plain.knobs)
        for name, predictor in built.named_predictors():
            if name in texts:
                predictor.signature = predictor.signature.with_instructions(texts[name])
        return self._within_cap(built, plain.knobs)

    def _within_cap(self, program: RagProgram, knobs: Mapping[str, Value]) -> bool:
        task = self.task
        questions = (*task.train, *task.dev, *task.test)
        return longest_prompt(program, knobs, questions) <= task.recipe.search.prompt_tokens

    async def demos(self, candidate: Candidate, *, whole: bool = False) -> ByPredictor:
        """Returns the demonstrations that `candidate` shows, by predictor; a predictor that is not named
        shows none.

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

    async def collect_first(self, candidates: Sequence[Candidate]) -> None:
        """Collects the pool of the first of `candidates` that shows demonstrations, for `shown`."""
        showing = (candidate for candidate in candidates if candidate.demos)
        first = next((candidate for candidate in showing if candidate.demo_kind != CROSS), None)
        if first is not None and self._first_pool is None:
            pool = await self._pool(first)
            self._first_pool = self._pool_name(first), pool

    def shown(self, candidate: Candidate) -> Candidate:
        """Returns the first name of the program that `candidate` is, as far as its demonstrations decide it.

        Several sets, kinds and numbers of demonstrations show the same ones where the pool is small, and none
        where it is empty. That of another pool than `collect_first` collected is returned as it is.
        """
        name, pool = self._first_pool or ("", None)
        asks_pool = candidate.demos and candidate.demo_kind not in (CROSS, NEAREST)
        if pool is None or not asks_pool or self._pool_name(candidate) != name:
            return candidate
        part, seed = self.space.part(candidate), self.task.seed

        def lists(other: Candidate) -> list[Sequence[Demonstration]]:
            every = ((predictor, *other.demos_of(predictor)) for predictor in pool.filled)
            return [pool.select(one, at, count, seed, other.demo_kind) for one, count, at in every]

        wanted = lists(candidate)
        most = max(map(len, wanted), default=0)
        if not most:
            return candidate.with_at_most(0)
        kinds = [kind for kind in part.demo_kinds if kind not in (CROSS, NEAREST)]
        shared = (
            replace(candidate, demo_kind=kind, demos=most, demo_set=number, own_demos={})
            for kind in kinds
            for number in part.sets(kind)
        )
        return next((other for other in shared if lists(other) == wanted), candidate)

    async def demo_scores(self, candidate: Candidate) -> dict[str, Any]:
        """Returns the scores of the demonstrations of `candidate` for provenance, by predictor, in their
        order.

        None marks a labelled demonstration, whose answer is the gold answer. A program that selects
        demonstrations by question lists its whole pool.
        """
        whole = bool(candidate.demos) and _needs_all_demos(await self._build(candidate), candidate)
        shown = await self.demos(candidate, whole=whole)
        return {name: [demo.score for demo in demos] for name, demos in shown.items() if demos}

    async def proposals(self, program: str) -> Proposals:
        """Returns the instruction candidates of `program`, proposed once a study for its baseline.

        Only the present ones in a study whose instructions evolve in rounds.
        """
        part = next(part for part in self.space.parts if part.program == program)

        async def find_proposals() -> Proposals:
            built = await self._build(part.baseline())
            if self.task.recipe.search.instruction_rounds:
                return _present(built)
            proposals = await propose(built, self.task, limit=self.limit, progress=self.progress)
            self._attributes.put(name, proposals.to_json())
            return proposals

        name = f"proposals:{program}"
        record = self._attributes.get(name)
        return Proposals.of(record) if record is not None else await self._run_once(name, find_proposals)

    async def space_with_instructions(self) -> SearchSpace:
        """Returns the search space of the task with the number of instruction candidates of each program.

        They are proposed first, if the recipe asks for any.
        """
        space, search = self.space, self.task.recipe.search
        most = 1 + search.instruction_rounds * search.instructions if search.instruction_rounds else 0
        if search.instructions:
            for part in space.parts:
                proposals = await self.proposals(part.program)
                space = space.with_instruction_counts(part.program, proposals.counts, most)
        return space

    def attribute(self, name: str) -> Any:
        """Returns the value of the study that is stored under `name`, or None."""
        return self._attributes.get(name)

    def put_attribute(self, name: str, value: Any) -> None:
        """Stores a value of the study, which a resumed study reads."""
        self._attributes.put(name, value)

    def rounds(self) -> Iterator[Round]:
        """Returns the stored rounds of evolving instructions, in order."""
        for number in count(1):
            record = self._attributes.get(round_name(number))
            if record is None:
                return
            yield Round.of(record)

    def put_round(self, name: str, result: Round) -> None:
        """Stores a round."""
        self._attributes.put(name, result.to_json())

    async def instruction_texts(self, program: str) -> dict[str, tuple[str, ...]]:
        """Returns all instruction candidates of `program` by predictor: proposed ones, then those of the
        rounds.
        """
        texts = {name: list(known) for name, known in (await self.proposals(program)).texts.items()}
        if self.task.recipe.search.instruction_rounds:
            for held in self.rounds():
                for name, written in held.texts.get(program, {}).items():
                    texts[name] += written
        return {name: tuple(known) for name, known in texts.items()}

    def costs(self) -> list[Mapping[str, float]]:
        """Returns the counters of each demonstration pool, each instruction proposal and each round."""
        kinds: dict[str, Callable[[Any], DemoPool | Proposals | Round]] = {
            "pool": DemoPool.of,
            "proposals": Proposals.of,
            "round": Round.of,
        }
        names = [(name, name.partition(":")[0]) for name in self._attributes.names()]
        return [kinds[kind](self._attributes.get(name)).counters for name, kind in names if kind in kinds]

    async def _build(
        self, candidate: Candidate, knobs: Mapping[str, Any] | None = None, runtime: Runtime | None = None
    ) -> RagProgram:
        runtime = (runtime or self.task.runtime).with_targets(candidate.targets)
        chosen = self.task.method_of(candidate.program)
        values = dict(candidate.knobs if knobs is None else knobs)
        built = await asyncio.to_thread(chosen.build, runtime, values)
        instructions = self.task.instructions if candidate.program == self.space.first.program else {}
        for name, predictor in built.named_predictors():
            if name in instructions:
                predictor.signature = predictor.signature.with_instructions(instructions[name])
        return give_prompts(built, self.task.recipe)

    async def _build_instructed(self, candidate: Candidate, knobs: Mapping[str, Any]) -> RagProgram:
        built = await self._build(candidate, knobs)
        if candidate.instructions:
            texts = await self.instruction_texts(candidate.program)
            for name, predictor in built.named_predictors():
                if number := candidate.instructions.get(name):
                    predictor.signature = predictor.signature.with_instructions(texts[name][number])
        return built

    async def _pool(self, candidate: Candidate) -> DemoPool:
        """Returns the demonstration pool that fits `candidate`, collected once a study.

        A cross-domain pool is collected on the questions and sources of the other domain. All pools use each
        role's own target, because a demonstration does not depend on the target that reads it.
        """
        setting = await asyncio.to_thread(self._demo_setting, candidate)
        other = self.task.other if candidate.demo_kind == CROSS else None
        name = self._pool_name(candidate)

        async def collect_pool() -> DemoPool:
            runtime = other.runtime if other else None
            built = await self._build(Candidate(setting, program=candidate.program), runtime=runtime)
            pool = await self._collect(built, other.questions if other else self.task.train)
            if not pool.counters.get("failed"):  # else a resumed study asks those questions again
                self._attributes.put(name, pool.to_json())
            return pool

        record = self._attributes.get(name)
        return DemoPool.of(record) if record is not None else await self._run_once(name, collect_pool)

    def _demo_setting(self, candidate: Candidate) -> Mapping[str, Value]:
        """Returns the knobs of the program that collects the demonstrations of `candidate`.

        They are worked out once for the same knobs, as a program is built for each of these.
        """
        name = digest([candidate.program, candidate.knobs])
        if name not in self._demo_settings:
            method, base = self.task.method_of(candidate.program), self.space.part(candidate).baseline().knobs
            self._demo_settings[name] = demo_setting(method, self.task.runtime, base, candidate.knobs)
        return self._demo_settings[name]

    def _pool_name(self, candidate: Candidate) -> str:
        setting = self._demo_setting(candidate)
        marked = digest([candidate.program, setting] if candidate.program else setting)[:16]
        crossed = candidate.demo_kind == CROSS and self.task.other
        return f"pool:{CROSS}:{marked}" if crossed else f"pool:{marked}"

    async def _collect(self, built: RagProgram, train: Sequence[Question]) -> DemoPool:
        task, filled = self.task, max(8, self.space.demos * DEMO_SETS)

        def affordable(spent: Counters, answered: int) -> bool:
            """Half of the budget that the baseline left is for the trials."""
            left = task.answers_left(spent.invariant(), answered) if answered else math.inf
            return left - BLOCK >= answered + BLOCK

        self.progress.phase("demonstrations, answering train questions", None)
        pool = await collect(
            built,
            train,
            task.scorer.only([task.demo_metric]),
            n_demos=filled,
            filled=filled,
            threshold=task.demo_threshold,
            limit=self.limit,
            done=self.progress.step,
            kinds=task.recipe.search.demo_kinds,
            affordable=affordable,
        )
        self.progress.note(_describe_pool(pool))
        self.phase_again()
        return pool

    async def _run_once(self, name: str, make: Callable[[], Awaitable[Any]]) -> Any:
        """Returns the result of `make`, run once for all concurrent callers. A cancelled caller does not stop
        it.
        """
        if name not in self._making:
            self._making[name] = asyncio.ensure_future(_as_coroutine(make))
        return await asyncio.shield(self._making[name])


def _present(program: RagProgram) -> Proposals:
    """Returns the present instructions of `program` alone, which cost nothing."""
    return Proposals({name: (p.signature.instructions,) for name, p in program.named_predictors()})


def _needs_all_demos(program: RagProgram, candidate: Candidate) -> bool:
    """Returns whether demonstrations are selected by question, so that the program needs the whole pool."""
    return program.chooses_demos or candidate.demo_kind == NEAREST


async def _as_coroutine(make: Callable[[], Awaitable[Any]]) -> Any:
    return await make()


def _describe_pool(pool: DemoPool) -> str:
    """Returns the demonstrations of `pool` in a sentence: with answers of the model, and with gold ones."""
    parts = [f"{len(pool.scores)} bootstrapped, with answers of the model that were right"]
    if pool.labelled:
        parts.append(f"{pool.labelled} more labelled, with gold answers alone")
    answered = f"{quantity(pool.n_answered, 'train question')} {'was' if pool.n_answered == 1 else 'were'}"
    return f"demonstrations: {'; '.join(parts)} ({answered} answered for them)"
