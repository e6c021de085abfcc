"""Search space of a recipe: declared knobs, demonstrations, instructions, targets and programs.

A candidate is one point of it. The recipe says what varies in each of its programs, on the runtime of a
task.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ragc.core.digest import digest
from ragc.errors import CapabilityMissing, UsageError
from ragc.optimizers.demos.pool import label_field
from ragc.programs import Method
from ragc.programs.base import RagProgram
from ragc.programs.knobs import Knob, Knobs, Value
from ragc.programs.runtime import Runtime
from ragc.recipe import Recipe
from ragc.recipe.resolved import BALANCED, FILLED, NEAREST


@dataclass(frozen=True, slots=True)
class Candidate:
    """One point of the search space.

    `demos` is how many demonstrations are shown (0 for none), taken from the front of demonstration set
    number `demo_set`, by every predictor but those in `own_demos`, which show a number and a set of their
    own: (count, set) by predictor. `instructions` are numbers of instruction candidates by predictor; a
    predictor that is not named keeps its own. `targets` says which target plays a role, where not the role's
    own. `program` is "" where the study has one program. `demo_kind` is one of `recipe.resolved.DEMO_KINDS`;
    the nearest are chosen from the whole pool, which has one set.
    """

    knobs: Mapping[str, Value] = field(default_factory=dict)
    demos: int = 0
    demo_set: int = 0
    instructions: Mapping[str, int] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    program: str = ""
    own_demos: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    demo_kind: str = FILLED

    def demos_of(self, predictor: str) -> tuple[int, int]:
        """How many demonstrations `predictor` shows, and of which set."""
        return self.own_demos.get(predictor, (self.demos, self.demo_set))

    def with_demos(self, demos: int, demo_set: int) -> Candidate:
        """The same candidate with another number and set for all predictors that have none of their own."""
        own = {name: shown for name, shown in self.own_demos.items() if shown != (demos, demo_set)}
        return replace(self, demos=demos, demo_set=demo_set, own_demos=own)

    def with_own_demos(self, predictor: str, count: int, demo_set: int) -> Candidate:
        """The same candidate with `count` demonstrations of set `demo_set` for `predictor` alone."""
        own = {**self.own_demos, predictor: (count, demo_set if count else 0)}
        return replace(self, own_demos=own).with_demos(self.demos, self.demo_set)

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse. What only some studies vary stands there only if it was."""
        some = {
            "demo_kind": "" if self.demo_kind == FILLED else self.demo_kind,
            "own_demos": {name: list(shown) for name, shown in sorted(self.own_demos.items())},
            "instructions": dict(sorted(self.instructions.items())),
            "targets": dict(sorted(self.targets.items())),
            "program": self.program,
        }
        base = {"knobs": dict(self.knobs), "demos": self.demos, "demo_set": self.demo_set}
        return base | {name: value for name, value in some.items() if value}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Candidate:
        """The candidate that `to_json` described."""
        return cls(
            dict(value["knobs"]),
            int(value["demos"]),
            int(value["demo_set"]),
            {name: int(number) for name, number in value.get("instructions", {}).items()},
            dict(value.get("targets", {})),
            str(value.get("program", "")),
            {name: (int(count), int(number)) for name, (count, number) in value.get("own_demos", {}).items()},
            str(value.get("demo_kind", FILLED)),
        )

    @property
    def mark(self) -> str:
        """A short digest; equal candidates have equal marks."""
        return digest(self.to_json())[:12]


