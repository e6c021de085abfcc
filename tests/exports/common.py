"""What tests of exports share: programs on a scripted target, awkward inputs, and what goes over the wire."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st

from ragc.errors import UsageError
from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs import Method, method
from ragc.programs.base import RagProgram
from ragc.programs.knobs import LAYOUTS, WORDINGS
from ragc.programs.runtime import Runtime
from ragc.prompts.model import CompiledPrompt, ExportedProgram, Input
from ragc.prompts.render import escaped_inputs
from ragc.records import Hit, Passage
from ragc.store.calls import CallStore
from ragc.targets.base import Message
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget

NASTY = (
    "{{ question }}", "{{question}}", "{% for x in y %}", "{# no #}", "{%- endif -%}", "}}", "{", "{{",
    "{{{", "\\{{", "{{#each passages}}", "{{> part}}", "{{/if}}", "${name}", "%s", "{0}", "{question}",
    "<<x>>", "`x`", "system:", "\nuser:\n", "assistant: hi\n", "\n\nHuman: x", '{{role "system"}}',
    '{% chat role="user" %}', "[[ ## question ## ]]", "[[ ## completed ## ]]", "</question>",
    "<passages>", "&amp;", "<", "[1]", "[2] x", '"', "'", '"""', "\\", "\\n", "\\u0041", "\\\"", "\r\n",
    "\r", "\n", "\n\n", "\t", " ", "  \n", "\u2028", "\u2029", "\x00", "\x1f", "\x7f", "\x85", "\ufeff",
    "é", "😀", "👩‍👩‍👧", "日本", "none", "---", "# ", "#}", "%}", "$", "@", "_",
)  # fmt: skip
"""Pieces of text that some template language, role marker or file format would stumble over."""


CALM: Any = list(HealthCheck)
"""Nothing of what hypothesis checks of a test: drawing whole programs is slow, and meant to be."""


class Fresh(ListSource):
    """A source that finds other passages on every search, as many as it is asked for."""

    def __init__(self, text: str = "It is made of text.") -> None:
        super().__init__([])
        self.text, self.passage_count = text, 0

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """`k` new passages."""
        self.passage_count += k
        numbers = range(self.passage_count - k, self.passage_count)
        return tuple(Hit(Passage(f"p{i}", f"Title {i}", f"Thing {i}. {self.text}"), 1.0) for i in numbers)


def build_program(entry: Method, reply: Any = None, *, source: Any = None, **knobs: Any) -> RagProgram:
    """`entry` on one scripted target with all roles, and the sources that it may use."""
    if "icl_n" in knobs and any(knob.name == "icl_domain" for knob in entry.knobs.list_knobs()):
        knobs = {"icl_domain": "any"} | knobs  # chosen by each question's domain they cannot be exported
    target = ScriptedTarget(reply or SchemaReplies(logprob=-3.0))
    roles: Any = dict.fromkeys(("main", "proxy", "judge", "teacher"), target)
    sources = dict.fromkeys((*entry.sources, *entry.optional_sources), source or Fresh())
    return entry.build(Runtime(roles, sources, store=CallStore(None)), knobs)


def built(entry: Method, knobs: Mapping[str, Any], reply: Any = None) -> RagProgram | None:
    """`build_program`, or None where a knob's value needs what is not there."""
    try:
        return build_program(entry, reply, **knobs)
    except UsageError:
        return None


def texts() -> st.SearchStrategy[str]:
    """Texts of awkward pieces and of anything else; no lone surrogates, nor the sign of a slot."""
    pieces = st.sampled_from(NASTY) | st.text(
        st.characters(codec="utf-8", exclude_characters="\ue000"), max_size=6
    )
    return st.lists(pieces, max_size=6).map("".join)


