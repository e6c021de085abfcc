"""Import: exports come back whole, hand-written prompts as fields, and bad ones are told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.errors import DataError, UnknownName, UsageError
from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs import METHODS, Method, method
from ragc.programs.base import RagProgram
from ragc.programs.calls.outputs import reply_schema
from ragc.programs.knobs import LAYOUTS
from ragc.prompts.load import ImportedPrompt, import_prompt
from tests.examples import examples
from tests.exports.common import CALM, build_program, with_demos

FORMATS = ("jinja2", "openai-json")
DEMO = {"question": "Who wrote it?", "passages": ["One.", "Two [2] and\n[7] more."], "answer": "Ann"}


def read(folder: Path, files: Any, name: str) -> ImportedPrompt:
    (folder / name).write_bytes(files[name])
    return import_prompt(folder / name)


def import_text(folder: Path, content: Any, name: str = "own.json") -> ImportedPrompt:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return import_prompt(folder / name)


def answering(**knobs: Any) -> RagProgram:
    return build_program(method("vanilla"), **knobs)


def answer(program: RagProgram) -> Any:
    return dict(program.named_predictors())["answer"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("id", ["vanilla", "slimplm"])
@settings(max_examples=examples(5), suppress_health_check=CALM)
@given(data=st.data())
def test_an_export_comes_back_as_the_same_bytes(
    id: str, format: str, data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    knobs = {"layout": data.draw(st.sampled_from(LAYOUTS)), "icl_n": 3, "temperature": 0.5}
    before = derive_export(with_demos(build_program(method(id), **knobs), data))
    files, folder = format_of(format).files(before), tmp_path_factory.mktemp("export")
    again = build_program(method(id), **knobs)
    for prompt in before:
        imported_prompt = read(folder, files, f"{prompt.name}{format_of(format).suffix}")
        assert (imported_prompt.exported, imported_prompt.left) == (True, ())
        assert imported_prompt.sampling.temperature == prompt.sampling.temperature
        imported_prompt.apply(again, prompt.name)
    assert format_of(format).files(derive_export(again)) == files


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
def test_the_signature_of_an_export_asks_for_the_same_replies(entry: Method, tmp_path: Path) -> None:
    program = derive_export(build_program(entry))
    files = format_of("openai-json").files(program)
    for prompt in program:
        imported_prompt = read(tmp_path, files, f"{prompt.name}.openai.json")
        assert imported_prompt.inputs == prompt.inputs
        signature = imported_prompt.signature()
        assert list(signature.input_fields) == [one.name for one in prompt.inputs]
        assert reply_schema(signature) == prompt.output_schema


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_that_somebody_edited_is_read_as_it_stands(format: str, tmp_path: Path) -> None:
    program = answering(icl_n=2)
    answer(program).signature = answer(program).signature.with_instructions("Say so.")
    answer(program).demos = [DEMO]
    name = f"answer{format_of(format).suffix}"
    file = format_of(format).files(derive_export(program))[name]
    (tmp_path / name).write_bytes(file.replace(b"Say so.", b"Say it shortly."))
    imported_prompt = import_prompt(tmp_path / name)
    assert (imported_prompt.instructions, imported_prompt.demos) == ("Say it shortly.", (DEMO,))
    assert "changed after the export" in imported_prompt.left[0]
    other = answering(icl_n=2)
    imported_prompt.apply(other, "answer")
    answer(program).signature = answer(program).signature.with_instructions("Say it shortly.")
    assert [p.messages for p in derive_export(other)] == [p.messages for p in derive_export(program)]


ASK = "Context:\n{{passages}}\n\nQuestion: {{ question }}"
HAND = [
    {"role": "developer", "content": "You answer from the passages."},
    {"role": "user", "content": "Context:\n[1] Bees fly.\n[2] Ants walk.\n\nQuestion: What flies?"},
    {"role": "assistant", "content": "Bees"},
    {"role": "user", "content": "How are you?"},
    {"role": "assistant", "content": "Fine."},
    {"role": "user", "content": ASK},
]


@pytest.mark.parametrize("bare", [True, False])
def test_a_hand_written_array_gives_fields_instructions_and_demonstrations(
    bare: bool, tmp_path: Path
) -> None:
    more = {"messages": HAND, "temperature": 0.3, "max_completion_tokens": 9, "stop": "END"}
    imported_prompt = import_text(tmp_path, HAND if bare else more)
    assert imported_prompt.instructions == "You answer from the passages."
    assert [one.name for one in imported_prompt.inputs] == ["passages", "question"]
    assert [one.name for one in imported_prompt.outputs] == ["answer"]
    demo = {"passages": "[1] Bees fly.\n[2] Ants walk.", "question": "What flies?", "answer": "Bees"}
    assert imported_prompt.demos == (demo,)
    assert len(imported_prompt.left) == 1
    assert "How are you?" in imported_prompt.left[0]
    sampling = imported_prompt.sampling
    assert (sampling.temperature, sampling.max_tokens, sampling.stop) == (
        (0, 256, ()) if bare else (0.3, 9, ("END",))
    )


def test_what_a_last_message_says_beside_its_inputs_is_kept_as_instructions(tmp_path: Path) -> None:
    imported_prompt = import_text(
        tmp_path, [HAND[0], {"role": "user", "content": f"{ASK}\nBe brief.\nAnswer:"}]
    )
    assert imported_prompt.instructions == "You answer from the passages.\nBe brief."
    inline = import_text(tmp_path, "Translate {{ text }} to {{ language }}.\n\nAnswer:", "own.jinja")
    assert inline.instructions == "Translate `text` to `language`."
    assert [one.name for one in inline.inputs] == ["text", "language"]


def test_a_text_template_gives_lists_and_conditions(tmp_path: Path) -> None:
    text = (
        "Use the passages.\nPassages:\n{% for p in passages %}[{{ loop.index }}] {{ p }}\n{% endfor %}"
        "{% if hint %}Hint: {{ hint|trim }}\n{% endif %}Question: {{ question }}\n"
    )
    imported_prompt = import_text(tmp_path, text, "own.j2")
    fields = [(one.name, one.many) for one in imported_prompt.inputs]
    assert fields == [("passages", True), ("hint", False), ("question", False)]
    assert imported_prompt.instructions == "Use the passages."
    assert [note.split(" ")[1] for note in imported_prompt.left[:2]] == ["condition", "filter"]


def test_a_hand_written_prompt_starts_a_program(tmp_path: Path) -> None:
    imported_prompt = import_text(tmp_path, HAND)
    program = answering(icl_n=1)
    with pytest.raises(UsageError, match=r"would be lost.*\n.*How are you\?\n.*Fine"):
        imported_prompt.apply(program, "answer")
    assert imported_prompt.apply(program, "answer", allow_loss=True)
    (prompt,) = derive_export(program)
    assert (prompt.instructions, prompt.demos) == ("You answer from the passages.", 1)
    with pytest.raises(UsageError, match="1 demonstrations and the program shows 0; set the knob icl_n to 1"):
        imported_prompt.apply(answering(icl_n=0), "answer")
    with pytest.raises(UnknownName, match="'reply'"):
        imported_prompt.apply(program, "reply")


def test_other_fields_are_named(tmp_path: Path) -> None:
    imported_prompt = import_text(tmp_path, "Question: {{ q }}", "own.jinja")
    with pytest.raises(UsageError, match="its inputs are q, wanted are passages, question"):
        imported_prompt.apply(answering(), "answer")
    schema = {"json_schema": {"schema": {"properties": {"reply": {"type": "string"}}}}}
    both = {"messages": [{"role": "user", "content": ASK}], "response_format": schema}
    with pytest.raises(UsageError, match="its outputs are reply, wanted are answer"):
        import_text(tmp_path, both).apply(answering(), "answer")


def edited_export(folder: Path, change: Callable[[dict[str, Any]], object], **knobs: Any) -> Any:
    """An export of a program, imported after `change` of its document."""
    files = format_of("openai-json").files(derive_export(answering(**knobs)))
    document = json.loads(files["answer.openai.json"])
    change(document)
    (folder / "answer.openai.json").write_text(json.dumps(document), "utf-8")
    return import_prompt(folder / "answer.openai.json")


def schema_of(document: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = document["request"]["response_format"]["json_schema"]["schema"]
    return schema


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        (
            lambda one: one["request"].update(response_format={"type": "json_object"}),
            '-"type": "json_object"',
        ),
        (lambda one: one["request"].update(response_format="text"), "-text"),
        (
            lambda one: one["request"]["response_format"]["json_schema"].update(name="short"),
            '-"name": "short",',
        ),
        (
            lambda one: one["request"]["response_format"]["json_schema"].update(strict=False),
            '-"strict": false',
        ),
        (lambda one: schema_of(one).update(additionalProperties=True), '-"additionalProperties": true,'),
        (lambda one: schema_of(one).update(description="Be brief."), '-"description": "Be brief.",'),
        (lambda one: schema_of(one).update(required=[]), '-"required": [],'),
        (lambda one: one["request"]["messages"][0].update(role="developer"), '-"role": "developer"'),
        (lambda one: one["request"].update(stream=True), "-stream: true"),
        (lambda one: one["request"].update(logprobs=True), "-logprobs: true"),
        (lambda one: one.update(owner="Ms Okafor"), '-owner: "Ms Okafor"'),
        (lambda one: one["source"].update(owner="Ms Okafor"), '-source.owner: "Ms Okafor"'),
        (lambda one: one.update(model="own"), "-model: 'own'; the target is of the model 'scripted'"),
    ],
)
def test_what_an_export_says_beside_its_texts_and_no_program_sends_is_lost_and_listed(
    change: Callable[[dict[str, Any]], object], lost: str, tmp_path: Path
) -> None:
    imported_prompt = edited_export(tmp_path, change)
    with pytest.raises(UsageError, match=r"this would be lost .*\n(.*\n)* {4}" + re.escape(lost)):
        imported_prompt.apply(answering(), "answer")
    assert lost in "\n".join(imported_prompt.apply(answering(), "answer", allow_loss=True))


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one["request"].update(stream=False, n=1, logprobs=False),
        lambda one: one["request"].pop("response_format"),
        lambda one: one.update(about="Ours.", note="Asked of Ada."),
    ],
)
def test_what_is_sent_so_anyway_and_remarks_are_no_loss(
    change: Callable[[dict[str, Any]], object], tmp_path: Path
) -> None:
    assert edited_export(tmp_path, change).apply(answering(), "answer") == ()


def test_what_a_hand_written_request_says_beside_its_texts_is_sent_or_listed(tmp_path: Path) -> None:
    request = {"messages": [{"role": "user", "content": ASK}], "response_format": {"type": "json_object"}}
    for written, lost in (
        (request, ("@ response_format", '-"type": "json_object"')),
        ({**request, "response_format": FORMAT, "stream": True}, ("-stream: true",)),
        ({"request": {**request, "response_format": FORMAT}, "owner": "Ada"}, ('-owner: "Ada"',)),
    ):
        listed = import_text(tmp_path, written).apply(answering(), "answer", allow_loss=True)
        assert set(lost) <= set(listed)
        assert len([line for line in listed if line[0] == "-"]) == 1
    same = import_text(tmp_path, {**request, "response_format": FORMAT, "temperature": 0.0})
    assert same.apply(answering(), "answer") == ()
    chat = import_text(tmp_path, {**request, "response_format": FORMAT})
    with pytest.raises(UsageError, match="-response_format: "):
        chat.apply(answering(layout="chat"), "answer")


ANSWER_SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": ANSWER_SCHEMA}}
USER = {"role": "user", "content": "{{ question }}"}


def user(content: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content}]


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("{", "it is no JSON"),
        ({}, "it holds no messages"),
        ([1], "message 1 is no object"),
        ([{"role": "tool", "content": ""}, USER], "message 1 has the role 'tool'"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "message 1 holds something else than text"),
        ([{**USER, "name": "Ada"}], r"message 1 has the key 'name' \(\"Ada\"\)"),
        (
            [{"role": "user", "content": [{"type": "text", "text": "{{ question }}", "cache": "1 hour"}]}],
            r"message 1 has a part with the key 'cache' \(\"1 hour\"\)",
        ),
        (user("Hello"), "its last message has no slot"),
        ([USER, {"role": "assistant", "content": "Yes."}], "its last message must be the user's"),
        (user("{% for"), "message 1 cannot be imported: line 1 is no Jinja2"),
        (user("{{ a() }}"), "line 1 has a Jinja2 'call'"),
        (user("{{ a.__class__ }}"), "line 1 has a Jinja2 'getattr'"),
        (user("{% include 'x' %}"), "line 1 has a Jinja2 'include'"),
        (user("{% for d in docs %}{{ d.text }}{% endfor %}"), "'getattr'"),
        ({"messages": [USER], "temperature": "hot"}, "its temperature is no number"),
        (
            {"messages": [USER], "input_schema": {"properties": {"question": {"type": "object"}}}},
            "'question'",
        ),
    ],
)
def test_what_is_no_prompt_is_told_in_one_sentence(content: Any, wrong: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=wrong) as error:
        import_text(tmp_path, content)
    assert "own.json" in str(error.value)
    assert "\n" not in str(error.value)


def test_other_formats_and_missing_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="jinja2, openai-json"):
        import_prompt(tmp_path / "x.json", format="baml")
    with pytest.raises(DataError, match="cannot be read"):
        import_prompt(tmp_path / "x.json")
