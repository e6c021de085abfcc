"""Prompt files of strangers in `[prompts]`: each is refused in one sentence, and nothing in it is run."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from ragc.cli.main import main
from ragc.core.digest import digest
from ragc.errors import DataError, UsageError
from ragc.prompts.files import DEEPEST, MOST_BYTES
from ragc.prompts.load import import_prompt
from tests.examples import thorough
from tests.support.recipes import recipe_toml, vllm
from tests.support.rows import write_rows

RECIPE = recipe_toml(
    prompts={"answer": "%s"}, data={"dev": 1}, targets={"main": vllm("http://127.0.0.1:9/v1")}
)
LAST = "Q: {{ question }}\n{% for p in passages %}[{{ loop.index }}] {{ p }}\n{% endfor %}"
WRITTEN = [{"role": "user", "content": LAST}]
INPUTS = {
    "properties": {"question": {"type": "string"}, "passages": {"type": "array", "items": {"type": "string"}}}
}
SECONDS = 10.0


def prompt(content: Any = LAST, **more: Any) -> str:
    """A file of one message with `content`, and `more` beside it."""
    return json.dumps({"messages": [{"role": "user", "content": content}], **more})


def reply(schema: Any, **more: Any) -> str:
    """A file that says that the output `answer` has `schema`."""
    return prompt(output_schema={"properties": {"answer": schema}, **more})


def exported(**source: Any) -> str:
    """A file that says of itself that it is an export, with its digest in order."""
    held = {
        "instructions": "Say.",
        "outputs": {},
        "demonstrations": [],
        **source,
        "messages": digest(WRITTEN),
    }
    return json.dumps({"messages": WRITTEN, "source": held, "input_schema": INPUTS})


HOSTILE: dict[str, str | bytes] = {
    "empty.json": "",
    "deep.json": "[" * 100_000,
    "deep_object.json": '{"a":' * 5000 + "1" + "}" * 5000,
    "deep_whole.json": '[{"role": "user", "content": "x", "more": ' + "[" * 900 + "]" * 900 + "}]",
    "digits.json": f"[{'9' * 5000}]",
    "huge_integer.json": prompt(temperature=10**400),
    "not_a_number.json": prompt(temperature=float("nan")),
    "infinite.json": prompt(max_tokens=float("inf")),
    "overflow.json": prompt()[:-1] + ', "max_tokens": 1e400}',
    "half_a_token.json": prompt(max_tokens=1.5),
    "stop_number.json": prompt(stop=5),
    "stop_object.json": prompt(stop={"a": 1}),
    "role_list.json": json.dumps([{"role": ["user"], "content": "x"}]),
    "role_long.json": json.dumps([{"role": "x" * 10**6, "content": "x"}]),
    "content_number.json": prompt(5),
    "content_parts.json": prompt([{"text": 5}]),
    "content_object.json": prompt({"text": LAST}),
    "tools.json": json.dumps([{"role": "assistant", "tool_calls": [{}], "content": "x"}]),
    "surrogate.json": '[{"role": "user", "content": "\\ud800 {{ question }} {{ passages }}"}]',
    "surrogate_role.json": '[{"role": "\\ud800", "content": "x"}]',
    "slot_number.json": prompt("x", slots={"x": 5}),
    "slot_style.json": prompt("x", slots={"x": {"input": "q", "style": []}}),
    "properties_number.json": prompt(output_schema={"properties": 5}),
    "properties_list.json": prompt(output_schema={"properties": ["answer"]}),
    "property_number.json": reply(5),
    "definitions.json": reply({"$ref": 5}, **{"$defs": {"A": 5}}),
    "input_number.json": prompt(input_schema={"properties": {"question": 5}}),
    "input_list.json": prompt(input_schema={"properties": ["question"]}),
    "input_items.json": prompt(input_schema={"properties": {"question": {"type": "array", "items": 5}}}),
    "other_fields.json": reply({"type": "string"}).replace("question", "query"),
    "long_name.jinja": "{{ " + "a" * 100_000 + " }}",
    "source_numbers.json": exported(instructions=5, outputs=5, demonstrations=5),
    "source_demo.json": exported(demonstrations=[5]),
    "source_object.json": exported(demonstrations=[{"question": {"a": 1}}]),
    "source_passages.json": exported(demonstrations=[{"question": "q", "passages": "one text"}]),
    "utf16.jinja": LAST.encode("utf-16"),
    "latin1.jinja": "é {{ question }}".encode("latin-1"),
    "binary.jinja": bytes(range(256)) * 16,
    "binary.json": b"\x93NUMPY\x01\x00" + bytes(range(256)),
    "deep.toml": "a = " + "[" * 5000,
    "bomb.yaml": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "range.jinja": "{{ question }}{% for i in range(10**9) %}x{% endfor %}",
    "repeat.jinja": "{{ question }}{{ 'x' * 10**9 }}",
    "power.jinja": "{{ question }}{{ 9**9**9**9 }}",
    "digits.jinja": "{{ question }}{{ " + "9" * 5000 + " }}",
    "include_itself.jinja": "{% include 'include_itself.jinja' %}{{ question }}",
    "extend_itself.jinja": "{% extends 'extend_itself.jinja' %}{{ question }}",
    "import.jinja": "{% import '/etc/passwd' as a %}{{ question }}",
    "macro.jinja": "{% macro a(x) %}{{ a(x) }}{% endmacro %}{{ a(question) }}",
    "recursive.jinja": "{% for x in passages recursive %}{{ loop(x) }}{% endfor %}{{ question }}",
    "classes.jinja": "{{ question.__class__.__mro__[1].__subclasses__() }}",
    "call.jinja": "{{ question.format() }}",
    "assignment.jinja": "{% set question = 5 %}{{ question }}",
    "nested_loops.jinja": "{% for a in passages %}" * 300 + "{% endfor %}" * 300,
    "nested_ifs.jinja": "{% if question %}" * 3000 + "x" + "{% endif %}" * 3000,
    "nested_brackets.jinja": "{{ " + "(" * 3000 + "question" + ")" * 3000 + " }}",
    "nested_choices.jinja": "{{ " + "'a' if question else (" * 200 + "'b'" + ")" * 200 + " }}",
    "long_sum.jinja": "{{ " + "+".join(["question"] * 20_000) + " }}",
    "filters.jinja": "{{ question" + "|upper" * 3000 + " }}",
    "open_raw.jinja": "{% raw %}{{ question }}",
    "title.jinja": "\x1b]0;x\x07{% bad %}",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    question = {"id": "q1", "question": "Which colour?", "answers": ["red"], "gold_ids": ["d1"]}
    write_rows(tmp_path / "questions.jsonl", [question])
    (tmp_path / "corpus.jsonl").write_text('{"id": "d1", "title": "T", "text": "red"}\n', "utf-8")
    return tmp_path


def said_of(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command line says of a recipe with the prompt `name`, in one line, within seconds."""
    (folder / "recipe.toml").write_text(RECIPE % name, "utf-8")
    started = time.monotonic()
    assert main(["ask", "recipe.toml", "Why?"]) == 2
    assert time.monotonic() - started < SECONDS
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ragc: ")
    assert err.count("\n") == 1
    assert len(err) < 1000
    assert name in err
    return err


