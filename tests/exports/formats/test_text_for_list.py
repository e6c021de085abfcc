"""A text where a list is due: refused, or taken for the one item, never written letter by letter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox
import pytest

from ragc.exports.derive import derive_export
from ragc.exports.formats.base import format_of
from ragc.programs import method
from ragc.prompts.model import CompiledPrompt
from ragc.prompts.render import template
from tests.exports.common import build_program
from tests.exports.drawn import file_of
from tests.exports.formats.dotprompt_runs import Render
from tests.exports.formats.prompty_runs import render_file as prompty
from tests.exports.formats.readers import QUIET, READERS, format
from tests.exports.formats.test_dotprompt import render

pytestmark = QUIET
__all__ = ["format", "render"]  # fixtures

REFUSED = "passages must be a list, not a text"
ENVIRONMENTS = (
    jinja2.Environment,
    jinja2.sandbox.SandboxedEnvironment,
    jinja2.sandbox.ImmutableSandboxedEnvironment,
)
UNDEFINED = (jinja2.Undefined, jinja2.ChainableUndefined, jinja2.DebugUndefined, jinja2.StrictUndefined)
GIVEN = {"question": "Who?", "passages": "one passage"}


def vanilla(layout: str = "json") -> CompiledPrompt:
    (prompt,) = derive_export(build_program(method("vanilla"), layout=layout))
    return prompt


@pytest.mark.parametrize("layout", ["json", "chat", "xml", "minimal"])
@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("undefined", UNDEFINED)
def test_every_environment_of_jinja2_refuses_it(environment: Any, undefined: Any, layout: str) -> None:
    prompt = vanilla(layout)
    made_of = environment(undefined=undefined).from_string(template(prompt, prompt.messages[-1]))
    with pytest.raises(jinja2.UndefinedError, match=REFUSED):
        made_of.render(**GIVEN)
    assert "one passage" in made_of.render(**GIVEN | {"passages": ["one passage"]})


def test_every_reader_refuses_it(format: str) -> None:
    out = derive_export(build_program(method("vanilla")))
    with pytest.raises(Exception, match=REFUSED):
        READERS[format](file_of(format, out, out.prompt("answer")), GIVEN)


def test_prompty_refuses_it(tmp_path: Path) -> None:
    out = derive_export(build_program(method("vanilla")))
    with pytest.raises(jinja2.UndefinedError, match=REFUSED):
        prompty(tmp_path, file_of("prompty", out, out.prompt("answer")), GIVEN)


def test_dotprompt_takes_it_for_the_one_item(render: Render) -> None:
    out = derive_export(build_program(method("vanilla"), layout="minimal"))
    file = file_of("dotprompt", out, out.prompt("answer"))
    assert render(file, GIVEN) == render(file, GIVEN | {"passages": ["one passage"]})
    assert "none" in render(file, GIVEN | {"passages": []})[-1][1]


def test_the_python_export_raises_a_type_error() -> None:
    out = derive_export(build_program(method("vanilla")))
    (source,) = format_of("python").files(out).values()
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(source, "exported.py", "exec"), names)
    for call in (names["messages"], names["request"]):
        with pytest.raises(TypeError, match="The input 'passages' must be a list, got 'one passage'"):
            call("answer", **GIVEN)
    with pytest.raises(TypeError, match="passages must be a list"):
        names["answer"]("Who?", "one passage", lambda body: "")
