"""The extras of the package, the modules that each brings, and whether they are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "embedded": ("xllamacpp", "jsonschema"),
    "dense": ("onnxruntime", "faiss", "tokenizers"),
    "lucene": ("pyserini", "jnius"),
    "web": ("ddgs", "trafilatura"),
    "api": ("rapidfuzz",),
    "hub": ("datasets",),
    "metrics": ("rouge_score", "ftfy", "punkt"),
    "nli": ("torch", "transformers"),
    "vllm": ("vllm",),
    "ray": ("ray",),
    "redis": ("redis",),
    "postgres": ("psycopg",),
}
"""The modules of each extra that something of ragc imports by itself."""


def is_installed(module: str) -> bool:
    """Whether `module`, of the top level, can be found; imports nothing."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def missing_modules(modules: Iterable[str]) -> tuple[str, ...]:
    """Those of `modules` that are not installed, in order."""
    return tuple(module for module in modules if not is_installed(module))


def remedy(extra: str) -> str:
    """The command that installs `extra`."""
    return f'pip install "ragc[{extra}]"'
