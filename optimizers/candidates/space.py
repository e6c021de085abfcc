"""The search space of a recipe: declared knobs, demonstrations, instructions, targets and programs.

A candidate is one point of the space. `search_space` derives the space from the recipe and a runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragc.core.digest import digest
from ragc.errors import CapabilityMissing, UsageError
from ragc.programs import Method
from ragc.programs.knobs import Knob, Knobs, Value
from ragc.programs.runtime import Runtime
from ragc.recipe import Recipe
from ragc.recipe.values import FILLED, NEAREST
from ragc.task.baseline import baseline_knobs, demo_kinds, fixed_knobs


@dataclass(frozen=True, slots=True)
class Candidate:
    """One point of the search space.

    `demos` is the number of demonstrations each predictor shows (0 for none), the first of demonstration set
    number `demo_set`. Predictors in `own_demos` show their own (count, set) instead. `instructions` are
    numbers of instruction candidates by predictor; other predictors have their present ones. `targets` names
    the target of a role if it is not the role's own. `program` is "" if the study has one program.
    `demo_kind` is one of `recipe.values.DEMO_KINDS`; nearest demonstrations are selected from the whole
    pool, which has one set.
    """

    knobs: Mapping[str, Value] = field(default_factory=dict)
    demos: int = 0
    demo_set: int = 0
    instructions: Mapping[str, int] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    program: str = ""
    own_demos: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    demo_kind: str = FILLED
    _mark: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def demos_of(self, predictor: str) -> tuple[int, int]:
        """Returns the number of demonstrations that `predictor` shows, and the number of their set."""
        return self.own_demos.get(predictor, (self.demos, self.demo_set))

    def with_demos(self, demos: int, demo_set: int) -> Candidate:
        """Returns the same candidate with another count and set for all predictors without their own."""
        own = {name: shown for name, shown in self.own_demos.items() if shown != (demos, demo_set)}
        return replace(self, demos=demos, demo_set=demo_set, own_demos=own)

    def with_at_most(self, demos: int) -> Candidate:
        """Returns the same candidate with at most `demos` demonstrations a predictor."""
        if not demos:
            return replace(self, demos=0, demo_set=0, own_demos={}, demo_kind=FILLED)
        own = {name: (min(count, demos), number) for name, (count, number) in self.own_demos.items()}
        own = {name: (count, number if count else 0) for name, (count, number) in own.items()}
        return replace(self, own_demos=own).with_demos(min(self.demos, demos), self.demo_set)

    def with_own_demos(self, predictor: str, count: int, demo_set: int) -> Candidate:
        """Returns the same candidate with `count` demonstrations of set `demo_set` for `predictor` alone."""
        own = {**self.own_demos, predictor: (count, demo_set if count else 0)}
        return replace(self, own_demos=own).with_demos(self.demos, self.demo_set)

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only; `of` is the inverse. Fields that only some studies vary are left out at
        their defaults.
        """
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
        """Returns the inverse of `to_json`."""
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
        """A digest of 12 hexadecimal digits; equal candidates have equal digests."""
        if not self._mark:
            self._mark.append(digest(self.to_json())[:12])
        return self._mark[0]


Shown = Callable[[Candidate], Candidate]


def _unchanged(candidate: Candidate) -> Candidate:
    return candidate


