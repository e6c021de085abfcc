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

Importing this package is quick. Its functions and classes are imported when they are first used, and the
functions import DSPy, Optuna and the rest when they are called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ragc.compiled.access import Access
from ragc.core.extras import __version__
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

if TYPE_CHECKING:
    import ragc.metrics
    import ragc.recipe  # noqa: F401 - an attribute, as `__getattr__` has it
    from ragc.api.documents import label_answers, new, review_questions
    from ragc.api.exchange import check_export, export, trust, trust_listing
    from ragc.api.gate import gate, pack
    from ragc.api.grids import grid, paper_tables, read_grid, reproduce
    from ragc.api.names import list_names
    from ragc.api.parts import program, source, target
    from ragc.api.recipes import examine, index, pull, recipe_schema, write_beir
    from ragc.api.studies import compile, headroom, objective, study, study_status
    from ragc.api.training import train, training_data, write_base
    from ragc.api.use import ask, compare, evaluate, load, mcp, report, serve, summarize
    from ragc.compiled.base import CompiledProgram
    from ragc.compiled.evaluate import Evaluation
    from ragc.compiled.gate import Gate
    from ragc.compiled.pack import Packed
    from ragc.compiled.pull import Pulled
    from ragc.compiled.trust_listing import TrustListing
    from ragc.core.progress import Progress
    from ragc.corpora.sources.base import Source
    from ragc.doctor import Check
    from ragc.exports.write import Exported
    from ragc.metrics.compare import RunComparison
    from ragc.metrics.stats.resample import Interval
    from ragc.optimizers.compile import Compiled
    from ragc.optimizers.grids.grid import Grid
    from ragc.optimizers.grids.tables.result import Reproduction
    from ragc.optimizers.integrations.dspy_compile import Compile
    from ragc.optimizers.integrations.optuna_objective import Objective
    from ragc.optimizers.plan.headroom.result import Headroom
    from ragc.optimizers.status import StudyStatus
    from ragc.programs.base import RagProgram
    from ragc.programs.own import choice, number, switch
    from ragc.recipe import Recipe
    from ragc.reports.page import WrittenReport
    from ragc.reports.rows import RowsSummary
    from ragc.targets.base import Target
    from ragc.task.answering import Row
    from ragc.task.starter import NewProject
    from ragc.training.data.base import TrainingData
    from ragc.training.finetune.train import Trained

__all__ = [
    "Access",
    "ArtefactError",
    "BudgetExhausted",
    "CapabilityMissing",
    "Check",
    "Compile",
    "Compiled",
    "CompiledProgram",
    "DataError",
    "Evaluation",
    "Exported",
    "Gate",
    "Grid",
    "Headroom",
    "Hit",
    "Interval",
    "NewProject",
    "NothingAnswered",
    "Objective",
    "Packed",
    "ParseFailure",
    "Passage",
    "Progress",
    "Pulled",
    "Question",
    "RagProgram",
    "RagcError",
    "Recipe",
    "RecipeError",
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
    "Trained",
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
    "examine",
    "export",
    "gate",
    "grid",
    "headroom",
    "index",
    "label_answers",
    "list_names",
    "load",
    "mcp",
    "new",
    "number",
    "objective",
    "pack",
    "paper_tables",
    "program",
    "pull",
    "read_grid",
    "recipe_schema",
    "report",
    "reproduce",
    "review_questions",
    "serve",
    "source",
    "study",
    "study_status",
    "summarize",
    "switch",
    "target",
    "train",
    "training_data",
    "trust",
    "trust_listing",
    "write_base",
    "write_beir",
]

_NAMES_OF = {
    "ragc.api.documents": ("label_answers", "new", "review_questions"),
    "ragc.api.exchange": ("check_export", "export", "trust", "trust_listing"),
    "ragc.api.gate": ("gate", "pack"),
    "ragc.api.grids": ("grid", "paper_tables", "read_grid", "reproduce"),
    "ragc.api.names": ("list_names",),
    "ragc.api.parts": ("program", "source", "target"),
    "ragc.api.recipes": ("examine", "index", "pull", "recipe_schema", "write_beir"),
    "ragc.api.studies": ("compile", "headroom", "objective", "study", "study_status"),
    "ragc.api.training": ("train", "training_data", "write_base"),
    "ragc.api.use": ("ask", "compare", "evaluate", "load", "mcp", "report", "serve", "summarize"),
    "ragc.compiled.base": ("CompiledProgram",),
    "ragc.compiled.evaluate": ("Evaluation",),
    "ragc.compiled.gate": ("Gate",),
    "ragc.compiled.pack": ("Packed",),
    "ragc.compiled.pull": ("Pulled",),
    "ragc.compiled.trust_listing": ("TrustListing",),
    "ragc.core.progress": ("Progress",),
    "ragc.corpora.sources.base": ("Source",),
    "ragc.doctor": ("Check",),
    "ragc.exports.write": ("Exported",),
    "ragc.metrics.compare": ("RunComparison",),
    "ragc.metrics.stats.resample": ("Interval",),
    "ragc.optimizers.compile": ("Compiled",),
    "ragc.optimizers.grids.grid": ("Grid",),
    "ragc.optimizers.grids.tables.result": ("Reproduction",),
    "ragc.optimizers.integrations.dspy_compile": ("Compile",),
    "ragc.optimizers.integrations.optuna_objective": ("Objective",),
    "ragc.optimizers.plan.headroom.result": ("Headroom",),
    "ragc.optimizers.status": ("StudyStatus",),
    "ragc.programs.base": ("RagProgram",),
    "ragc.programs.own": ("choice", "number", "switch"),
    "ragc.recipe": ("Recipe",),
    "ragc.reports.rows": ("RowsSummary",),
    "ragc.reports.page": ("WrittenReport",),
    "ragc.targets.base": ("Target",),
    "ragc.task.answering": ("Row",),
    "ragc.task.starter": ("NewProject",),
    "ragc.training.data.base": ("TrainingData",),
    "ragc.training.finetune.train": ("Trained",),
}
"""The functions and classes of each module; a module is imported when one of its names is first used."""

_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}

_PACKAGES = ("metrics", "recipe")
"""Packages that are attributes of `ragc`, as in `ragc.metrics.score("f1", prediction, golds)`."""


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
