"""What `ragc doctor` checks: that this machine can do what a recipe may ask of it."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.metadata import PackageNotFoundError, version

from ragc.doctor_check import Check
from ragc.doctor_kept import SILENT, examine_kept
from ragc.progress import Progress

NEEDED = ("dspy", "litellm", "optuna", "diskcache", "pydantic", "jinja2", "bm25s")
OPTIONAL = {
    "xllamacpp": "embedded",
    "faiss": "dense",
    "pyserini": "lucene",
    "ddgs": "web",
    "rapidfuzz": "api",
    "datasets": "hub",
    "rouge_score": "metrics",
    "ftfy": "metrics",
    "punkt": "metrics",
    "transformers": "nli",
    "vllm": "vllm",
}


def examine(*, quick: bool = False, progress: Progress = SILENT) -> list[Check]:
    """Every check, the needed ones first; nothing is downloaded, sent or changed.

    What is kept on this machine is read whole unless `quick`: a second for each GB, of replies ten.
    """
    checks = [
        Check("python", (3, 11) <= sys.version_info[:2] < (3, 14), sys.version.split()[0]),
        Check(
            "cpus",
            True,
            f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()}",
        ),
        *(_library(name, f"pip install {name}", needed=True) for name in NEEDED),
        *examine_kept(whole=not quick, progress=progress),
        *(_library(name, f"pip install 'ragc[{extra}]'", needed=False) for name, extra in OPTIONAL.items()),
    ]
    return sorted(checks, key=lambda check: not check.needed)


def _library(name: str, remedy: str, *, needed: bool) -> Check:
    if importlib.util.find_spec(name) is None:
        return Check(name, False, f"not installed; {remedy}", needed)
    try:
        return Check(name, True, version(name), needed)
    except PackageNotFoundError:
        return Check(name, True, "installed, version unknown", needed)