@dataclass(frozen=True, slots=True)
class ProgramSpace:
    """What may vary in one program: some declared knobs, demonstrations, instructions.

    `fixed` are values that hold for every candidate. `demos` is the most demonstrations shown,
    drawn from `demo_sets` sets; 0 searches none. `instructions` is how many candidates each predictor has,
    its present instructions, number 0, among them. `predictors` are those that may show demonstrations of
    their own, none where there is one only. `program` is "" where the study has one program.
    """

    knobs: tuple[Knob, ...]
    kind: type[Knobs]
    fixed: Mapping[str, Value] = field(default_factory=dict)
    demos: int = 0
    demo_sets: int = 1
    instructions: Mapping[str, int] = field(default_factory=dict)
    program: str = ""
    predictors: tuple[str, ...] = ()
    demo_kinds: tuple[str, ...] = (FILLED,)

    def sets(self, kind: str) -> range:
        """The numbers of the sets there are of a `kind`."""
        return range(1 if kind == NEAREST else self.demo_sets)

    @property
    def size(self) -> int:
        """The number of dimensions; 0 when nothing varies. All that predictors have of their own is one."""
        sets = 1 if self.demos and self.demo_sets > 1 else 0
        own = 1 if self.demos and self.predictors else 0
        kinds = 1 if self.demos and len(self.demo_kinds) > 1 else 0
        return len(self.knobs) + (1 if self.demos else 0) + sets + own + kinds + len(self.instruction_counts)

    @property
    def instruction_counts(self) -> dict[str, int]:
        """The predictors that have a choice of instructions, and of how many."""
        return {name: count for name, count in self.instructions.items() if count > 1}

    def baseline(self) -> Candidate:
        """The declared defaults with `fixed` over them, and no demonstrations."""
        values: dict[str, Value] = self.kind.of(dict(self.fixed)).to_json()
        return Candidate(values, program=self.program)

    def baseline_with_demos(self) -> Candidate:
        """The baseline with all demonstrations, if it may show any."""
        kind = self.demo_kinds[0] if self.demos else FILLED
        return replace(self.baseline(), demos=self.demos, demo_kind=kind)

    def screening(self) -> Iterator[Candidate]:
        """Candidates to begin with, chosen by rule and not by chance.

        The baseline with all demonstrations, those of each other kind, then the first with one choice or
        switch moved to one of its other options, in the order of declaration; none without demonstrations.
        Then the first new instructions of each predictor.
        """
        base = self.baseline_with_demos()
        if self.demos:
            yield base
            yield from (replace(base, demo_kind=kind) for kind in self.demo_kinds[1:])
            for knob in self.knobs:
                options = (False, True) if knob.kind == "switch" else knob.options
                active = self.kind.matters(knob, base.knobs)
                others = [option for option in options if active and option != base.knobs[knob.name]]
                moved = ({**base.knobs, knob.name: option} for option in others)
                rest = [other.name for other in self.knobs if other is not knob]
                yield from (replace(base, knobs=self.kind.settle(values, rest)) for values in moved)
        yield from (replace(base, instructions={name: 1}) for name in self.instruction_counts)

    def next_demo_set(self, candidate: Candidate, tried: Container[str]) -> Candidate | None:
        """`candidate` with the first other demonstration set whose mark is not among those `tried`.

        None when it shows no demonstrations or all sets were tried. Which set is shown matters as much as
        most knobs do, and a sampler learns nothing about one set from another.
        """
        sets = self.sets(candidate.demo_kind) if candidate.demos else ()
        others = (candidate.with_demos(candidate.demos, number) for number in sets)
        return next((other for other in others if other.mark not in tried), None)

    def next_own_demo_set(self, candidate: Candidate, tried: Container[str]) -> Candidate | None:
        """`candidate` with another set, or none, for one predictor; the first whose mark is not `tried`.

        None when it shows no demonstrations, has one predictor, or all were tried.
        """
        sets = self.sets(candidate.demo_kind)
        choices = [*((candidate.demos, number) for number in sets), (0, 0)]
        others = (
            candidate.with_own_demos(name, count, number)
            for name in (self.predictors if candidate.demos else ())
            for count, number in choices
        )
        return next((other for other in others if other.mark not in tried), None)


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """What a study may vary: which program, what varies in it, and which target plays a role.

    The first of `parts` holds the baseline. `targets` are the names that each role may be played by, the
    role's own first.
    """

    parts: tuple[ProgramSpace, ...]
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def first(self) -> ProgramSpace:
        """The space of the recipe's own program."""
        return self.parts[0]

    @property
    def demos(self) -> int:
        """The most demonstrations shown."""
        return self.first.demos

    @property
    def size(self) -> int:
        """The number of dimensions; 0 when nothing varies."""
        return sum(part.size for part in self.parts) + (len(self.parts) > 1) + len(self.targets)

    def part(self, candidate: Candidate) -> ProgramSpace:
        """The space of the candidate's program."""
        return next(part for part in self.parts if part.program == candidate.program)

    def baseline(self) -> Candidate:
        """The declared defaults of the recipe's own program, with what the recipe fixes over them."""
        return self.first.baseline()

    def screening(self, most: int) -> list[Candidate]:
        """At most `most` candidates to begin with: each other program as it is, then what `ProgramSpace`
        begins with in the first program, then each role played by another target, then the other programs'
        rest.
        """
        first, *others = self.parts
        candidates = [part.baseline() for part in others]
        candidates += first.screening()
        base = first.baseline_with_demos()
        candidates += [
            replace(base, targets={role: name}) for role, names in self.targets.items() for name in names[1:]
        ]
        for part in others:
            candidates += part.screening()
        return candidates[:most]

    def next_demo_set(self, candidate: Candidate, tried: Container[str]) -> Candidate | None:
        """As `ProgramSpace.next_demo_set`, in the candidate's program."""
        return self.part(candidate).next_demo_set(candidate, tried)

    def next_own_demo_set(self, candidate: Candidate, tried: Container[str]) -> Candidate | None:
        """As `ProgramSpace.next_own_demo_set`, in the candidate's program."""
        return self.part(candidate).next_own_demo_set(candidate, tried)

    def with_instruction_counts(self, program: str, counts: Mapping[str, int]) -> SearchSpace:
        """These spaces with `counts` instruction candidates by predictor in `program`."""
        parts = [replace(p, instructions=dict(counts)) if p.program == program else p for p in self.parts]
        return replace(self, parts=tuple(parts))


