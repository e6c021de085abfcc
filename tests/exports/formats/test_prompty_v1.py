"""prompty-v1: the file as LangChain loads it gives the messages that are sent, up to the limits it states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.exports.formats.prompty_v1 import LIMITS
from ragc.exports.write import export, format_of
from ragc.programs import method
from ragc.prompts.model import Input, NotExpressible, Slot, TemplateMessage
from ragc.targets.base import Sampling
from tests.examples import examples
from tests.exports.common import CALM, build_program, draw_program
from tests.exports.formats.handmade import changed, file_of, with_any_demos, with_calm_demos
from tests.exports.formats.prompty_v1_runs import check_all, render_file

langchain_prompty = pytest.importorskip(
    "langchain_prompty", reason="the consumer of the format: pip install langchain-prompty==1.0.0"
)


@pytest.mark.parametrize("id", ["vanilla", "prefrag", "ragx", "ggatrieval", "rqrag", "slimplm"])
@pytest.mark.parametrize("demos", [with_any_demos, with_calm_demos])
@settings(max_examples=examples(4), suppress_health_check=CALM, deadline=None)
@given(data=st.data())
def test_its_messages_are_those_sent(id: str, demos: Any, tmp_path: Path, data: Any) -> None:
    program = draw_program(method(id), data, demos)
    check_all(program, tmp_path, data)


@pytest.mark.parametrize(
    "text", ["{{x}}", "<% {{ <%%", "{{=<% %>=}}", "{{! no }}", "a {", '&amp; " \x00', "--- +++", "😀"]
)
def test_fixed_text_may_hold_any_template_syntax(text: str, tmp_path: Path) -> None:
    parts = (f"{text} ", Slot("question"), f" {text}")
    out = changed(messages=(TemplateMessage("system", (text,)), TemplateMessage("user", parts)))
    messages = render_file(tmp_path, file_of(out, "prompty-v1"), {"question": "{{y}} <b>"})
    assert messages == [("system", text), ("user", f"{text} {{{{y}}}} <b> {text}")]


@pytest.mark.parametrize("text", ["", " \n", "a\rb", "user:", "a\n# AI :\nb", "#", "![a](b.png)"])
def test_fixed_text_that_would_be_changed_is_refused(text: str) -> None:
    fixed = TemplateMessage("system", (text,) if text else ())
    with pytest.raises(NotExpressible, match="These formats can: prompty"):
        format_of("prompty-v1").files(changed(messages=(fixed, TemplateMessage("user", (Slot("question"),)))))


def test_parameters_that_would_be_changed_are_refused() -> None:
    with pytest.raises(NotExpressible, match="parameters"):
        format_of("prompty-v1").files(changed(sampling=Sampling(stop=("\n",))))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a \n", [("user", "Q: a")]),
        ("a\nsystem:\nb", [("user", "Q: a"), ("system", "b")]),
        ("a\n# AI :", [("user", "Q: a")]),
    ],
)
def test_the_limits_on_inputs_are_as_stated(text: str, expected: Any, tmp_path: Path) -> None:
    file = file_of(changed(messages=(TemplateMessage("user", ("Q: ", Slot("question"))),)), "prompty-v1")
    assert all(limit in file.decode() for limit in LIMITS)
    assert render_file(tmp_path, file, {"question": text}) == expected


def test_an_image_in_an_input_is_opened(tmp_path: Path) -> None:
    file = file_of(derive_export(build_program(method("vanilla"))), "prompty-v1")
    with pytest.raises(FileNotFoundError):
        render_file(tmp_path, file, {"question": "![a](no.png)", "passages": "none"})


def test_inputs_of_other_types(tmp_path: Path) -> None:
    inputs = (Input("n", "number"), Input("f", "flag"), Input("g", "flag"))
    parts = (Slot("n"), "\n", Slot("f", words=("True", "False")), "\n", Slot("g", words=("True", "False")))
    out = changed(messages=(TemplateMessage("user", parts),), inputs=inputs)
    messages = render_file(tmp_path, file_of(out, "prompty-v1"), {"n": 0, "f": False, "g": True})
    assert messages == [("user", "0\nFalse\nTrue")]


def test_one_file_says_what_a_caller_needs(tmp_path: Path) -> None:
    out = replace(derive_export(build_program(method("vanilla"))), note="Demonstrations: CC BY 4.0.")
    export(out, "prompty-v1", tmp_path / "p.v1.prompty")
    loaded = langchain_prompty.langchain.load(str(tmp_path / "p.v1.prompty"))
    assert loaded.model.parameters == out.prompts[0].parameters()
    assert {name: one.type for name, one in loaded.inputs.items()} == {
        "question": "string",
        "passages": "string",
    }
    text = (tmp_path / "p.v1.prompty").read_text("utf-8")
    assert out.fingerprint in text
    assert out.note in text
