"""ragc: a compiler for declarative retrieval-augmented programs.

Importing this package is quick; DSPy, Optuna and the rest are imported by what needs them.
"""

from __future__ import annotations

from ragc.api import ask, compile, evaluate, load, plan
from ragc.errors import RagcError
from ragc.records import Hit, Passage, Question

__version__ = "0.1.0"

__all__ = ["Hit", "Passage", "Question", "RagcError", "ask", "compile", "evaluate", "load", "plan"]
