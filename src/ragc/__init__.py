"""ragc: a compiler for declarative retrieval-augmented programs.

Importing this package is quick; DSPy, Optuna and the rest are imported by what needs them.
"""

from __future__ import annotations

from ragc.api import ask, compile, evaluate, export, load, objective, plan, study
from ragc.errors import RagcError
from ragc.records import Hit, Passage, Question
from ragc.version import __version__

__all__ = [
    "Hit",
    "Passage",
    "Question",
    "RagcError",
    "__version__",
    "ask",
    "compile",
    "evaluate",
    "export",
    "load",
    "objective",
    "plan",
    "study",
]