@dataclass(frozen=True, slots=True)
class ProgramSpace:
    """The search space of one program: some declared knobs, demonstrations, instructions.

    `fixed` values hold for every candidate. `demos` is the most demonstrations shown, from `demo_sets` sets;
    with 0 none are searched. `instructions` is the number of candidates of each predictor, including its
    present instructions, number 0; rounds may bring it to `instructions_most` (0: no rounds). `predictors`
    may show their own demonstrations; empty if there is only one. `program` is "" if the study has one
    program.
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
    instructions_most: int = 0

    def sets(self, kind: str) -> range:
        """Returns the numbers of the demonstration sets of a `kind`."""
        return range(1 if kind == NEAREST else self.demo_sets)

    @property
    def size(self) -> int:
        """Returns the number of dimensions; 0 if nothing varies.

        All demonstrations of single predictors are one dimension.
        """
        sets = 1 if self.demos and self.demo_sets > 1 else 0
        own = 1 if self.demos and self.predictors else 0
        kinds = 1 if self.demos and len(self.demo_kinds) > 1 else 0
        return len(self.knobs) + (1 if self.demos else 0) + sets + own + kinds + len(self.instruction_options)

    @property
    def instruction_counts(self) -> dict[str, int]:
        """The number of instruction candidates of each predictor that has more than one."""
        return {name: count for name, count in self.instructions.items() if count > 1}

    @property
    def instruction_options(self) -> dict[str, int]:
        """Returns the size of each predictor's dimension of instructions, texts of later rounds included.

        It is constant for a whole study, because Optuna accepts no dimension that grows.
        """
        counts = {name: max(count, self.instructions_most) for name, count in self.instructions.items()}
        return {name: count for name, count in counts.items() if count > 1}

    def written(self, candidate: Candidate) -> Candidate:
        """Returns `candidate` with instructions that exist in the place of those still to come."""
        numbers = {name: number % self.instructions[name] for name, number in candidate.instructions.items()}
        return replace(candidate, instructions={name: number for name, number in numbers.items() if number})

    def baseline(self) -> Candidate:
        """Returns the declared defaults, overridden by `fixed`, without demonstrations."""
        settings = self.kind.of(dict(self.fixed))
        values: dict[str, Value] = settings.to_json(keep={knob.name for knob in self.knobs})
        return Candidate(values, program=self.program)

    def baseline_with_demos(self) -> Candidate:
        """Returns the baseline with the most demonstrations it may show."""
        kind = next(iter(self.demo_kinds), FILLED) if self.demos else FILLED
        return replace(self.baseline(), demos=self.demos, demo_kind=kind)

    def screening(self) -> Iterator[Candidate]:
        """Returns the initial candidates, chosen by rule and not at random.

        First the baseline with all demonstrations and its variants with each other kind. Then that baseline
        with one choice or switch changed to each of its other options, in the order of declaration. Without
        demonstrations all of these are left out. Last the first new instructions of each predictor.
        """
        base = self.baseline_with_demos()
        if self.demos:
            yield base
            kinds = (kind for kind in self.demo_kinds if kind != base.demo_kind)
            yield from (replace(base, demo_kind=kind) for kind in kinds)
            for knob in self.knobs:
                options = (False, True) if knob.kind == "switch" else knob.options
                active = self.kind.matters(knob, base.knobs)
                others = [option for option in options if active and option != base.knobs[knob.name]]
                changed = ({**base.knobs, knob.name: option} for option in others)
                rest = [other.name for other in self.knobs if other is not knob]
                yield from (replace(base, knobs=self.kind.settle(values, rest)) for values in changed)
        yield from (replace(base, instructions={name: 1}) for name in self.instruction_counts)

    def next_demo_set(
        self, candidate: Candidate, tried_marks: Container[str], shown: Shown = _unchanged
    ) -> Candidate | None:
        """Returns `candidate` with the first demonstration set whose digest is not in `tried_marks`.

        None if it shows no demonstrations or all sets were tried. The set matters as much as most knobs, and
        a sampler cannot generalise from one set to another. `shown` is as in `SearchSpace`.
        """
        numbers = self.sets(candidate.demo_kind) if candidate.demos else ()
        others = (shown(candidate.with_demos(candidate.demos, number)) for number in numbers)
        return next((other for other in others if other.mark not in tried_marks), None)

    def next_own_demo_set(
        self, candidate: Candidate, tried_marks: Container[str], shown: Shown = _unchanged
    ) -> Candidate | None:
        """Returns `candidate` with another set, or none, for one predictor: the first not in `tried_marks`.

        None if it shows no demonstrations, has one predictor, or all were tried.
        """
        sets = self.sets(candidate.demo_kind)
        choices = [*((candidate.demos, number) for number in sets), (0, 0)]
        others = (
            shown(candidate.with_own_demos(name, count, number))
            for name in (self.predictors if candidate.demos else ())
            for count, number in choices
        )
        return next((other for other in others if other.mark not in tried_marks), None)


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The search space of a study: its programs, the space of each, and the targets of each role.

    The first of `parts` holds the baseline. `targets` has the target names allowed for each role, the role's
    own first. `shown` gives of several candidates that show one program the first.
    """

    parts: tuple[ProgramSpace, ...]
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shown: Shown = field(default=_unchanged, compare=False, repr=False)

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
        """The number of dimensions; 0 if nothing varies."""
        return sum(part.size for part in self.parts) + (len(self.parts) > 1) + len(self.targets)

    def part(self, candidate: Candidate) -> ProgramSpace:
        """Returns the space of the candidate's program."""
        return next(part for part in self.parts if part.program == candidate.program)

    def baseline(self) -> Candidate:
        """Returns the baseline of the recipe's own program."""
        return self.first.baseline()

    def screening(self, most: int) -> list[Candidate]:
        """Returns at most `most` initial candidates.

        In order: the baseline of each other program, the screening of the first program, each role with each
        other target, and the screening of the other programs.
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

    def next_demo_set(self, candidate: Candidate, tried_marks: Container[str]) -> Candidate | None:
        """Returns `ProgramSpace.next_demo_set` of the candidate's program."""
        return self.part(candidate).next_demo_set(candidate, tried_marks, self.shown)

    def next_own_demo_set(self, candidate: Candidate, tried_marks: Container[str]) -> Candidate | None:
        """Returns `ProgramSpace.next_own_demo_set` of the candidate's program."""
        return self.part(candidate).next_own_demo_set(candidate, tried_marks, self.shown)

    def with_instruction_counts(self, program: str, counts: Mapping[str, int], most: int = 0) -> SearchSpace:
        """Returns the same space with `counts` instruction candidates by predictor in `program`.

        Rounds may bring them to `most`; with 0 there are no rounds.
        """
        parts = [
            replace(part, instructions=dict(counts), instructions_most=most)
            if part.program == program
            else part
            for part in self.parts
        ]
        return replace(self, parts=tuple(parts))

    def grown(self, texts: Mapping[str, Mapping[str, Sequence[str]]]) -> SearchSpace:
        """Returns the same space with as many more instruction candidates as `texts` has by program and
        predictor.
        """
        parts = []
        for part in self.parts:
            new = texts.get(part.program, {})
            counts = {name: number + len(new.get(name, ())) for name, number in part.instructions.items()}
            parts.append(replace(part, instructions=counts))
        return replace(self, parts=tuple(parts))

    def written(self, candidate: Candidate) -> Candidate:
        """Returns `ProgramSpace.written` of the candidate's program, under the first name of that."""
        return self.shown(self.part(candidate).written(candidate))


