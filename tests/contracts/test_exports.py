"""Every format: what its file gives is what the program sends, in the consumer itself where it is installed.

openai-batch is read by OpenAI's types in the place of a server, promptfoo by jinja2 in the place of node: the
systems themselves take both in tests/integration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pydantic
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import cases, examples
from tests.exports.common import (
    CALM,
    build_program,
    capture_messages,
    draw_program,
    export_alone,
    inputs_for,
    with_any_demos,
)
from tests.exports.formats import baml_runs, readers
from tests.exports.formats.python.test_format import load_module
from tests.exports.formats.test_openai_batch import posted
from tests.prompts.test_render import typed
from tests.support.kinds import (
    EXPORT_FORMATS,
    LAYOUTS,
    METHODS,
    WORDINGS,
    Case,
    CompiledPrompt,
    ExportedProgram,
    Message,
    Method,
    NotExpressible,
    RagProgram,
    body_of,
    build_variables,
    derive_export,
    find_method,
    folders,
    format_of,
)

pytestmark = readers.QUIET

TEXT = 'Who wrote "Solaris" {in 1961}, & <why>? \\ It\'s {{asked}}: 50 % é.'
LISTED = ["Stanisław Lem\nHe wrote Solaris.", "[1] A film\nIt is of 1972.", TEXT]
CASE = Case("q", "answer", {"question": "Who?", "passages": []}, ("A",))
PLAIN = {"text": TEXT, "integer": 3, "number": 0.5, "flag": True}


@dataclass(frozen=True)
class Written:
    """An export with inputs for each of its prompts and the messages that the program sends for them."""

    out: ExportedProgram
    folder: Path
    inputs: Mapping[str, dict[str, Any]]
    sent: Mapping[str, tuple[Message, ...]]
    program: RagProgram | None = None

    def each(self, format: str) -> Iterator[tuple[CompiledPrompt, bytes, dict[str, Any], list[Any]]]:
        """Each prompt with its file, its inputs, and role and text of its messages."""
        files, suffix = format_of(format).files(self.out), format_of(format).suffix
        for prompt in self.out:
            sent = [tuple(message) for message in self.sent[prompt.name]]
            yield prompt, files[f"{prompt.name}{suffix}"], self.inputs[prompt.name], sent


def prove_by_reader(read: Callable[[bytes, Any], Any], format: str) -> Callable[[Written], None]:
    """The messages that `read` makes of a file are those sent."""

    def prove(written: Written) -> None:
        for _, file, inputs, sent in written.each(format):
            assert read(file, inputs) == sent

    return prove


def prove_openai_json(written: Written) -> None:
    openai: Any = pytest.importorskip("openai")
    listed: Any = list.__class_getitem__(openai.types.chat.ChatCompletionMessageParam)
    taken: Any = pydantic.TypeAdapter(listed)
    for _, file, inputs, sent in written.each("openai-json"):
        messages = readers.fill_request(file, inputs)["messages"]
        assert [(m["role"], m["content"]) for m in taken.validate_python(messages)] == sent


def prove_openai_batch(written: Written) -> None:
    openai: Any = pytest.importorskip("openai")
    body = pydantic.TypeAdapter(openai.types.chat.completion_create_params.CompletionCreateParamsNonStreaming)
    assert written.program
    asked = [Case(f"{name} 1", name, inputs) for name, inputs in written.inputs.items()]
    files = format_of("openai-batch").files(derive_export(written.program, cases=asked))
    for case in asked:
        (line,) = files[f"{case.prompt}.batch.jsonl"].splitlines()
        request = json.loads(line)["body"]
        assert body.validate_python(request)
        assert request == posted(written.program, case.prompt, dict(case.inputs))


def prove_python(written: Written) -> None:
    module = load_module(written.out)
    for name, inputs in written.inputs.items():
        messages = module.messages(name, **inputs)
        assert [(m["role"], m["content"]) for m in messages] == [tuple(m) for m in written.sent[name]]
        if written.program:
            call = dict(written.program.named_predictors())[name]
            assert module.request(name, **inputs) == body_of(call.request(**inputs), "model")


def prove_prompty(written: Written) -> None:
    for _, file, inputs, sent in written.each("prompty"):
        readers.check_prompty(written.folder, file, inputs, [Message(*message) for message in sent])


def prove_dotprompt(written: Written) -> None:
    render = readers.dotprompt_in_python()
    for prompt, file, inputs, sent in written.each("dotprompt"):
        messages = render(file, readers.with_texts(prompt, inputs))
        assert messages == readers.spoken([Message(*message) for message in sent])


def prove_baml(written: Written) -> None:
    pytest.importorskip("baml_py")
    runtime = baml_runs.Baml(written.out, format_of("baml").files(written.out))
    for prompt in written.out:
        body = runtime.body(prompt, written.inputs[prompt.name])
        assert baml_runs.read_messages(body) == baml_runs.limited(written.sent[prompt.name])


def prove_promptfoo(written: Written) -> None:
    files = format_of("promptfoo").files(written.out)
    for prompt, folder in zip(written.out, folders(written.out), strict=True):
        variables = build_variables(prompt, written.inputs[prompt.name])
        chat = json.loads(files[f"{folder}/chat.json"])
        messages = readers.in_jinja2(chat, variables, dump=partial(json.dumps, ensure_ascii=False))
        assert messages == [tuple(message) for message in written.sent[prompt.name]]


PROOFS: dict[str, Callable[[Written], None]] = {
    "baml": prove_baml,
    "dotprompt": prove_dotprompt,
    "jinja2": prove_by_reader(readers.jinja2, "jinja2"),
    "openai-batch": prove_openai_batch,
    "openai-json": prove_openai_json,
    "promptfoo": prove_promptfoo,
    "prompty": prove_prompty,
    "python": prove_python,
    **{format: prove_by_reader(read, format) for format, read in readers.READERS.items()},
}


@pytest.fixture(params=list(EXPORT_FORMATS), scope="module")
def format(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Each format, and the registry that MLflow's needs."""
    if request.param == "mlflow":
        with readers.mlflow_registry(tmp_path_factory.mktemp("mlflow")):
            yield request.param
    else:
        yield request.param


