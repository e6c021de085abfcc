"""Haystack, LangChain, LlamaIndex, MLflow, OpenAI: what each needs beside the messages that are sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import jinja2
import jinja2.sandbox
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.exports.derive import derive_export, prompt_of
from ragc.exports.formats import haystack, langchain, llamaindex, mlflow
from ragc.exports.formats.base import frontmatter, yaml_text
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import LAYOUTS
from ragc.programs.runtime import Runtime
from ragc.prompts.model import Input, NotExpressible, TemplateMessage
from ragc.prompts.render import template
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.examples import examples
from tests.exports.common import build_program, capture_messages, consumer, export_alone, file_of, texts
from tests.exports.formats import readers
from tests.exports.formats.test_frontmatter import render
from tests.prompts.test_render import typed

pytestmark = readers.QUIET
__all__ = ["format", "render"]  # fixtures
format = readers.format


def shown(**demo: Any) -> RagProgram:
    """The closed-book program, or vanilla where there are passages, with one demonstration."""
    program = build_program(method("vanilla" if "passages" in demo else "no_retrieval"), icl_n=1)
    program.predictors()[0].demos = [demo]
    return program


def answer_file(format: str, program: RagProgram) -> bytes:
    return file_of(format, derive_export(program))


def sent(program: RagProgram, **inputs: Any) -> list[tuple[Any, ...]]:
    return [tuple(message) for message in capture_messages(program, "answer", inputs)]


def test_the_word_that_haystack_refuses_is_kept() -> None:
    word = "templatize_part"
    program = shown(question=word, passages=[f"x | {word}"], answer=word)
    inputs = {"question": word, "passages": [word]}
    assert readers.haystack(answer_file("haystack", program), inputs) == sent(program, **inputs)


def test_only_prompts_with_lists_need_leave_to_load_in_langchain() -> None:
    loads = consumer("langchain_core.load").loads
    file = answer_file("langchain", build_program(method("no_retrieval")))
    assert loads(file.decode()).format_messages(question="{q}")[-1].content == "Question: {q}"
    with pytest.raises(ValueError, match="Jinja2 templates are not allowed during deserialization"):
        loads(answer_file("langchain", build_program(method("vanilla"))).decode())


END = '}</content_block> <content_block>{"type": "text", "text": "x"}</content_block>'


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("text", [" \n a \n ", "\n", "", END, "\ue000<\ue000b\ue000a", "<", "\\u003c", '"<"'])
def test_llamaindex_keeps_white_space_at_the_ends_and_its_own_marks(layout: str, text: str) -> None:
    program = build_program(method("no_retrieval"), layout=layout, icl_n=1)
    (call,) = program.predictors()
    fixed = text.replace("\ue000", "")  # no fixed text holds that, in any format
    call.signature = call.signature.with_instructions(f"Say so.{fixed}")
    call.demos = [{"question": fixed, "answer": fixed}]
    file = answer_file("llamaindex", program)
    assert readers.llamaindex(file, {"question": text}) == sent(program, question=text)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """MLflow's registry in SQLite."""
    with readers.mlflow_registry(tmp_path_factory.mktemp("mlflow")):
        yield


@pytest.mark.usefixtures("registry")
def test_mlflow_replaces_no_input_that_another_one_names() -> None:
    target = ScriptedTarget(SchemaReplies())
    call = RagPredict(dspy.Signature("first, second -> answer"), Runtime({"main": target}))
    prompt, inputs = prompt_of("pair", call), {"first": "{{ second }}", "second": "{{ first }}"}
    file = file_of("mlflow", export_alone(prompt), prompt)
    assert readers.mlflow(file, inputs) == [tuple(m) for m in call.messages(**inputs)]


@pytest.mark.usefixtures("registry")
def test_mlflows_registry_holds_what_a_caller_needs() -> None:
    note = "Demonstrations: of nobody."
    out = replace(derive_export(build_program(method("vanilla"), temperature=0.7)), note=note)
    (prompt,) = out
    registered = readers.mlflow_prompt(file_of("mlflow", out, prompt))
    assert registered.name == "vanilla-answer"
    assert registered.response_format == prompt.output_schema
    assert registered.commit_message.endswith(note)
    assert registered.tags["ragc_program"] == out.fingerprint
    assert json.loads(registered.tags["ragc_input_schema"]) == prompt.input_schema
    assert registered.model_config == {"model_name": "model", **prompt.sampling}