def describe_candidate(candidate: Candidate, knobs: Mapping[str, Value], *, program: str = "") -> str:
    """Returns `candidate` in words: the `program` if given, the given `knobs`, and its other choices."""
    kind = "" if candidate.demo_kind == FILLED else f"{candidate.demo_kind} "
    parts = [program] if program else []
    parts += [f"{name}={value}" for name, value in knobs.items()]
    if candidate.demos:
        parts.append(_describe_demos(candidate.demos, candidate.demo_set, kind))
    parts += [f"{name}: {_describe_demos(*own, kind)}" for name, own in candidate.own_demos.items()]
    parts += [f"{name}: instructions {number}" for name, number in candidate.instructions.items()]
    parts += [f"{role}={name}" for role, name in candidate.targets.items()]
    return "; ".join(parts)


def describe_difference(candidate: Candidate, recipe: Recipe) -> str:
    """Returns the differences of `candidate` from the baseline of its program, in a few words."""
    own, *others = recipe.methods
    chosen = next((other for other in others if other.id == candidate.program), own)
    base = baseline_knobs(recipe, chosen)
    changed = {name: value for name, value in candidate.knobs.items() if base[name] != value}
    return describe_candidate(candidate, changed, program="" if chosen is own else chosen.id) or "baseline"


def _describe_demos(count: int, number: int, kind: str) -> str:
    """Returns the count and kind of demonstrations and their set."""
    return f"{count} {kind}demonstration{'' if count == 1 else 's'}, set {number}"


DEMO_SETS = 4
"""The number of demonstration sets, each an ordering of the pool."""


def search_space(recipe: Recipe, runtime: Runtime) -> SearchSpace:
    """Returns the search space of `recipe` for programs on `runtime`. Raises UsageError as `Method.build`."""
    several = len(recipe.methods) > 1
    parts = tuple(_space(recipe, chosen, runtime, chosen.id if several else "") for chosen in recipe.methods)
    return SearchSpace(parts, recipe.search.targets)


def _space(recipe: Recipe, chosen: Method, runtime: Runtime, program: str) -> ProgramSpace:
    space = ProgramSpace(
        tuple(_possible(knob, recipe, chosen, runtime) for knob in recipe.space(chosen)),
        chosen.knobs,
        fixed=fixed_knobs(recipe, chosen),
        demos=recipe.search.demos,
        demo_sets=DEMO_SETS,
        program=program,
    )
    if not space.demos:
        return space
    built = chosen.build(runtime, space.fixed)
    names = tuple(name for name, _ in built.named_predictors())
    own = names if len(names) > 1 else ()
    return replace(space, demo_kinds=demo_kinds(recipe, built), predictors=own)


def _possible(knob: Knob, recipe: Recipe, chosen: Method, runtime: Runtime) -> Knob:
    """Returns `knob` without options that need capabilities the targets lack, unless the recipe lists them.

    The only capability that a knob asks for is token probabilities.
    """
    able = all("logprobs" in target.capabilities for target in runtime.targets.values())
    if knob.kind != "choice" or able or knob.name in recipe.search.ranges:
        return knob

    def builds(option: Value) -> bool:
        try:
            chosen.build(runtime, {**recipe.fixed(chosen), knob.name: option})
        except CapabilityMissing:
            return False
        except UsageError:  # another problem, reported when the baseline is built
            return True
        return True

    options = tuple(option for option in knob.options if option == knob.default or builds(option))
    return replace(knob, options=options)
