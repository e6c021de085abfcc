"""mlflow: a prompt registered from the file in SQLite, loaded again, gives the messages that are sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import dspy
import pytest

from ragc.exports.derive import derive_export, prompt_of
from ragc.exports.formats.mlflow import MOST
from ragc.programs import method
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.prompts.model import NotExpressible, TemplateMessage
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.exports.common import build_program
from tests.exports.drawn import consumer, export_alone, file_of
from tests.exports.formats.readers import QUIET, mlflow_prompt, mlflow_registry
from tests.exports.formats.readers import mlflow as rendered
from tests.prompts.test_render import typed

mlflow = consumer("mlflow")
consumer("sqlalchemy")
pytestmark = QUIET


@pytest.fixture(scope="module", autouse=True)
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A registry in SQLite."""
    with mlflow_registry(tmp_path_factory.mktemp("mlflow")):
        yield


def test_an_input_that_names_another_is_not_replaced_again() -> None:
    target = ScriptedTarget(SchemaReplies())
    call = RagPredict(dspy.Signature("first, second -> answer"), Runtime({"main": target}))
    prompt = prompt_of("pair", call)
    inputs = {"first": "{{ second }}", "second": "{{ first }}"}
    assert rendered(file_of("mlflow", export_alone(prompt), prompt), inputs) == [
        tuple(m) for m in call.messages(**inputs)
    ]


def test_the_registry_holds_what_a_caller_needs() -> None:
    note = "Demonstrations: of nobody."
    out = replace(derive_export(build_program(method("vanilla"), temperature=0.7)), note=note)
    (prompt,) = out
    registry_prompt = mlflow_prompt(file_of("mlflow", out, prompt))
    assert registry_prompt.name == "vanilla-answer"
    assert registry_prompt.response_format == prompt.output_schema
    assert registry_prompt.commit_message.endswith(note)
    assert registry_prompt.tags["ragc_program"] == out.fingerprint
    assert json.loads(registry_prompt.tags["ragc_input_schema"]) == prompt.input_schema
    parameters = {name: value for name, value in prompt.parameters.items() if name != "response_format"}
    assert registry_prompt.model_config == {"model_name": "model", **parameters}


@pytest.mark.parametrize("more", [0, 1])
def test_the_longest_prompt_that_mlflow_stores(more: int) -> None:
    _, prompt = typed("minimal")
    bare = json.loads(file_of("mlflow", export_alone(prompt), prompt))["template"]
    used = len(json.dumps([{"role": "system", "content": ""}, *bare]))
    system = TemplateMessage("system", ("x" * (MOST - used + more),))
    long = replace(prompt, messages=(system, *prompt.messages))
    if more:
        with pytest.raises(NotExpressible, match="its messages take 100,001 characters"):
            file_of("mlflow", export_alone(long), long)
        template = [{"role": "system", "content": system.fixed_text}, *bare]
        with pytest.raises(mlflow.exceptions.MlflowException, match="exceeds max length of 100000"):
            mlflow.genai.register_prompt(name="too-long", template=template)
    else:
        assert (
            mlflow_prompt(file_of("mlflow", export_alone(long), long)).template[0]["content"]
            == system.fixed_text
        )
