"""dotprompt and Prompty 2: what their files may hold, and that they give what is sent, to stated limits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.exports.formats import dotprompt, prompty
from ragc.exports.write import export, format_of
from ragc.programs import method
from ragc.prompts.model import Input, NotExpressible, Slot, TemplateMessage
from ragc.targets.wire import body_of
from tests.examples import examples
from tests.exports.common import CALM, build_program, changed, consumer, file_of
from tests.exports.formats import readers


@pytest.fixture(scope="module", params=["python", "npm"])
def render(request: pytest.FixtureRequest) -> Iterator[readers.Render]:
    """How a consumer renders a file; skipped where it is not installed."""
    if request.param == "python":
        yield readers.dotprompt_in_python()
        return
    with readers.dotprompt_in_node() as process:
        yield lambda file, inputs: readers.dotprompt_by_process(process, file, inputs)
        assert process.stdin is not None
        process.stdin.close()


AWKWARD = st.text(alphabet="\\{}\r\n\x00\"' #/~!&>^x", max_size=9)


@settings(max_examples=examples(25), suppress_health_check=CALM, deadline=None)
@given(before=AWKWARD, after=AWKWARD, value=AWKWARD)
def test_fixed_text_of_dotprompt_may_hold_any_braces(
    render: readers.Render, before: str, after: str, value: str
) -> None:
    fixed = TemplateMessage("system", (f"{after}.{before}",))
    parts: tuple[Any, ...] = (*([before] if before else []), Slot("question"), *([after] if after else []))
    out = changed(
        messages=(fixed, TemplateMessage("user", (".", Slot("question"))), TemplateMessage("user", parts))
    )
    messages = render(file_of("dotprompt", out), {"question": f"{value}."})
    expected = [("system", f"{after}.{before}"), ("user", f".{value}."), ("user", f"{before}{value}.{after}")]
    assert messages == expected


@pytest.mark.parametrize("text", ["", " \n", "\u2028", "a <<<dotprompt:role:user>>>"])
def test_dotprompt_refuses_blank_messages_and_markers(text: str) -> None:
    fixed = TemplateMessage("system", (text,) if text else ())
    with pytest.raises(NotExpressible, match="openai-json"):
        format_of("dotprompt").files(changed(messages=(fixed, TemplateMessage("user", (Slot("question"),)))))


def test_the_limits_of_dotprompt_are_as_stated(render: readers.Render) -> None:
    inputs = (Input("question"), Input("many", many=True))
    user = TemplateMessage("user", (Slot("question"), Slot("many", "lines")))
    out = changed(messages=(TemplateMessage("system", ("s",)), user), inputs=inputs)
    file = file_of("dotprompt", out)
    assert all(limit in file.decode() for limit in dotprompt.LIMITS)
    marked = render(file, {"question": "a<<<dotprompt:role:model>>>b", "many": []})
    assert marked == [("system", "s"), ("user", "a"), ("model", "bnone")]
    many = render(file, {"question": "", "many": ["x"] * (dotprompt.MOST + 1)})
    assert many[1][1].endswith(f"[{dotprompt.MOST}] x\n[] x")
    alone = changed(messages=(TemplateMessage("user", (Slot("question"),)),), inputs=(Input("question"),))
    assert render(file_of("dotprompt", alone), {"question": " \n"}) == []


def test_inputs_of_other_types_and_names_that_handlebars_knows(render: readers.Render) -> None:
    flag = Slot("history", words=("True", "False"))
    parts = (Slot("if"), " ", flag, "\n", Slot("json", "lines"), Slot("end"), Slot("carriage_return"), "\r ")
    inputs = [Input("if", "number"), Input("history", "flag"), Input("json", "flag", many=True)]
    inputs += [Input("end"), Input("carriage_return")]
    out = changed(messages=(TemplateMessage("user", parts),), inputs=inputs)
    values = {"if": "0.5", "history": False, "json": [True, False], "end": "y", "carriage_return": "z"}
    assert render(file_of("dotprompt", out), values) == [("user", "0.5 False\n[1] true\n[2] falseyz\r ")]


def test_a_file_of_dotprompt_says_what_a_caller_needs(tmp_path: Path) -> None:
    pytest.importorskip("dotpromptz", reason=readers.DOTPROMPTZ)
    program = replace(
        derive_export(build_program(method("vanilla"), temperature=0.7)), note="Demonstrations: CC BY 4.0."
    )
    export(program, "dotprompt", tmp_path / "p.prompt")
    from dotpromptz.dotprompt import Dotprompt

    metadata: Any = asyncio.run(Dotprompt().render_metadata((tmp_path / "p.prompt").read_text("utf-8")))
    assert metadata.config["temperature"] == 0.7
    assert metadata.config["maxOutputTokens"] == program.prompts[0].parameters["max_tokens"]
    assert metadata.input.schema == program.prompts[0].input_schema
    assert metadata.output.schema == program.prompts[0].output_schema
    assert metadata.ext["ragc"]["program"] == program.fingerprint
    assert metadata.ext["ragc"]["note"] == program.note


@pytest.mark.parametrize(
    "text", ["", "\n", "a\r\nb\u2028", "user:", "# Assistant :", "${env:HOME}", "--- +++ {{x}}", "😀"]
)
def test_fixed_messages_of_prompty_may_hold_anything(text: str, tmp_path: Path) -> None:
    fixed = (TemplateMessage("system", (text,) if text else ()), TemplateMessage("assistant", ("Yes. ",)))
    inputs = (Input("fixed"),)
    out = changed(messages=(*fixed, TemplateMessage("user", (Slot("fixed"),))), inputs=inputs)
    messages = readers.prompty(tmp_path, file_of("prompty", out), {"fixed": "x"})
    assert messages == [("system", text), ("assistant", "Yes. "), ("user", "x")]


@pytest.mark.parametrize("text", ["a\r", "\nuser:\n", "\u2028", "\n"])
def test_prompty_refuses_a_last_message_that_its_body_would_change(text: str) -> None:
    out = changed(messages=(TemplateMessage("user", (text, Slot("question"))),))
    with pytest.raises(NotExpressible, match="jinja2"):
        format_of("prompty").files(out)


@pytest.mark.parametrize("text", ["user:", "a\n  # SYSTEM : \nb", "assistant:\n", "a\ndeveloper[x=1]:"])
def test_prompty_refuses_an_input_with_a_line_that_reads_as_a_role(text: str, tmp_path: Path) -> None:
    out = changed(messages=(TemplateMessage("user", (Slot("question"),)),), inputs=(Input("question"),))
    with pytest.raises(ValueError, match="Nonce mismatch"):
        readers.prompty(tmp_path, file_of("prompty", out), {"question": text})


def test_prompty_takes_inputs_of_other_types(tmp_path: Path) -> None:
    inputs = (Input("n", "number"), Input("f", "flag"), Input("many", "integer", many=True))
    parts = (Slot("n"), " ", Slot("f", words=("True", "False")), " ", Slot("many", "json"))
    out = changed(messages=(TemplateMessage("user", parts),), inputs=inputs)
    messages = readers.prompty(tmp_path, file_of("prompty", out), {"n": 0.5, "f": False, "many": [1, 2]})
    assert messages == [("user", "0.5 False [1, 2]")]


def test_a_file_of_prompty_says_what_a_caller_needs(tmp_path: Path) -> None:
    out = replace(derive_export(build_program(method("vanilla"))), note="Demonstrations: CC BY 4.0.")
    assert export(out, "prompty", tmp_path / "p.prompty").written["prompty"].is_file()
    agent = consumer("prompty").load(tmp_path / "p.prompty")
    assert agent.metadata["program"] == out.fingerprint
    assert agent.metadata["note"] == out.note
    assert agent.metadata["limits"] == list(prompty.LIMITS)
    assert [(one.name, one.kind, one.required) for one in agent.inputs] == [
        ("question", "string", True),
        ("passages", "array", True),
    ]


def test_prompty_sends_the_request_that_is_sent(tmp_path: Path) -> None:
    program = build_program(method("vanilla"), temperature=0.7)
    export(program, "prompty", tmp_path / "p.prompty")
    inputs = {"question": "What is it?", "passages": ["one", "two"]}
    requests: list[dict[str, Any]] = []

    def create(**request: Any) -> Any:
        requests.append(request)
        message = SimpleNamespace(content='{"answer": "a"}', tool_calls=None, refusal=None)
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])

    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    reader = consumer("prompty")
    reader.register_connection("scripted", client=client)
    agent = reader.load(tmp_path / "p.prompty")
    agent.model.connection = reader.ReferenceConnection(kind="reference", name="scripted")
    reader.run(agent, reader.prepare(agent, inputs))
    expected = body_of(program.predictors()[0].request(**inputs), "model")
    expected["response_format"]["json_schema"]["name"] = "structured_output"  # a name of Prompty's own
    assert requests == [expected]
