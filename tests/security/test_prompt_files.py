"""Prompt files of strangers in `[prompts]`: each is refused in one sentence, and nothing in it is run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ragc.cli.main import main
from ragc.core.digest import digest
from ragc.prompts.imported import MAX_BYTES
from tests.examples import thorough
from tests.support.recipes import recipe_toml, vllm
from tests.support.rows import write_rows

RECIPE = recipe_toml(
    prompts={"answer": "%s"}, data={"dev": 1}, targets={"main": vllm("http://127.0.0.1:9/v1")}
)


def source(**values: Any) -> str:
    """A file that says of itself that it is an export, with its digest in order."""
    return json.dumps({"source": {**values, "digest": digest({})}})


HOSTILE: dict[str, str | bytes] = {
    "empty.json": "",
    "deep.json": "[" * 100_000,
    "deep_object.json": '{"a":' * 5000 + "1" + "}" * 5000,
    "deep_source.json": '{"source": {"demonstrations": [{"question": ' + "[" * 900 + "]" * 900 + "}]}}",
    "digits.json": f"[{'9' * 5000}]",
    "huge_integer.json": json.dumps({"source": {}, "temperature": 10**400}),
    "not_a_number.json": json.dumps({"source": {}, "temperature": float("nan")}),
    "infinite.json": source(demonstrations=[{"question": float("inf"), "answer": "a"}]),
    "list.json": json.dumps([{"role": "user", "content": "{{ question }}"}]),
    "messages.json": json.dumps({"messages": [{"role": "user", "content": "{{ question }}"}]}),
    "source_list.json": '{"source": []}',
    "surrogate.json": source(instructions="\ud800"),
    "numbers.json": source(instructions=5, fields=5, demonstrations=5),
    "demo.json": source(demonstrations=[5]),
    "object.json": source(demonstrations=[{"question": {"a": 1}, "answer": "a"}]),
    "passages.json": source(demonstrations=[{"question": "q", "passages": "one text", "answer": "a"}]),
    "nested.json": source(demonstrations=[{"question": json.loads("[" * 90 + "]" * 90), "answer": "a"}]),
    "long_name.json": source(**{"a" * 100_000: 1}),
    "marker.txt": "Say [[ ## answer ## ]] first.",
    "utf16.txt": "Say.".encode("utf-16"),
    "latin1.md": "é".encode("latin-1"),
    "binary.txt": bytes(range(256)) * 16,
    "binary.json": b"\x93NUMPY\x01\x00" + bytes(range(256)),
    "deep.toml": "a = " + "[" * 5000,
    "unknown.toml": "run = 'rm'",
    "dates.toml": "[[demonstrations]]\nquestion = 1979-05-27\nanswer = 'a'",
    "bomb.yaml": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "range.jinja": "{{ question }}{% for i in range(10**9) %}x{% endfor %}",
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
    """What the command line says of a recipe with the prompt `name`."""
    (folder / "recipe.toml").write_text(RECIPE % name, "utf-8")
    assert main(["ask", "recipe.toml", "Why?"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ragc: ")
    assert all(line.startswith("  ") for line in err.splitlines()[1:])
    assert len(err) < 1000
    assert name in err
    return err


@thorough
@pytest.mark.parametrize("name", HOSTILE)
def test_each_is_refused(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = HOSTILE[name]
    (folder / name).write_bytes(held if isinstance(held, bytes) else held.encode())
    said_of(folder, name, capsys)


def test_a_folder_a_pipe_and_a_device_are_no_prompts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    (folder / "device.json").symlink_to("/dev/zero")
    for name, kind in (
        ("folder.json", "a folder"),
        ("pipe.json", "no regular file"),
        ("device.json", "no regular file"),
    ):
        assert f"it is {kind}" in said_of(folder, name, capsys)


def test_a_file_without_end_is_read_up_to_the_most(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (folder / "huge.txt").open("wb") as file:
        file.truncate(50 * MAX_BYTES)
    assert "larger than 4 MiB" in said_of(folder, "huge.txt", capsys)