def describe_candidate(candidate: Candidate, knobs: Mapping[str, Value], *, program: str = "") -> str:
    """`candidate` in words: its `program` where that is named, those of its `knobs`, all else it chose."""
    kind = "" if candidate.demo_kind == FILLED else f"{candidate.demo_kind} "
    parts = [program] if program else []
    parts += [f"{name}={value}" for name, value in knobs.items()]
    if candidate.demos:
        parts.append(_describe_demos(candidate.demos, candidate.demo_set, kind))
    parts += [f"{name}: {_describe_demos(*own, kind)}" for name, own in candidate.own_demos.items()]
    parts += [f"{name}: instructions {number}" for name, number in candidate.instructions.items()]
    parts += [f"{role}={name}" for role, name in candidate.targets.items()]
    return "; ".join(parts)


def _describe_demos(count: int, number: int, kind: str) -> str:
    """So many demonstrations of a kind, and the set that they are of."""
    return f"{count} {kind}demonstration{'' if count == 1 else 's'}, set {number}"


DEMO_SETS = 4
"""Orderings of the demonstration pool that a study may choose from."""


def spaces(recipe: Recipe, runtime: Runtime) -> SearchSpace:
    """What `recipe` lets vary in programs on `runtime`. Raises UsageError as `Method.build` does."""
    several = len(recipe.methods) > 1
    parts = tuple(_space(recipe, chosen, runtime, chosen.id if several else "") for chosen in recipe.methods)
    return SearchSpace(parts, recipe.search.targets)


def _space(recipe: Recipe, chosen: Method, runtime: Runtime, program: str) -> ProgramSpace:
    knobs = recipe.space(chosen)
    space = ProgramSpace(
        tuple(_possible(knob, recipe, chosen, runtime) for knob in knobs),
        chosen.knobs,
        fixed=_fixed(recipe, chosen),
        demos=recipe.search.demos,
        demo_sets=DEMO_SETS,
        program=program,
    )
    if not space.demos:
        return space
    built = chosen.build(runtime, space.fixed)
    names = tuple(name for name, _ in built.named_predictors())
    own = names if len(names) > 1 else ()
    return replace(space, demo_kinds=_kinds(recipe, built), predictors=own)


def _fixed(recipe: Recipe, chosen: Method) -> dict[str, Value]:
    """What the recipe fixes, and that as many demonstrations are shown as are searched."""
    fixed = recipe.fixed(chosen)
    default, wanted = int(chosen.knobs.knob("icl_n").default), recipe.search.demos
    if "icl_n" in fixed or "icl_n" in recipe.search.knobs or default >= wanted:
        return fixed
    return {**fixed, "icl_n": wanted}


def _possible(knob: Knob, recipe: Recipe, chosen: Method, runtime: Runtime) -> Knob:
    """`knob` without options that ask the targets for what they cannot give, unless the recipe lists them.

    Only probabilities of tokens are asked for by a knob.
    """
    able = all("logprobs" in target.capabilities for target in runtime.targets.values())
    if knob.kind != "choice" or able or knob.name in recipe.search.ranges:
        return knob

    def builds(option: Value) -> bool:
        try:
            chosen.build(runtime, {**recipe.fixed(chosen), knob.name: option})
        except CapabilityMissing:
            return False
        except UsageError:  # of something else, which is told where the baseline is built
            return True
        return True

    options = tuple(option for option in knob.options if option == knob.default or builds(option))
    return replace(knob, options=options)


def _kinds(recipe: Recipe, program: RagProgram) -> tuple[str, ...]:
    """The kinds of demonstrations that `program` can show."""
    kinds = recipe.search.demo_kinds
    if BALANCED not in kinds or any(label_field(call.signature) for call in program.predictors()):
        return kinds
    if rest := tuple(kind for kind in kinds if kind != BALANCED):
        return rest
    raise UsageError(
        f"search.demo_kinds = [{BALANCED!r}] balances the labels of judgement calls, and "
        f"{program.method.id!r} has none whose output is one of a few labels; name another kind."
    )
