"""ragc: a compiler for declarative retrieval-augmented programs.

Compile, ask, measure:

    compiled = ragc.compile("recipe.toml", out="compiled/mine")
    ragc.ask("compiled/mine", "Which exception ends an iterator?").prediction
    ragc.evaluate("compiled/mine", split="dev")

Without a recipe:

    lm = ragc.target("embedded")
    local = ragc.source("bm25", corpus="handbook.jsonl")
    program = ragc.program("vanilla", main=lm, local=local, top_k=3)
    program(question="Which exception ends an iterator?").answer

Importing this package is quick. Its functions import DSPy, Optuna and the rest when they are called, and its
classes are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ragc.api import (
    ask,
    check_export,
    compare,
    compile,
    evaluate,
    export,
    grid,
    headroom,
    index,
    load,
    merge_grids,
    objective,
    paper_tables,
    plan,
    plan_grid,
    plan_reproduce,
    plan_training_data,
    program,
    read_grid,
    report,
    reproduce,
    serve,
    source,
    study,
    study_status,
    summarize,
    target,
    training_data,
    trust,
    trust_listing,
)
from ragc.compiled.access import Access
from ragc.errors import (
    ArtefactError,
    BudgetExhausted,
    CapabilityMissing,
    DataError,
    NothingAnswered,
    ParseFailure,
    RagcError,
    RecipeError,
    SourceError,
    StoreError,
    TargetError,
    TargetUnavailable,
    UnknownName,
    Untrusted,
    UsageError,
)
from ragc.records import Hit, Passage, Question
from ragc.version import __version__

if TYPE_CHECKING:
    import ragc.metrics
    import ragc.recipe  # noqa: F401 - an attribute, as `__getattr__` has it
    from ragc.compiled.base import CompiledProgram
    from ragc.compiled.evaluate import Evaluation
    from ragc.compiled.trust_listing import TrustListing
    from ragc.core.progress import Progress
    from ragc.corpora.sources.base import Source
    from ragc.exports.write import Exported
    from ragc.metrics.reports.compare_runs import RunComparison
    from ragc.metrics.stats.intervals import Interval
    from ragc.optimizers.compile import Compiled
    from ragc.optimizers.grids.grid import Grid
    from ragc.optimizers.grids.record import RecordedGrid
    from ragc.optimizers.grids.tables.result import Reproduction
    from ragc.optimizers.integrations.dspy_compile import Compile
    from ragc.optimizers.integrations.optuna_objective import Objective
    from ragc.optimizers.plan.headroom.result import Headroom
    from ragc.optimizers.search.status import StudyStatus
    from ragc.programs.base import RagProgram
    from ragc.programs.own import choice, number, switch
    from ragc.recipe import Recipe
    from ragc.reports.rows import RowsSummary
    from ragc.reports.write import WrittenReport
    from ragc.targets.base import Target
    from ragc.task.answering import Row
    from ragc.training.data.build import TrainingData

__all__ = [
    "Access",
    "ArtefactError",
    "BudgetExhausted",
    "CapabilityMissing",
    "Compile",
    "Compiled",
    "CompiledProgram",
    "DataError",
    "Evaluation",
    "Exported",
    "Grid",
    "Headroom",
    "Hit",
    "Interval",
    "NothingAnswered",
    "Objective",
    "ParseFailure",
    "Passage",
    "Progress",
    "Question",
    "RagProgram",
    "RagcError",
    "Recipe",
    "RecipeError",
    "RecordedGrid",
    "Reproduction",
    "Row",
    "RowsSummary",
    "RunComparison",
    "Source",
    "SourceError",
    "StoreError",
    "StudyStatus",
    "Target",
    "TargetError",
    "TargetUnavailable",
    "TrainingData",
    "TrustListing",
    "UnknownName",
    "Untrusted",
    "UsageError",
    "WrittenReport",
    "__version__",
    "ask",
    "check_export",
    "choice",
    "compare",
    "compile",
    "evaluate",
    "export",
    "grid",
    "headroom",
    "index",
    "load",
    "merge_grids",
    "number",
    "objective",
    "paper_tables",
    "plan",
    "plan_grid",
    "plan_reproduce",
    "plan_training_data",
    "program",
    "read_grid",
    "report",
    "reproduce",
    "serve",
    "source",
    "study",
    "study_status",
    "summarize",
    "switch",
    "target",
    "training_data",
    "trust",
    "trust_listing",
]

_IMPORTED_WHEN_USED = {
    "Compile": "ragc.optimizers.integrations.dspy_compile",
    "Compiled": "ragc.optimizers.compile",
    "CompiledProgram": "ragc.compiled.base",
    "Evaluation": "ragc.compiled.evaluate",
    "Exported": "ragc.exports.write",
    "Grid": "ragc.optimizers.grids.grid",
    "Headroom": "ragc.optimizers.plan.headroom.result",
    "Interval": "ragc.metrics.stats.intervals",
    "Objective": "ragc.optimizers.integrations.optuna_objective",
    "Progress": "ragc.core.progress",
    "RagProgram": "ragc.programs.base",
    "Recipe": "ragc.recipe",
    "RecordedGrid": "ragc.optimizers.grids.record",
    "Reproduction": "ragc.optimizers.grids.tables.result",
    "Row": "ragc.task.answering",
    "RowsSummary": "ragc.reports.rows",
    "RunComparison": "ragc.metrics.reports.compare_runs",
    "Source": "ragc.corpora.sources.base",
    "StudyStatus": "ragc.optimizers.search.status",
    "Target": "ragc.targets.base",
    "TrainingData": "ragc.training.data.build",
    "TrustListing": "ragc.compiled.trust_listing",
    "WrittenReport": "ragc.reports.write",
    "choice": "ragc.programs.own",
    "number": "ragc.programs.own",
    "switch": "ragc.programs.own",
}
"""The module of each class, which is imported on first use."""

_PACKAGES = ("metrics", "recipe")
"""Packages that are attributes of `ragc`, as in `ragc.metrics.score("f1", prediction, golds)`."""


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in _IMPORTED_WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_IMPORTED_WHEN_USED[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
