"""Edits that people make in prompts: each is sent, or refused in a message that shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ragc.errors import UsageError
from ragc.prompts.load import import_prompt
from tests.examples import cases
from tests.exports.common import capture_messages
from tests.prompts.edited import blank, files

EDITS = Path(__file__).parent / "edits.jsonl"
"""Edits by people who had not seen the code that reads them, one a line.

`program`, `form` and `file` name a prompt of `tests.prompts.edited`, `changes` are texts of that file to find
and their replacements, `arrives` the words that an edit adds and `gone` those that it removes.
"""


def edits() -> Iterator[Any]:
    for line in EDITS.read_text("utf-8").splitlines():
        edit = json.loads(line)
        yield pytest.param(edit, id=f"{edit['id']}-{edit['program']}-{edit['form']}")


def fold(text: str) -> str:
    """`text` in one line, as it stands or with the escapes of JSON undone."""
    return " ".join(text.replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\").split())


SAMPLES: Mapping[str, Any] = {"list": ["some text"], "int": 3, "text": "some text"}


def kind_of(info: Any) -> str:
    """Which of the samples fits a field."""
    if str(info.annotation).startswith("list"):
        return "list"
    return "int" if info.annotation is int else "text"


def outcome(edit: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    """What is sent after the edit, all losses allowed, and why it was refused; "" where it is not."""
    name, text = files(edit["program"], edit["form"])[edit["file"]]
    for change in edit["changes"]:
        assert change["find"] in text, change["find"]
        text = text.replace(change["find"], change["replace"], 1)
    path = folder / edit["file"]
    path.write_bytes(text.encode())
    program = blank(edit["program"], edit["form"])
    refusal = ""
    try:
        import_prompt(path).apply(program, name)
    except UsageError as error:
        refusal = fold(str(error))
        try:
            import_prompt(path).apply(program, name, allow_loss=True)
        except UsageError:
            return "", refusal
    call = dict(program.named_predictors())[name]
    inputs = {field: SAMPLES[kind_of(info)] for field, info in call.signature.input_fields.items()}
    return fold("\n".join(m.content for m in capture_messages(program, name, inputs))), refusal


@pytest.mark.parametrize("edit", cases(edits(), 25))
def test_an_edit_is_sent_or_refused_with_its_text(edit: Mapping[str, Any], tmp_path: Path) -> None:
    sent, refusal = outcome(edit, tmp_path)
    for words in edit["arrives"]:
        assert fold(words) in sent or fold(words) in refusal
    for words in edit["gone"]:
        assert fold(words) in refusal or fold(words) not in sent


def test_most_edits_are_sent_and_few_are_refused(tmp_path: Path) -> None:
    sampled = [param.values[0] for param in list(edits())[::12]]
    refused = sum(bool(outcome(edit, tmp_path)[1]) for edit in sampled)
    assert len(list(edits())) >= 240
    assert refused <= len(sampled) // 4
