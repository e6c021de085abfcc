"""ragc: a compiler for declarative retrieval-augmented programs.

Importing this package is quick; DSPy, Optuna and the rest are imported by what needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragc.api import ask, compare, compile, evaluate, export, load, objective, plan, study, trust
from ragc.errors import RagcError
from ragc.records import Hit, Passage, Question
from ragc.version import __version__

if TYPE_CHECKING:
    from ragc.optimizers.integrations.dspy_compile import Compile

__all__ = [
    "Compile",
    "Hit",
    "Passage",
    "Question",
    "RagcError",
    "__version__",
    "ask",
    "compare",
    "compile",
    "evaluate",
    "export",
    "load",
    "objective",
    "plan",
    "study",
    "trust",
]


def __getattr__(name: str) -> Any:
    if name == "Compile":
        from ragc.optimizers.integrations.dspy_compile import Compile

        return Compile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