def written_of(program: RagProgram, folder: Path, inputs: Mapping[str, dict[str, Any]]) -> Written:
    """The export of `program` with the messages that it sends for `inputs`, by prompt."""
    out = derive_export(program)
    sent = {name: capture_messages(program, name, values) for name, values in inputs.items()}
    return Written(out, folder, inputs, sent, program)


def as_written(entry: Method, wording: str, folder: Path) -> Written:
    """`entry` in `wording`, under the layout of its turn, with a demonstration of its texts and lists."""
    layout = LAYOUTS[METHODS.index(entry) % len(LAYOUTS)]
    program = build_program(entry, layout=layout, wording=wording, icl_n=1)
    for _, call in program.named_predictors():
        kinds = {name: str(info.annotation) for name, info in call.signature.fields.items()}
        shown = {name: LISTED for name, kind in kinds.items() if kind == "list[str]"}
        shown |= {name: TEXT for name, info in call.signature.fields.items() if info.annotation is str}
        call.demos = [shown]
    return written_of(
        program,
        folder,
        {
            prompt.name: {one.name: LISTED if one.many else PLAIN[one.kind] for one in prompt.inputs}
            for prompt in derive_export(program)
        },
    )


@pytest.mark.parametrize("wording", WORDINGS)
def test_the_prompts_of_every_method_as_they_are_written_are_those_sent(
    format: str, wording: str, tmp_path: Path
) -> None:
    """None is refused, whatever the wording."""
    for entry in cases(METHODS, 4):
        PROOFS[format](as_written(entry, wording, tmp_path))


