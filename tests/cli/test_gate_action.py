"""The GitHub Action of the gate: what its script runs, and when its step passes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.examples import thorough
from tests.paths import ROOT

ACTION = ROOT / ".github" / "actions" / "gate"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def rows(path: Path, scores: list[int]) -> str:
    lines = [
        json.dumps({"id": f"q{n}", "question": f"q {n}", "prediction": "", "scores": {"em": score}})
        for n, score in enumerate(scores)
    ]
    path.write_text("\n".join(lines), "utf-8")
    return path.name


def step(folder: Path, new: list[int], old: list[int], **inputs: str) -> tuple[int, str, str, str]:
    """The exit code of the script, what it printed, its outputs and the job's summary."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin" / "ragc"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ragc "$@"\n', "utf-8")
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "RAGC_HOME": str(folder / "home"),
        "RUNNER_TEMP": str(folder / "temp"),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "PROGRAM": rows(folder / "new.jsonl", new),
        "AGAINST": rows(folder / "old.jsonl", old),
        "METRIC": "",
        "ALLOW": "0.05",
        "MINIMUMS": "",
        "UNCLEAR": "warn",
        "DIRECTORY": "",
        **inputs,
    }
    process = subprocess.run(
        ["bash", str(ACTION / "gate.sh")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    outputs, summary = (
        path.read_text("utf-8") if path.exists() else "" for path in (folder / "output", folder / "summary")
    )
    return process.returncode, process.stdout + process.stderr, outputs, summary


@thorough
def test_a_pass_and_a_drop(tmp_path: Path) -> None:
    code, _, outputs, summary = step(tmp_path, [1] * 200, [1] * 200, MINIMUMS="em=0.9\n\n  ")
    assert code == 0
    assert "code=0\n" in outputs
    assert "ragc gate: Passed" in summary
    code, printed, _, _ = step(tmp_path, [0] * 30 + [1] * 170, [1] * 200)
    assert code == 10
    assert "::error title=ragc gate::A drop is shown" in printed


@thorough
def test_what_cannot_be_told_passes_with_a_warning_unless_it_is_to_fail(tmp_path: Path) -> None:
    code, printed, outputs, _ = step(tmp_path, [1] * 20, [1] * 20)
    assert code == 0
    assert "::warning" in printed
    assert "code=11\n" in outputs
    assert step(tmp_path, [1] * 20, [1] * 20, UNCLEAR="fail")[0] == 11


@thorough
def test_errors_stay_errors_and_no_input_is_run(tmp_path: Path) -> None:
    assert step(tmp_path, [1], [1], UNCLEAR="maybe")[0] == 2
    assert step(tmp_path, [1], [1], ALLOW="much")[0] == 2
    assert step(tmp_path, [1], [1], METRIC="$(touch run); `touch run`")[0] == 2
    assert not (tmp_path / "run").exists()


def test_the_action_hands_each_input_over_as_a_variable() -> None:
    action = yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))
    script = (ACTION / "gate.sh").read_text("utf-8")
    (only,) = action["runs"]["steps"]
    assert set(only["env"].values()) == {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]}
    assert "${{" not in only["run"]
    assert all(f"${name}" in script or f"${{{name}" in script for name in only["env"])
    assert set(action["outputs"]) == {"code", "markdown", "junit"}


def test_the_hook_runs_a_command_that_exists() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert hook["entry"] == "ragc export"
    assert not hook["pass_filenames"]