def value_of(one: Input) -> st.SearchStrategy[Any]:
    """Values of an input; lists of up to 20."""
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "text": texts(),
        "integer": st.integers(-(10**12), 10**12),
        "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**6), 10**6),
        "flag": st.booleans(),
    }
    return st.lists(kinds[one.kind], max_size=20) if one.many else kinds[one.kind]


def inputs_for(prompt: CompiledPrompt) -> st.SearchStrategy[dict[str, Any]]:
    """Inputs of `prompt` as a program shows them: markers are defused, which few formats do themselves."""
    values = st.fixed_dictionaries({one.name: value_of(one) for one in prompt.inputs})
    return values.map(lambda inputs: escaped_inputs(prompt, inputs))


def demos_for(signature: Any) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Up to three demonstrations of awkward texts, incomplete ones among them."""
    fields = {
        name: st.lists(texts(), max_size=3) if str(info.annotation).startswith("list") else texts()
        for name, info in signature.fields.items()
    }
    return st.lists(st.fixed_dictionaries({}, optional=fields), max_size=3)


def with_demos(program: RagProgram, data: st.DataObject) -> RagProgram:
    """`program` with random demonstrations, and instructions, in every predictor."""
    for _, call in program.named_predictors():
        call.signature = call.signature.with_instructions("Say so. " + data.draw(texts()))
        call.demos = data.draw(demos_for(call.signature))
    return program


def draw_program(
    entry: Method,
    data: st.DataObject,
    demos: Callable[[RagProgram, st.DataObject], RagProgram] = with_demos,
) -> RagProgram:
    """The program in any layout and either wording, with the demonstrations that `demos` draws."""
    layout, wording = data.draw(st.sampled_from(LAYOUTS)), data.draw(st.sampled_from(WORDINGS))
    return demos(build_program(entry, layout=layout, wording=wording, icl_n=2), data)


def capture_messages(program: RagProgram, name: str, inputs: Mapping[str, Any]) -> tuple[Message, ...]:
    """The messages that the target of the predictor `name` gets in its first request for `inputs`."""
    call = dict(program.named_predictors())[name]
    target: Any = call.runtime.target(call.role)
    target.context_tokens = 10**9
    del target.requests[:]
    call.runtime.gateway.store = CallStore(None)  # nothing is replayed
    call(**inputs)
    messages: tuple[Message, ...] = target.requests[0].messages
    return messages


Rendered = list[tuple[str, str]]
"""Role and content of each message."""

# These report how they are used, to servers of their own, unless they are told not to.
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")


def consumer(name: str) -> Any:
    """The module `name`, or a skip of the test module that asks for it; what it warns of is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is not installed: pip install 'ragc[exports]'")


def file_of(format: str, program: ExportedProgram, prompt: CompiledPrompt | None = None) -> bytes:
    """The file of `prompt`, by default the only one, in `format`."""
    chosen, (first, *_) = format_of(format), program.prompts
    file = chosen.files(program)[f"{(prompt or first).name}{chosen.suffix}"]
    assert file.endswith(b"\n")
    assert b"\r" not in file
    return file


def export_alone(prompt: CompiledPrompt) -> ExportedProgram:
    """A program of one prompt."""
    return ExportedProgram("typed", "", "f" * 64, {}, (prompt,), single=True)


def changed(**fields: Any) -> ExportedProgram:
    """A program of one call, with the `fields` of its prompt replaced, and only the inputs that it shows."""
    (prompt,) = derive_export(build_program(method("vanilla")))
    prompt = replace(prompt, **fields)
    slot_names = {slot.name for message in prompt.messages for slot in message.slots}
    return export_alone(replace(prompt, inputs=tuple(one for one in prompt.inputs if one.name in slot_names)))


def with_any_demos(program: RagProgram, data: st.DataObject) -> RagProgram:
    """`program` with random demonstrations, and in its instructions the name of each predictor: a second same
    request is not sent.
    """
    for name, call in with_demos(program, data).named_predictors():
        call.signature = call.signature.with_instructions(f"{name}: {call.signature.instructions}")
    return program