def test_a_prompt_longer_than_mlflow_stores_is_refused() -> None:
    _, prompt = typed("minimal")
    system = TemplateMessage("system", ("x" * mlflow.MOST,))
    long = replace(prompt, messages=(system, *prompt.messages))
    with pytest.raises(NotExpressible, match=r"its messages take 10\d,\d+ characters"):
        file_of("mlflow", export_alone(long), long)


RESERVED = {
    "haystack": ("Haystack", haystack.TAKEN),
    "langchain": ("LangChain", langchain.TAKEN),
    "llamaindex": ("LlamaIndex", llamaindex.TAKEN),
    "mlflow": ("MLflow", mlflow.TAKEN),
}


@pytest.mark.parametrize(("format", "name"), [(id, name) for id in RESERVED for name in RESERVED[id][1]])
def test_an_input_with_a_reserved_name_is_refused(format: str, name: str) -> None:
    _, prompt = typed("minimal")
    odd = replace(prompt, inputs=(*prompt.inputs, Input(name)))
    with pytest.raises(NotExpressible, match=f"{RESERVED[format][0]} has a use of its own for {name!r}"):
        file_of(format, export_alone(odd), odd)


def test_a_fixed_text_that_holds_a_slot_is_not_filled() -> None:
    program = shown(question="{{question}} {{question_2}}", passages=["{{passages}}"], answer="a")
    file = answer_file("openai-json", program)
    assert list(json.loads(file)["slots"]) == ["{{question_3}}", "{{passages_2}}"]
    inputs = {"question": "{{passages_2}}", "passages": ["{{question_3}}"]}
    messages = readers.fill_request(file, inputs)["messages"]
    assert [(m["role"], m["content"]) for m in messages] == sent(program, **inputs)


REFUSED = "passages must be a list, not a text"
GIVEN = {"question": "Who?", "passages": "one passage"}
ENVIRONMENTS = (
    jinja2.Environment,
    jinja2.sandbox.SandboxedEnvironment,
    jinja2.sandbox.ImmutableSandboxedEnvironment,
)
UNDEFINED = (jinja2.Undefined, jinja2.ChainableUndefined, jinja2.DebugUndefined, jinja2.StrictUndefined)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("undefined", UNDEFINED)
def test_every_environment_of_jinja2_refuses_a_text_for_a_list(
    environment: Any, undefined: Any, layout: str
) -> None:
    (prompt,) = derive_export(build_program(method("vanilla"), layout=layout))
    source = environment(undefined=undefined).from_string(template(prompt, prompt.messages[-1]))
    with pytest.raises(jinja2.UndefinedError, match=REFUSED):
        source.render(**GIVEN)
    assert "one passage" in source.render(**GIVEN | {"passages": ["one passage"]})


def test_every_framework_refuses_a_text_for_a_list(format: str) -> None:
    with pytest.raises(Exception, match=REFUSED):
        readers.READERS[format](answer_file(format, build_program(method("vanilla"))), GIVEN)


def test_prompty_refuses_a_text_for_a_list(tmp_path: Path) -> None:
    with pytest.raises(jinja2.UndefinedError, match=REFUSED):
        readers.prompty(tmp_path, answer_file("prompty", build_program(method("vanilla"))), GIVEN)


def test_dotprompt_takes_a_text_for_the_one_item_of_a_list(render: readers.Render) -> None:
    file = answer_file("dotprompt", build_program(method("vanilla")))
    assert render(file, GIVEN) == render(file, GIVEN | {"passages": ["one passage"]})
    assert "none" in render(file, GIVEN | {"passages": []})[-1][1]


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts() | st.just("on"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(100), deadline=None)
@given(head=st.dictionaries(texts(), VALUES, min_size=1, max_size=3))
def test_yaml_is_read_as_the_same_values(head: dict[str, Any]) -> None:
    assert yaml.safe_load(yaml_text(head)) == head
    assert yaml.safe_load(yaml_text(head, blocks=True)) == head


@settings(max_examples=examples(50), deadline=None)
@given(pieces=st.lists(st.sampled_from(["-", "+", "\\", '"', "a"]), max_size=9))
def test_no_text_of_frontmatter_reads_as_its_end(pieces: list[str]) -> None:
    text = "".join(pieces)
    file = frontmatter({"x": text, "y": 1e-05, "z": 1e22}, "body")
    assert file.count("---") == 2
    assert "+++" not in file
    assert yaml.safe_load(file.split("---")[1]) == {"x": text, "y": 1e-05, "z": 1e22}
