"""promptfoo 0.119.0 takes the exports, and its echo provider gives back the messages that are sent.

The environment variable RAGC_NODE_MODULES names the `node_modules` folder where promptfoo was installed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from ragc import metrics
from ragc.exports.derive import derive_export
from ragc.exports.formats.promptfoo import folders
from ragc.exports.write import export
from ragc.programs import method
from ragc.prompts.model import Case, ExportedProgram
from ragc.targets.wire import body_of
from tests.exports.common import build_program, capture_messages, draw_program, inputs_for
from tests.exports.formats.baml_runs import draw_values
from tests.support.server import completion, in_order, serving

HOME = os.environ.get("RAGC_NODE_MODULES", "")
PROMPTFOO = Path(HOME) / "promptfoo" / "dist" / "src" / "main.js"
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(
        not (HOME and PROMPTFOO.is_file()), reason="RAGC_NODE_MODULES names no folder with promptfoo"
    ),
    pytest.mark.timeout(1800),
]
SIX = ["vanilla", "prefrag", "ragx", "ggatrieval", "rqrag", "slimplm"]
EACH = 40
"""Inputs for each of the six methods, shared among its prompts."""


def run(*args: str, at: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What promptfoo says to a command in the folder `at`; nothing leaves the machine."""
    base_env = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    off = ("DISABLE_TELEMETRY", "DISABLE_UPDATE", "DISABLE_REMOTE_GENERATION", "SELF_HOSTED")
    quiet = {f"PROMPTFOO_{name}": "1" for name in off}
    home = {"HOME": str(at), "PROMPTFOO_CONFIG_DIR": str(at / ".promptfoo")}
    return subprocess.run(
        ["node", str(PROMPTFOO), *args],
        cwd=at,
        env={**base_env, **quiet, **home, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def evaluate(at: Path, provider: str, **environment: str) -> list[dict[str, Any]]:
    """The results of an evaluation, in the order of the tests."""
    out = at / "results.json"
    args = ("eval", "--filter-providers", provider, "--no-cache", "--no-table", "--no-progress-bar")
    process = run(*args, "-o", str(out), at=at, **environment)
    assert out.is_file(), process.stdout + process.stderr
    results = json.loads(out.read_text("utf-8"))["results"]["results"]
    return sorted(results, key=lambda result: result["testIdx"])


def exported_with_cases(id: str) -> tuple[ExportedProgram, dict[str, list[Any]]]:
    """A program with random demonstrations and cases, and the messages that it sends for each, by prompt."""
    (program,) = draw_values(
        st.data(),
        1,
        lambda data: draw_program(method(id), data),
    )
    out = derive_export(program)
    cases: list[Case] = []
    expected: dict[str, list[Any]] = {}
    for prompt in out:
        each = draw_values(inputs_for(prompt), -(-EACH // len(out.prompts)))
        cases += [Case(f"{prompt.name} {n}", prompt.name, inputs) for n, inputs in enumerate(each)]
        expected[prompt.name] = [
            [list(m) for m in capture_messages(program, prompt.name, inputs)] for inputs in each
        ]
    return replace(out, cases=tuple(cases)), expected


@pytest.mark.parametrize("id", SIX)
def test_echoed_messages_are_those_sent(tmp_path: Path, id: str) -> None:
    out, wanted = exported_with_cases(id)
    export(out, "promptfoo", tmp_path / "out")
    valid = run("validate", at=tmp_path / "out" / folders(out)[-1])
    assert "Configuration is valid" in valid.stdout + valid.stderr
    for prompt, folder in zip(out, folders(out), strict=True):
        at = tmp_path / "out" / folder
        results = evaluate(at, "echo")
        echoes = [json.loads(one["response"]["output"]) for one in results]
        assert [[[m["role"], m["content"]] for m in messages] for messages in echoes] == wanted[prompt.name]


@pytest.mark.parametrize("metric", ["f1", "slim_em"])
def test_the_model_gets_the_request_that_is_sent_and_is_scored_as_ragc_scores(
    tmp_path: Path, metric: str
) -> None:
    program = build_program(method("vanilla"))
    inputs: Mapping[str, Any] = {"question": "Who is {{it}}?\n", "passages": ["file:///etc/hostname", "b"]}
    golds = ("An old man", "{{man}}")
    out = replace(derive_export(program), cases=(Case("q", "answer", inputs, golds),), metric=metric)
    export(out, "promptfoo", tmp_path / "out")
    with serving(in_order(completion({"content": '{"answer": "the man"}'}))) as server:
        at = tmp_path / "out" / "answer"
        (result,) = evaluate(at, "openai", OPENAI_BASE_URL=server.url, OPENAI_API_KEY="none")
    call = dict(program.named_predictors())["answer"]
    assert server.bodies == [body_of(call.request(**inputs), "model")]
    assert result["namedScores"] == {metric: pytest.approx(metrics.score(metric, "the man", golds))}
