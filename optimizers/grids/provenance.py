"""The provenance of a grid: what was recorded, on which data and models, where and when."""

from __future__ import annotations

import os
import platform
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from ragc.core.digest import digest
from ragc.core.files import read_text
from ragc.corpora import datasets
from ragc.corpora.datasets import BUILT_IN
from ragc.corpora.files.records import is_address
from ragc.errors import UsageError
from ragc.optimizers.grids.files import FORMAT, mark
from ragc.targets.base import Target
from ragc.task.base import Task

_SHA256 = "@sha256:"

_DIFFERENCES = {
    "program": "another program",
    "questions": "other questions",
    "train": "other train questions",
    "sources": "other passages, or sources with other options",
    "models": "another model, or one with other options",
    "metrics": "other metrics",
    "graders": "other options of metrics",
    "prompts": "other prompt files",
    "seed": "another seed",
    "baseline": "another baseline",
    "demonstrations": "other demonstrations",
}
"""What differs between two grids, by key of their identity, in the order in which it is reported."""


def facts(task: Task, baseline: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the provenance of a recording of `task`, without runs. `baseline` is setting 0 as JSON."""
    data = task.recipe.data
    known = task.facts
    identity = {
        "program": [task.method.id, task.method.code],
        "questions": known["data"]["dev"]["fingerprint"],
        "train": known["data"].get("train", {}).get("fingerprint", ""),
        "sources": {name: source["fingerprint"] for name, source in known["sources"].items()},
        "models": {role: target["identity"] for role, target in known["targets"].items()},
        "metrics": [metric.id for metric in task.metrics],
        "graders": digest(dict(task.recipe.metrics))[:16],
        "prompts": known.get("prompts", {}),
        "seed": task.seed,
        "baseline": mark(baseline),
    }
    return {
        "format": FORMAT,
        "program": task.method.id,
        "metrics": [metric.id for metric in task.metrics],
        "models": {role: describe_model(target) for role, target in task.runtime.targets.items()},
        "data": {
            "dataset": data.dataset,
            "dev": len(task.dev),
            "train": len(task.train),
            **origin_of(data.dataset),
        },
        "sources": {name: source["kind"] for name, source in known["sources"].items()},
        "in_flight": task.in_flight,
        "identity": identity,
        "demonstrations": {},
        "runs": [],
    }


def run_facts(task: Task) -> dict[str, Any]:
    """Returns the facts on this recording: machine, versions, and its begin."""
    return {
        "machine": f"{platform.machine()} {platform.system()}, {os.cpu_count()} cores",
        "versions": dict(task.facts["versions"]),
        "begun": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "settings": 0,
    }


def describe_model(target: Target) -> dict[str, Any]:
    """Returns the name of a model with the digest of its file, or of its identity if it has no file."""
    _, mark_of_file, sha256 = target.identity.partition(_SHA256)
    identity = {"sha256": sha256} if mark_of_file else {"identity": digest(target.identity)[:16]}
    model = target.model
    if PurePath(model).is_absolute():  # of this machine; the digest tells models apart
        model = PurePath(model).name
    return {"name": target.name.replace(target.model, model), "model": model, **identity}


def origin_of(dataset: str) -> dict[str, Any]:
    """Returns licence and address of a data set, if its record has them."""
    if dataset in BUILT_IN:
        record = tomllib.loads(read_text(Path(str(datasets.__file__)).parent / f"{dataset}.toml"))
        return {"licence": record["licence"], "home": record["source"]["url"]}
    if dataset in datasets.FILES and not is_address(dataset):
        card = datasets.card(dataset)
        return {"licence": {"questions": card.licence, "corpus": card.licence}, "home": card.home}
    return {}


def check_same(here: Mapping[str, Any], other: Mapping[str, Any], what: str, advice: str) -> None:
    """Raises UsageError unless two grids are of the same questions, data, model and program.

    `what` begins the sentence, such as "grids/b holds a grid with"; `advice` ends it. Demonstrations are
    compared if both have collected them.
    """
    pools, others = here.get("demonstrations", {}), other.get("demonstrations", {})
    common = pools.keys() & others.keys()
    mine = {**here["identity"], "demonstrations": {name: pools[name] for name in common}}
    theirs = {**other["identity"], "demonstrations": {name: others[name] for name in common}}
    for key, difference in _DIFFERENCES.items():
        if mine.get(key) != theirs.get(key):
            raise UsageError(f"{what} {difference}; {advice}")