@thorough
@pytest.mark.parametrize("name", HOSTILE)
def test_each_is_refused_in_one_sentence(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = HOSTILE[name]
    (folder / name).write_bytes(held if isinstance(held, bytes) else held.encode())
    said_of(folder, name, capsys)


def test_a_folder_a_pipe_and_a_device_are_no_prompts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    (folder / "device.json").symlink_to("/dev/zero")
    for name, kind in (("folder.json", "a folder"), ("pipe.json", "a FIFO"), ("device.json", "a device")):
        assert f"it is {kind}" in said_of(folder, name, capsys)


def test_a_file_without_end_is_read_up_to_the_most(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (folder / "huge.jinja").open("wb") as file:
        file.truncate(50 * MOST_BYTES)
    assert "larger than 4 MiB" in said_of(folder, "huge.jinja", capsys)


def test_nesting_is_bounded_where_json_would_still_read_it(tmp_path: Path) -> None:
    def nested(levels: int) -> Path:
        schema: dict[str, Any] = {"type": "string"}
        for _ in range(levels):
            schema = {"type": "array", "items": schema}
        path = tmp_path / f"{levels}.json"
        path.write_text(reply(schema), "utf-8")
        return path

    import_prompt(nested(DEEPEST - 10)).signature()
    with pytest.raises(DataError, match="nested deeper than 64 levels"):
        import_prompt(nested(DEEPEST))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/A"},
        {"type": ["string", "null"]},
        {"enum": []},
        {"enum": 5},
        {"anyOf": 5},
        {"anyOf": [5]},
        {"type": "string", "pattern": "("},
        {"type": "string", "pattern": 5},
        {"type": "string", "minLength": "x"},
        {"type": "array", "items": 5},
        {"type": "object", "properties": 5},
    ],
)
def test_a_schema_that_is_none_gives_no_signature(schema: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "prompt.json"
    itself = {"$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}}}
    path.write_text(reply(schema, **itself), "utf-8")
    with pytest.raises(UsageError) as caught:
        import_prompt(path).signature()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
