"""Numbers in a compiled program or a recipe that are none, or have no end: one sentence each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ragc.compiled.access import Access
from ragc.compiled.base import load
from ragc.compiled.opened import open_program
from ragc.errors import ArtefactError, RagcError, UsageError
from ragc.store.calls import CallStore
from ragc.targets import build
from ragc.targets.options import TargetSpec
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import begun, needs_demos, written

NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "9" * 400, "1e300", "-1", "true", '"3"', "[3]", "null"]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled program, to be copied."""
    folder = written(tmp_path_factory.mktemp("numbers"))
    sets = ("search.trials=1", "search.demos=1")
    begun(folder)("out", target=ScriptedTarget(needs_demos), sets=sets, store=CallStore(None))
    return folder / "out"


@pytest.mark.parametrize("knob", ["top_k", "temperature"])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_knob_of_a_compiled_program_that_is_no_number_is_one_sentence(
    number: str, knob: str, compiled: Path, tmp_path: Path
) -> None:
    held = shutil.copytree(compiled, tmp_path / "held")
    state = json.loads((held / "program.json").read_text())
    state["knobs"][knob] = "HERE"
    (held / "program.json").write_text(json.dumps(state).replace('"HERE"', number))
    with pytest.raises(RagcError, match=rf"knobs?\b.*{knob}|NaN and infinity") as caught:
        open_program(held, access=Access(compiled.parent))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_nan_in_a_demonstration_is_one_sentence(number: str, compiled: Path, tmp_path: Path) -> None:
    held = shutil.copytree(compiled, tmp_path / "held")
    state = json.loads((held / "program.json").read_text())
    state["predictors"]["answer"]["demos"] = [{"question": "HERE", "answer": "x"}]
    (held / "program.json").write_text(json.dumps(state).replace('"HERE"', number))
    with pytest.raises(ArtefactError, match="NaN and infinity are no numbers of JSON"):
        load(held)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400])
def test_an_option_of_a_target_takes_no_endless_number(value: object) -> None:
    spec = TargetSpec(kind="vllm", model="m", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(UsageError, match="timeout_s must be"):
        build(spec.replace(options={"timeout_s": value}))
