"""A recipe, resolved: what to compile, from which data, on which models, within which budget.

`ragc.recipe.models` defines the tables. Most records are the tables as written, with "all" expanded and
defaults filled in. `ragc.recipe.validate` makes a `Recipe` of a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragc.downloads.hub import is_hub_file
from ragc.metrics.settings import GraderSettings
from ragc.programs import Method, method
from ragc.programs.knobs import Knob, Knobs, Value
from ragc.recipe.models import Budget, Data, GridSpec, Search, SourceSpec, StudySpec, TrainingSpec
from ragc.recipe.values import CROSS, OWN_OPTIMIZER
from ragc.targets import TARGETS
from ragc.targets.options import TargetSpec


@dataclass(frozen=True, slots=True)
class Recipe:
    """A resolved recipe. Paths are stored as written, relative to `base`, which is ignored in comparisons.

    `concurrency` is the number of questions in flight; None means as many as the targets answer at once.
    `knobs` holds only the values that the recipe fixes. `report` is never empty; `assessing` holds the
    settings of graders. `prompts` are files by predictor, imported before the search. `grid` is for `ragc
    grid` alone, `training_data` for `ragc data`. `search.efforts` is empty: each effort is a target in
    `search.targets`; `grid.product` is too: its combinations are among `grid.settings`.
    """

    program: str
    seed: int = 0
    concurrency: int | None = None
    knobs: Mapping[str, Value] = field(default_factory=dict)
    search: Search = field(default_factory=Search)
    data: Data = field(default_factory=Data)
    sources: Mapping[str, SourceSpec] = field(default_factory=dict)
    targets: Mapping[str, TargetSpec] = field(default_factory=dict)
    report: tuple[str, ...] = ("em", "f1")
    assessing: GraderSettings = field(default_factory=GraderSettings)
    budget: Budget = field(default_factory=Budget)
    study: StudySpec = field(default_factory=StudySpec)
    prompts: Mapping[str, str] = field(default_factory=dict)
    grid: GridSpec = field(default_factory=GridSpec)
    training_data: TrainingSpec = field(default_factory=TrainingSpec)
    base: Path = field(default=Path(), compare=False)

    @property
    def method(self) -> Method:
        """The record of the program."""
        return method(self.program, self.base)

    @property
    def methods(self) -> tuple[Method, ...]:
        """The records of the program and of those compared with it."""
        return (self.method, *(method(name) for name in self.search.programs))

    def path(self, text: str) -> Path:
        """Returns the path `text` of this recipe, resolved against `base`."""
        return self.base / text

    def target_specs(self) -> dict[str, TargetSpec]:
        """Returns the targets by name, ready to be built.

        Paths of embedded weights, and of folders that vLLM loads, are resolved against `base`.
        """
        return {name: self._resolved(spec) for name, spec in self.targets.items()}

    def _resolved(self, spec: TargetSpec) -> TargetSpec:
        record, path = TARGETS.get(spec.kind), self.path(spec.model)
        folder = record.model_folder is not None and record.model_folder(spec.options) and path.is_dir()
        named = spec.model and not is_hub_file(spec.model)
        return spec.replace(model=str(path)) if named and (record.model_file or folder) else spec

    def settings(self) -> Knobs:
        """Returns the program's knobs: the recipe's values, with the declared defaults for the rest."""
        knobs: Knobs = self.method.knobs.of(self.fixed(self.method))
        return knobs

    def fixed(self, chosen: Method) -> dict[str, Value]:
        """Returns the recipe's fixed values for knobs that the program `chosen` has."""
        own = {knob.name for knob in chosen.knobs.list_knobs()}
        return {name: value for name, value in self.knobs.items() if name in own}

    def space(self, chosen: Method | None = None) -> tuple[Knob, ...]:
        """Returns the searched knobs of the recipe's program or of `chosen`, in the order of declaration.

        The recipe's ranges override the declared ones.
        """
        knobs, ranges = (chosen or self.method).knobs.list_knobs(), self.search.ranges
        return tuple(
            narrowed(knob, ranges.get(knob.name)) for knob in knobs if knob.name in self.search.knobs
        )

    @property
    def searches_nothing(self) -> bool:
        """Whether no knob, demonstration, instruction, target or program is searched."""
        search = self.search
        varied = search.demos or search.instructions or search.targets or self.methods[1:]
        return not varied and not any(map(self.space, self.methods))

    @property
    def needs_train(self) -> bool:
        """Whether what is searched is made of train questions."""
        search = self.search
        shown = search.demos and set(search.demo_kinds) - {CROSS}
        return bool(shown or search.instructions or search.optimizer != OWN_OPTIMIZER)

    def identity(self) -> str:
        """Returns the text that identifies a study of this recipe: everything except what may change on
        resuming.

        Those are the budget, prices, the number of questions in flight, the grid, and what training data is
        made.
        """
        unpriced = {
            name: spec.replace(options={key: value for key, value in spec.options.items() if key != "price"})
            for name, spec in self.targets.items()
        }
        same = replace(self, budget=Budget(), concurrency=None, targets=unpriced)
        return replace(same, grid=GridSpec(), training_data=TrainingSpec()).to_toml()

    def to_toml(self) -> str:
        """Returns the recipe as TOML with all defaults; loading it returns an equal recipe."""
        from ragc.recipe.write import recipe_text

        return recipe_text(self)


def narrowed(knob: Knob, limits: Sequence[Value] | None) -> Knob:
    """Returns `knob` with the range `limits`: (low, high) of a number, else the options.

    A declared default outside the limits is replaced by the nearest value inside, or the first option.
    """
    if limits is None:
        return knob
    if knob.kind in ("switch", "choice"):
        default = knob.default if knob.default in limits else limits[0]
        return replace(knob, kind="choice", options=tuple(limits), default=default)
    number = int if knob.kind == "int" else float
    low, high = number(limits[0]), number(limits[1])
    return replace(knob, low=low, high=high, default=min(max(number(knob.default), low), high))