@settings(max_examples=examples(50), suppress_health_check=CALM, deadline=None)
@given(data=st.data())
def test_whatever_is_shown_and_given_is_what_is_sent(
    format: str, data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Demonstrations, instructions and inputs of pieces that template languages stumble over."""
    folder = tmp_path_factory.mktemp(format)
    entry = METHODS[data.draw(st.integers(0, len(METHODS) - 1))]
    program = draw_program(entry, data, with_any_demos)
    prompts = derive_export(program).prompts
    written = written_of(program, folder, {prompt.name: data.draw(inputs_for(prompt)) for prompt in prompts})
    try:
        PROOFS[format](written)
    except NotExpressible:  # a message of white space, which these would not send
        fixed = [m.fixed_text or "" for prompt in prompts for m in prompt.messages[:-1]]
        assert format in ("baml", "dotprompt")
        assert any(not text.replace("\ufeff", "").strip() for text in fixed)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=examples(20), suppress_health_check=CALM, deadline=None)
@given(data=st.data())
def test_inputs_of_every_type_are_written_as_the_layout_does(
    format: str, layout: str, data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if format not in (*readers.READERS, "jinja2", "python"):
        pytest.skip("has tests of its own for the types that it takes")
    folder = tmp_path_factory.mktemp(format)
    call, prompt = typed(layout)
    inputs = data.draw(inputs_for(prompt))
    sent = tuple(call.messages(**inputs))
    PROOFS[format](Written(export_alone(prompt), folder, {prompt.name: inputs}, {prompt.name: sent}))


@pytest.mark.parametrize("entry", cases(METHODS, 3), ids=lambda entry: entry.id)
def test_the_same_program_gives_the_same_bytes(format: str, entry: Method) -> None:
    """Lines end in LF, the last one too."""
    made = []
    for _ in range(2):
        out = derive_export(build_program(entry, icl_n=1))
        asked = [
            Case("q", prompt.name, {one.name: [] if one.many else PLAIN[one.kind] for one in prompt.inputs})
            for prompt in out
        ]
        made.append(dict(format_of(format).files(derive_export(build_program(entry, icl_n=1), cases=asked))))
    assert made[0] == made[1]
    assert all(file.endswith(b"\n") and b"\r" not in file for file in made[0].values())


MISSING: dict[str, Any] = {
    "haystack": "Missing mandatory input 'passages'",
    "jinja2": "'passages' is undefined",
    "langchain": "missing variables",
    "llamaindex": None,
    "mlflow": None,
    "prompty": "passages",
}
"""What a consumer says where an input is missing; some write nothing in its place."""


def test_a_missing_input_is_an_error_of_the_consumer_that_has_one(format: str, tmp_path: Path) -> None:
    if format not in MISSING:
        pytest.skip("has no reader of its own")
    reads = {"jinja2": readers.jinja2, "prompty": partial(readers.prompty, tmp_path)}
    read: Any = {**readers.READERS, **reads}[format]
    out = derive_export(build_program(find_method("vanilla" if MISSING[format] else "no_retrieval")))
    file = format_of(format).files(out)[f"answer{format_of(format).suffix}"]
    if MISSING[format]:
        with pytest.raises(Exception, match=MISSING[format]):
            read(file, {"question": "q"})
    else:
        assert read(file, {})[-1] == ("user", "Question: ")


FACTS: dict[str, Callable[[bytes], Mapping[str, Any]]] = {
    "haystack": lambda file: yaml.safe_load(file)["metadata"],
    "jinja2": json.loads,
    "langchain": lambda file: readers.langchain_template(file).metadata,
    "llamaindex": lambda file: json.loads(file[2 : file.index(b"#}")]),
}
"""Where a file says what a caller needs beside the messages; other formats have places of their own."""


def test_a_file_says_whose_it_is_and_how_it_is_sent_and_read(format: str) -> None:
    note = "Demonstrations: of nobody #} {% chat %}."
    out = replace(derive_export(build_program(find_method("vanilla"))), note=note)
    (prompt,) = out
    files = dict(format_of(format).files(replace(out, cases=(CASE,))))
    assert any(out.fingerprint.encode() in file for file in files.values()) or format == "openai-batch"
    if format in FACTS:
        facts = FACTS[format](files[f"answer{format_of(format).suffix}"])
        assert (facts["program"], facts["note"]) == (out.fingerprint, note)
        assert facts["parameters"] == prompt.parameters
        assert facts["input_schema"] == prompt.input_schema
        assert facts["output_schema"] == prompt.output_schema


def test_every_format_is_proved_here() -> None:
    assert set(PROOFS) == set(EXPORT_FORMATS)
