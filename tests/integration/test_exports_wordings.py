"""Every format with the prompts as they are written, in both wordings: its consumer gives what is sent.

Other tests of exports draw instructions and demonstrations of awkward pieces; here are the instructions of
each method, under a layout of its own, with a plain demonstration and plain inputs. None may be refused. The
consumers are those of the other tests; openai-batch is checked by OpenAI's types in the place of a server.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pydantic
import pytest

from ragc.exports.derive import derive_export
from ragc.exports.formats.base import FORMATS
from ragc.exports.formats.promptfoo.format import folders
from ragc.exports.write import export, format_of
from ragc.programs import METHODS, Method, method
from ragc.programs.base import RagProgram
from ragc.programs.knobs import LAYOUTS, WORDINGS
from ragc.prompts.model import Case, CompiledPrompt, ExportedProgram
from ragc.targets.base import Message
from tests.exports.common import build_program, capture_messages
from tests.exports.formats import baml_runs, prompty_runs, readers, test_dotprompt
from tests.exports.formats.handmade import with_texts
from tests.exports.formats.python.test_format import run_alone
from tests.exports.formats.test_jinja2 import render_file
from tests.exports.formats.test_openai_batch import posted
from tests.exports.formats.test_openai_json import fill_request
from tests.integration import test_exports_promptfoo as promptfoo

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800), *readers.QUIET]

TEXT = 'Who wrote "Solaris" {in 1961}, & <why>? \\ It\'s {{asked}}: 50 % é.'
LISTED = ["Stanisław Lem\nHe wrote Solaris.", "[1] A film\nIt is of 1972.", TEXT]
PLAIN = {"text": TEXT, "integer": 3, "number": 0.5, "flag": True}


@dataclass(frozen=True)
class Written:
    """A program as it is written, its export, and for each prompt its inputs and the messages it sends."""

    program: RagProgram
    out: ExportedProgram
    folder: Path
    inputs: Mapping[str, dict[str, Any]]
    sent: Mapping[str, tuple[Message, ...]]

    def files(self, format: str) -> Mapping[str, bytes]:
        """The files of the export; the method needs no demonstrations that a format refuses."""
        return format_of(format).files(self.out)

    def each(self, format: str) -> Iterator[tuple[CompiledPrompt, bytes, dict[str, Any], list[Any]]]:
        """Each prompt with its file, its inputs, and role and text of its messages."""
        files, suffix = self.files(format), format_of(format).suffix
        for prompt in self.out:
            sent = [tuple(message) for message in self.sent[prompt.name]]
            yield prompt, files[f"{prompt.name}{suffix}"], self.inputs[prompt.name], sent


def write(entry: Method, wording: str, folder: Path) -> Written:
    """`entry` in `wording`, under the layout of its turn, with a demonstration of its texts and lists."""
    layout = LAYOUTS[METHODS.index(entry) % len(LAYOUTS)]
    program = build_program(entry, layout=layout, wording=wording, icl_n=1)
    for _, call in program.named_predictors():
        kinds = {name: str(info.annotation) for name, info in call.signature.fields.items()}
        shown = {name: LISTED for name, kind in kinds.items() if kind == "list[str]"}
        shown |= {name: TEXT for name, info in call.signature.fields.items() if info.annotation is str}
        call.demos = [shown]
    out = derive_export(program)
    inputs = {
        prompt.name: {one.name: LISTED if one.many else PLAIN[one.kind] for one in prompt.inputs}
        for prompt in out
    }
    sent = {name: capture_messages(program, name, values) for name, values in inputs.items()}
    return Written(program, out, folder, inputs, sent)


def prove_jinja2(one: Written) -> None:
    for _, file, inputs, sent in one.each("jinja2"):
        assert render_file(file, inputs) == sent


def prove_openai_json(one: Written) -> None:
    openai: Any = pytest.importorskip("openai")
    listed: Any = list.__class_getitem__(openai.types.chat.ChatCompletionMessageParam)
    taken: Any = pydantic.TypeAdapter(listed)
    for _, file, inputs, sent in one.each("openai-json"):
        messages = fill_request(file, inputs)["messages"]
        assert [(m["role"], m["content"]) for m in taken.validate_python(messages)] == sent


def prove_openai_batch(one: Written) -> None:
    openai: Any = pytest.importorskip("openai")
    body = pydantic.TypeAdapter(openai.types.chat.completion_create_params.CompletionCreateParamsNonStreaming)
    cases = [Case(f"{name} 1", name, inputs) for name, inputs in one.inputs.items()]
    files = format_of("openai-batch").files(derive_export(one.program, cases=cases))
    for case in cases:
        (line,) = files[f"{case.prompt}.batch.jsonl"].splitlines()
        request = json.loads(line)["body"]
        assert body.validate_python(request)
        assert request == posted(one.program, case.prompt, dict(case.inputs))


def prove_python(one: Written) -> None:
    (data,) = one.files("python").values()
    file = one.folder / "generated.py"
    file.write_bytes(data)
    (messages,) = run_alone([(str(file), list(one.inputs.items()))])
    assert messages == [[list(message) for message in one.sent[name]] for name in one.inputs]


def prove_prompty(one: Written) -> None:
    for _, file, inputs, sent in one.each("prompty"):
        messages = [Message(*message) for message in sent]
        assert prompty_runs.limited(messages) is not None, "no line of a prompt reads as a role"
        prompty_runs.check(one.folder, file, inputs, messages)


def prove_dotprompt(one: Written) -> None:
    render = test_dotprompt.in_python()
    for prompt, file, inputs, sent in one.each("dotprompt"):
        messages = render(file, with_texts(prompt, inputs, "json"))
        assert messages == test_dotprompt.spoken([Message(*message) for message in sent])


def prove_baml(one: Written) -> None:
    pytest.importorskip("baml_py")
    runtime = baml_runs.Baml(one.out, one.files("baml"))
    for prompt in one.out:
        body = runtime.body(prompt, one.inputs[prompt.name])
        assert baml_runs.read_messages(body) == baml_runs.limited(one.sent[prompt.name])


def prove_by_reader(format: str) -> Callable[[Written], None]:
    def prove(one: Written) -> None:
        for _, file, inputs, sent in one.each(format):
            assert readers.READERS[format](file, inputs) == sent

    return prove


SLOW = ("mlflow", "llamaindex")
"""Formats that are proved for the five methods and the two simplest baselines."""

PROOFS: dict[str, Callable[[Written], None]] = {
    "baml": prove_baml,
    "dotprompt": prove_dotprompt,
    "jinja2": prove_jinja2,
    "openai-batch": prove_openai_batch,
    "openai-json": prove_openai_json,
    "prompty": prove_prompty,
    "python": prove_python,
    **{format: prove_by_reader(format) for format in readers.READERS},
}


def test_every_format_is_proved_here() -> None:
    assert {*PROOFS, "promptfoo"} == set(FORMATS)


@pytest.mark.parametrize("format", PROOFS)
@pytest.mark.parametrize("wording", WORDINGS)
def test_the_prompts_of_all_methods_are_those_sent(format: str, wording: str, tmp_path: Path) -> None:
    if format == "mlflow":
        with readers.mlflow_registry(tmp_path):
            prove_all(format, wording, tmp_path)
    else:
        prove_all(format, wording, tmp_path)


def prove_all(format: str, wording: str, folder: Path) -> None:
    """Prove `format` for the methods in `wording`."""
    for entry in METHODS[:7] if format in SLOW else METHODS:
        PROOFS[format](write(entry, wording, folder))


def test_the_wordings_of_every_method_differ(tmp_path: Path) -> None:
    for entry in METHODS:
        full, brief = (write(entry, wording, tmp_path).sent for wording in WORDINGS)
        assert full != brief


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.skipif(
    not (promptfoo.HOME and promptfoo.PROMPTFOO.is_file()),
    reason="RAGC_NODE_MODULES names no folder with promptfoo",
)
@pytest.mark.parametrize("wording", WORDINGS)
def test_promptfoo_sends_them(wording: str, tmp_path: Path) -> None:
    one = write(method("prefrag"), wording, tmp_path)
    cases = tuple(Case(f"{name} 1", name, inputs) for name, inputs in one.inputs.items())
    out = replace(one.out, cases=cases)
    export(out, "promptfoo", tmp_path / "out")
    for prompt, folder in zip(out, folders(out), strict=True):
        (result,) = promptfoo.evaluate(tmp_path / "out" / folder, "echo")
        echo = json.loads(result["response"]["output"])
        assert [(m["role"], m["content"]) for m in echo] == [tuple(m) for m in one.sent[prompt.name]]
