"""Training data in the hands of those who train: TRL and LLaMA-Factory, in a Python of their own.

`make nightly` makes that Python and names it in RAGC_TRAIN_PYTHON.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ragc.store.calls import CallStore
from ragc.training.data.base import llamafactory_entry
from tests.paths import ROOT
from tests.support.rows import read_rows
from tests.training.data.common import maker
from tests.training.data.test_build import folder_of, models_of

pytestmark = pytest.mark.integration

PYTHON = os.environ.get("RAGC_TRAIN_PYTHON", "")
SFT = ("rqrag-sft", "slimplm-rewrites")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pairs in both formats, conversations, and LLaMA-Factory's list of them."""
    out = tmp_path_factory.mktemp("rows")
    info = {}
    for kind in ("prefrag-dpo", *SFT):
        data = folder_of(kind, tmp_path_factory.mktemp("data"))
        make, store = maker(data, kind), CallStore(None)
        name = "pairs.jsonl" if kind == "prefrag-dpo" else f"sft-{kind}.jsonl"
        make(models_of(kind), str(out / name), store=store)
        if kind == "prefrag-dpo":
            name = "pairs-llamafactory.jsonl"
            make(models_of(kind), str(out / name), store=store, format="llamafactory")
        info[name] = llamafactory_entry(name, kind)
    (out / "dataset_info.json").write_text(json.dumps(info))
    return out


@pytest.fixture(scope="module")
def loaded(folder: Path) -> Mapping[str, Any]:
    check = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('trl', 'llamafactory'))))"
    if not PYTHON or subprocess.run([PYTHON, "-c", check], check=False).returncode:
        pytest.skip("needs TRL and LLaMA-Factory in the Python of RAGC_TRAIN_PYTHON; run: make nightly")
    script = ROOT / "tests/integration/trainers_load.py"
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hub"),
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = subprocess.run(
        [PYTHON, str(script), str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    values: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return values


def test_pairs_train_in_trl_as_they_are(folder: Path, loaded: Mapping[str, Any]) -> None:
    pairs, rows = loaded["pairs.jsonl"], read_rows(folder / "pairs.jsonl")
    assert pairs["conversational"]
    assert sorted(pairs["columns"]) == ["chosen", "prompt", "rejected"]
    assert (pairs["rows"], pairs["unpaired"]) == (len(rows), 2 * len(rows))
    assert rows[0]["prompt"][-1]["content"] in pairs["prompt"]
    assert rows[0]["chosen"][0]["content"] in pairs["chosen"]
    assert pairs["loss"] == pytest.approx(math.log(2), abs=0.01)  # both models are the same before the step


@pytest.mark.parametrize("kind", SFT)
def test_conversations_train_in_trl_as_they_are(folder: Path, loaded: Mapping[str, Any], kind: str) -> None:
    sft = loaded[f"sft-{kind}.jsonl"]
    assert (sft["conversational"], sft["columns"]) == (True, ["messages"])
    assert sft["rows"] == len(read_rows(folder / f"sft-{kind}.jsonl"))
    assert 0 < sft["loss"] < 20


def test_llamafactory_reads_pairs(folder: Path, loaded: Mapping[str, Any]) -> None:
    name = "pairs-llamafactory.jsonl"
    rows = read_rows(folder / name)
    for row, read in zip(rows, loaded[f"llamafactory {name}"], strict=True):
        assert read["_system"] == row["prompt"][0]["content"]
        assert read["_prompt"] == row["prompt"][1:]
        assert read["_response"] == [row["chosen"], row["rejected"]]


@pytest.mark.parametrize("kind", SFT)
def test_llamafactory_reads_conversations(folder: Path, loaded: Mapping[str, Any], kind: str) -> None:
    name = f"sft-{kind}.jsonl"
    rows = read_rows(folder / name)
    for row, read in zip(rows, loaded[f"llamafactory {name}"], strict=True):
        start = row["messages"][0]["role"] == "system"
        assert read["_system"] == (row["messages"][0]["content"] if start else "")
        assert [*read["_prompt"], *read["_response"]] == row["messages"][start:]
