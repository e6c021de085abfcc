"""Texts of others on a terminal: nothing acts, nothing is markup, and JSON stays JSON."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.cli import main
from ragc.cli.screen import EscapedStream
from ragc.core.progress import Bar, Lines, Progress
from ragc.core.text import json_text, visible
from ragc.programs.trace import Call, Note, Search
from ragc.records import Hit, Passage, Question
from ragc.task.answering import Row

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\r\x00\u202egnp.exe\u2066\ud800 [bold red]Lima[/] :smile:"
ACTING = ["\x1b", "\x07", "\x9b", "\x7f", "\r", "\x00", "\u202e", "\u2066", "\ud800"]


def row() -> Row:
    passage = Passage(HOSTILE, HOSTILE, HOSTILE)
    events = (
        Search(HOSTILE, HOSTILE, 3, (Hit(passage, 1.0),), (1,)),
        Call(HOSTILE, "main", {HOSTILE: HOSTILE}, {"answer": HOSTILE, "list": [HOSTILE]}, at=(2,)),
        Note(HOSTILE, HOSTILE, (3,)),
    )
    question = Question(HOSTILE, HOSTILE, (HOSTILE,))
    return Row(question, HOSTILE, (passage,), {}, {}, events, HOSTILE)


@pytest.mark.parametrize("form", [[], ["--trace"], ["--json"]])
def test_an_answer_is_printed_without_acting(
    form: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ragc.api.use.ask", lambda *args, **more: row())
    main.main(["ask", "somewhere", HOSTILE.replace("\x00", ""), *form])
    printed = capsys.readouterr().out
    assert not set(ACTING) & set(printed)
    assert "[bold red]Lima[/] :smile:" in printed
    if form == ["--json"]:
        assert json.loads(printed)["prediction"] == HOSTILE
    else:
        assert "\\u001b]0;owned\\u0007" in printed


def test_a_stream_that_takes_ascii_only_gets_json_all_the_same() -> None:
    held = io.BytesIO()
    stream = io.TextIOWrapper(held, encoding="ascii")
    EscapedStream(stream).write(json.dumps(["é\U0001f600\ud800\x7f"], ensure_ascii=False))
    stream.flush()
    assert json.loads(held.getvalue()) == ["é\U0001f600\ud800\x7f"]


@given(text=st.text(st.characters()))
def test_whatever_is_visible_acts_on_nothing_and_stays_json(text: str) -> None:
    shown = visible(text)
    assert all(char in "\n\t" or ord(char) >= 32 for char in shown)
    shown.encode()
    assert visible(shown) == shown
    assert json.loads(visible(json.dumps([text], ensure_ascii=False))) == [text]
    assert json.loads(json_text(text)) == text
    json_text(text).encode()


@pytest.mark.parametrize("display", [Bar, Lines])
def test_progress_of_a_study_follows_no_markup(
    display: Callable[[], Progress], capsys: pytest.CaptureFixture[str]
) -> None:
    progress = display()
    progress.phase(HOSTILE, 3)
    progress.note(HOSTILE)
    progress.trial(1, 2, 0.5, 0.5, HOSTILE)
    progress.close()
    printed = capsys.readouterr().err
    assert "[bold red]Lima[/] :smile:" in printed
    assert not re.search("[\x1b\x07\x9b\x7f\x00\u202e\u2066\ud800]", printed.replace("\x1b[A", ""))
