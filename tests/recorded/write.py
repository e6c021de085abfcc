"""Writes the files that `test_earlier_state` resumes and opens, with the version of ragc that is here.

    PYTHONPATH=src:. python tests/recorded/write.py

    home/          the caches of a user: two studies, of which one was cut off, trust record, ledger of uses
    store_half/    the call store as the study that was cut off left it
    store_whole/   the same store after the other study, which ended
    whole/         the compiled program of the study that ended
    requests.json  how many requests were sent

Names of studies and trust records hold the folder in which they were made. That is `/tmp/ragc-recorded`,
which need not exist when they are read.

Run once, by the version before a change that must read them; not again with what changed.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from ragc import recipe as recipes
from ragc.optimizers import compile as compiling
from ragc.store.call_store import CallStore
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Killed, dying, needs_demos, write_data
from tests.paths import ROOT

RECORDED = ROOT / "tests/recorded/earlier"
REQUESTS_BEFORE_DEATH = 25
RECIPE = """
program = "vanilla"
seed = 3
concurrency = 1
[search]
knobs = ["top_k", "query_pos"]
demos = 2
trials = 4
batch = 2
objectives = ["em"]
[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
[sources.local]
kind = "bm25"
[targets.main]
kind = "vllm"
model = "scripted"
base_url = "http://127.0.0.1:9/v1"
[metrics]
report = ["em", "f1"]
"""


def write_recipe(folder: Path) -> Path:
    """The recipe in `folder`, with its data."""
    write_data(folder, 40)
    path = folder / "recipe.toml"
    path.write_text(RECIPE, "utf-8")
    return path


def write(work: Path) -> None:
    """Compiles twice in `work`, cut off the first time, and copies what is left to RECORDED."""
    recipe = recipes.load(write_recipe(work))
    target = ScriptedTarget(needs_demos)
    with suppress(Killed), closing(CallStore(work / "store")) as store:
        cut_off = dying(needs_demos, REQUESTS_BEFORE_DEATH)
        compiling.compile(recipe, work / "half", store=store, targets={"main": cut_off})
    copy_store(work / "store", RECORDED / "store_half")
    with closing(CallStore(work / "store")) as store:
        compiling.compile(recipe, work / "whole", store=store, targets={"main": target})
    copy_store(work / "store", RECORDED / "store_whole")
    for name in ("home", "whole"):
        locks = shutil.ignore_patterns("*.lock")
        shutil.copytree(work / name, RECORDED / name, symlinks=True, ignore=locks)
    counts = {"before the kill": REQUESTS_BEFORE_DEATH, "after it": len(target.requests)}
    (RECORDED / "requests.json").write_text(json.dumps(counts, indent=2) + "\n", "utf-8")


def copy_store(store: Path, to: Path) -> None:
    """Copies a call store that is closed, all of it in its database."""
    with closing(sqlite3.connect(store / "cache.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copytree(store, to, ignore=shutil.ignore_patterns("*.db-*"))


if __name__ == "__main__":
    work = Path("/tmp/ragc-recorded")
    work.mkdir()
    os.environ["RAGC_HOME"] = str(work / "home")
    shutil.rmtree(RECORDED, ignore_errors=True)
    write(work)
    shutil.rmtree(work)
