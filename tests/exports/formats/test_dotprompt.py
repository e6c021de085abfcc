"""dotprompt: the file as its Python and npm packages render it gives the messages that are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.exports.formats.dotprompt import LIMITS, MOST
from ragc.exports.write import export, format_of
from ragc.programs import method
from ragc.prompts.model import Input, NotExpressible, Slot, TemplateMessage
from tests.examples import examples
from tests.exports.common import CALM, build_program
from tests.exports.formats.dotprompt_runs import DOTPROMPTZ, Render, in_node, in_python, render_by_process
from tests.exports.formats.handmade import changed, file_of


@pytest.fixture(scope="module", params=["python", "npm"])
def render(request: pytest.FixtureRequest) -> Iterator[Render]:
    """How a consumer renders a file; skipped where it is not installed."""
    if request.param == "python":
        yield in_python()
        return
    with in_node() as process:
        yield lambda file, inputs: render_by_process(process, file, inputs)
        assert process.stdin is not None
        process.stdin.close()


AWKWARD = st.text(alphabet="\\{}\r\n\x00\"' #/~!&>^x", max_size=9)


@settings(max_examples=examples(25), suppress_health_check=CALM, deadline=None)
@given(before=AWKWARD, after=AWKWARD, value=AWKWARD)
def test_fixed_text_may_hold_any_braces(render: Render, before: str, after: str, value: str) -> None:
    fixed = TemplateMessage("system", (f"{after}.{before}",))
    parts: tuple[Any, ...] = (*([before] if before else []), Slot("question"), *([after] if after else []))
    out = changed(
        messages=(fixed, TemplateMessage("user", (".", Slot("question"))), TemplateMessage("user", parts))
    )
    messages = render(file_of(out, "dotprompt"), {"question": f"{value}."})
    expected = [("system", f"{after}.{before}"), ("user", f".{value}."), ("user", f"{before}{value}.{after}")]
    assert messages == expected


@pytest.mark.parametrize("text", ["", " \n", "\u2028", "a <<<dotprompt:role:user>>>"])
def test_blank_messages_and_markers_are_refused(text: str) -> None:
    fixed = TemplateMessage("system", (text,) if text else ())
    with pytest.raises(NotExpressible, match="openai-json"):
        format_of("dotprompt").files(changed(messages=(fixed, TemplateMessage("user", (Slot("question"),)))))


def test_the_limits_are_as_stated(render: Render) -> None:
    inputs = (Input("question"), Input("many", many=True))
    user = TemplateMessage("user", (Slot("question"), Slot("many", "lines")))
    file = file_of(changed(messages=(TemplateMessage("system", ("s",)), user), inputs=inputs), "dotprompt")
    assert all(limit in file.decode() for limit in LIMITS)
    marked = render(file, {"question": "a<<<dotprompt:role:model>>>b", "many": []})
    assert marked == [("system", "s"), ("user", "a"), ("model", "bnone")]
    many = render(file, {"question": "", "many": ["x"] * (MOST + 1)})
    assert many[1][1].endswith(f"[{MOST}] x\n[] x")
    alone = changed(messages=(TemplateMessage("user", (Slot("question"),)),), inputs=(Input("question"),))
    assert render(file_of(alone, "dotprompt"), {"question": " \n"}) == []


def test_inputs_of_other_types_and_names_that_handlebars_knows(render: Render) -> None:
    flag = Slot("history", words=("True", "False"))
    parts = (Slot("if"), " ", flag, "\n", Slot("json", "lines"), Slot("end"), Slot("carriage_return"), "\r ")
    inputs = [Input("if", "number"), Input("history", "flag"), Input("json", "flag", many=True)]
    inputs += [Input("end"), Input("carriage_return")]
    out = changed(messages=(TemplateMessage("user", parts),), inputs=inputs)
    values = {"if": "0.5", "history": False, "json": [True, False], "end": "y", "carriage_return": "z"}
    assert render(file_of(out, "dotprompt"), values) == [("user", "0.5 False\n[1] true\n[2] falseyz\r ")]


def test_one_file_says_what_a_caller_needs(tmp_path: Path) -> None:
    pytest.importorskip("dotpromptz", reason=DOTPROMPTZ)
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
