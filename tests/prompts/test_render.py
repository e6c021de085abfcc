"""What the renderer makes of a prompt is what goes over the wire."""

from __future__ import annotations

from typing import Any

import dspy
import jinja2
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragc.errors import UsageError
from ragc.exports.derive import derive_export, prompt_of
from ragc.programs import METHODS
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import LAYOUTS
from ragc.programs.runtime import Runtime
from ragc.prompts.model import CompiledPrompt
from ragc.prompts.render import escaped_inputs, literal, render, template
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.examples import examples
from tests.exports.common import (
    CALM,
    build_program,
    capture_messages,
    inputs_for,
    texts,
    value_of,
)

slow = settings(max_examples=examples(4), suppress_health_check=CALM)


class Typed(dspy.Signature):
    """Answer."""

    question: str = dspy.InputField()
    number: int = dspy.InputField(desc="how many")
    share: float = dspy.InputField()
    sure: bool = dspy.InputField()
    passages: list[str] = dspy.InputField()
    scores: list[float] = dspy.InputField()
    marks: list[bool] = dspy.InputField()
    answer: str = dspy.OutputField()


def typed(layout: str) -> tuple[RagPredict, CompiledPrompt]:
    call = RagPredict(Typed, Runtime({"main": ScriptedTarget(SchemaReplies())}), layout=layout)
    return call, prompt_of("typed", call)


@settings(max_examples=examples(100))
@given(
    parts=st.lists(texts(), min_size=1, max_size=3),
    blocks=st.booleans(),
    strip=st.booleans(),
    keep=st.booleans(),
)
def test_fixed_text_is_itself_in_any_environment(
    parts: list[str], blocks: bool, strip: bool, keep: bool
) -> None:
    environment = jinja2.Environment(
        trim_blocks=blocks, lstrip_blocks=strip, keep_trailing_newline=keep, undefined=jinja2.StrictUndefined
    )
    block = "{% for item in given %}{{ item }}{% endfor %}"
    last = len(parts) - 1
    source = block.join(literal(t, after_block=i > 0, rest=i < last) for i, t in enumerate(parts))
    assert environment.from_string(source).render(given=["x", "y"]) == "xy".join(parts)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=examples(30))
@given(data=st.data())
def test_a_plain_environment_renders_the_same(layout: str, data: Any) -> None:
    _, prompt = typed(layout)
    inputs = data.draw(inputs_for(prompt))
    shown = escaped_inputs(prompt, inputs)  # templates depend on nothing of ragc
    plain = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    contents = [plain.from_string(template(prompt, message)).render(shown) for message in prompt.messages]
    assert contents == [message.content for message in render(prompt, inputs)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_echoed_question_stands_twice(layout: str) -> None:
    program = build_program(METHODS[1], layout=layout, query_pos="both")
    (prompt,) = derive_export(program)
    assert [one.name for one in prompt.inputs] == ["question", "passages"]
    inputs = {"question": "{{ q }}?", "passages": []}
    assert render(prompt, inputs)[-1].content.count("{{ q }}?") == 2
    assert render(prompt, inputs) == capture_messages(program, "answer", inputs)


@given(data=st.data())
@settings(max_examples=examples(30))
def test_inputs_of_another_type_are_refused_by_name(data: Any) -> None:
    _, prompt = typed("minimal")
    inputs = data.draw(inputs_for(prompt))
    one, other = data.draw(st.permutations(prompt.inputs))[:2]
    value = data.draw(value_of(other))
    kinds = {(one.kind, one.many), (other.kind, other.many)}
    assume(len(kinds) == 2 and kinds != {("integer", False), ("number", False)})
    assume(not (one.many and other.many and value == []))
    with pytest.raises(UsageError, match=repr(one.name)):
        render(prompt, inputs | {one.name: value})


def test_a_number_that_json_cannot_hold_is_refused() -> None:
    _, prompt = typed("json")
    inputs = {"question": "", "number": 1, "sure": True, "passages": [], "scores": [], "marks": []}
    with pytest.raises(UsageError, match="'share' of 'typed' must be a number"):
        render(prompt, inputs | {"share": float("nan")})
