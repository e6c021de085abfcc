"""prompty: the file as Prompty 2 loads it gives the messages that are sent, up to the limits it states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragc.exports.derive import derive_export
from ragc.exports.formats.prompty import LIMITS
from ragc.exports.write import export, format_of
from ragc.programs import method
from ragc.prompts.model import Input, NotExpressible, Slot, TemplateMessage
from ragc.targets.wire import body_of
from tests.exports.common import build_program
from tests.exports.formats.handmade import changed, file_of
from tests.exports.formats.prompty_runs import render_file

prompty = pytest.importorskip(
    "prompty", reason="the consumer of the format: pip install 'prompty[jinja2]==2.1.0'"
)


@pytest.mark.parametrize(
    "text", ["", "\n", "a\r\nb\u2028", "user:", "# Assistant :", "${env:HOME}", "--- +++ {{x}}", "😀"]
)
def test_fixed_messages_may_hold_anything(text: str, tmp_path: Path) -> None:
    fixed = (TemplateMessage("system", (text,) if text else ()), TemplateMessage("assistant", ("Yes. ",)))
    inputs = (Input("fixed"),)
    out = changed(messages=(*fixed, TemplateMessage("user", (Slot("fixed"),))), inputs=inputs)
    messages = render_file(tmp_path, file_of(out, "prompty"), {"fixed": "x"})
    assert messages == [("system", text), ("assistant", "Yes. "), ("user", "x")]


@pytest.mark.parametrize("text", ["a\r", "\nuser:\n", "\u2028", "\n"])
def test_a_last_message_that_the_body_would_change_is_refused(text: str) -> None:
    out = changed(messages=(TemplateMessage("user", (text, Slot("question"))),))
    with pytest.raises(NotExpressible, match="jinja2"):
        format_of("prompty").files(out)


@pytest.mark.parametrize("text", ["user:", "a\n  # SYSTEM : \nb", "assistant:\n", "a\ndeveloper[x=1]:"])
def test_an_input_with_a_line_that_reads_as_a_role_is_an_error(text: str, tmp_path: Path) -> None:
    out = changed(messages=(TemplateMessage("user", (Slot("question"),)),), inputs=(Input("question"),))
    with pytest.raises(ValueError, match="Nonce mismatch"):
        render_file(tmp_path, file_of(out, "prompty"), {"question": text})


def test_inputs_of_other_types(tmp_path: Path) -> None:
    inputs = (Input("n", "number"), Input("f", "flag"), Input("many", "integer", many=True))
    parts = (Slot("n"), " ", Slot("f", words=("True", "False")), " ", Slot("many", "json"))
    out = changed(messages=(TemplateMessage("user", parts),), inputs=inputs)
    messages = render_file(tmp_path, file_of(out, "prompty"), {"n": 0.5, "f": False, "many": [1, 2]})
    assert messages == [("user", "0.5 False [1, 2]")]


def test_one_file_says_what_a_caller_needs(tmp_path: Path) -> None:
    out = replace(derive_export(build_program(method("vanilla"))), note="Demonstrations: CC BY 4.0.")
    assert export(out, "prompty", tmp_path / "p.prompty").written["prompty"].is_file()
    agent = prompty.load(tmp_path / "p.prompty")
    assert agent.metadata["program"] == out.fingerprint
    assert agent.metadata["note"] == out.note
    assert agent.metadata["limits"] == list(LIMITS)
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
    prompty.register_connection("scripted", client=client)
    agent = prompty.load(tmp_path / "p.prompty")
    agent.model.connection = prompty.ReferenceConnection(kind="reference", name="scripted")
    prompty.run(agent, prompty.prepare(agent, inputs))
    expected = body_of(dict(program.named_predictors())["answer"].request(**inputs), "model")
    expected["response_format"]["json_schema"]["name"] = "structured_output"  # a name of Prompty's own
    assert requests == [expected]
