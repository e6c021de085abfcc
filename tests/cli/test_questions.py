"""Questions of a project: written by a teacher, from a log, reviewed, and what becomes of them later."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.errors import TargetUnavailable
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import ScriptedTarget
from tests.paths import SRC
from tests.support.progress import Notes
from tests.support.rows import read_rows, write_rows

TOWNS = [f"Northtown{number}" for number in range(10, 40)]


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    folder = tmp_path / "docs"
    folder.mkdir()
    for town in TOWNS:
        text = f"The plant of {town} is a company that Ada Quill{town[-2:]} founded after a long war."
        (folder / f"{town}.md").write_text(f"# Plant {town}\n\n{text}\n")
    return folder


def town_in(text: str) -> str:
    """The first town in a text."""
    return min((town for town in TOWNS if town in text), key=text.index, default="")


def teach(request: ChatRequest) -> str | Reply:
    """Asks who created a factory and answers that from a passage, but not without one."""
    shown = request.messages[-1].content
    town = town_in(shown)
    properties: Mapping[str, Any] = (request.schema or {})["properties"]
    if list(properties) == ["question"]:
        question = f"Which income, staff or street address has Plant {town} for boats?"
        return json.dumps({"question": question})
    if list(properties) == ["quote", "answer", "question"]:
        quote = f"The plant of {town} is a company that Ada Quill{town[-2:]} founded after a long war."
        question = f"Which person created the factory of {town}?"
        return json.dumps({"quote": quote, "answer": f"Ada Quill{town[-2:]}", "question": question})
    knows = "founded after" in shown and "boats" not in shown
    return json.dumps({"answer": f"Ada Quill{town[-2:]}" if knows else "unknown"})


def new(*, teacher: Any = teach, **more: Any) -> tuple[Any, ScriptedTarget]:
    target = teacher if isinstance(teacher, ScriptedTarget) else ScriptedTarget(teacher)
    return ragc.new("docs", teacher=target, **more), target


def questions() -> list[dict[str, Any]]:
    return read_rows(Path("docs-ragc/questions.jsonl"))


def aside() -> list[dict[str, Any]]:
    return read_rows(Path("docs-ragc/set_aside.jsonl"))


def test_questions_are_written_with_their_group_and_a_recipe_that_studies_them(docs: Path) -> None:
    notes = Notes()
    project, _ = new(count=24, progress=notes)
    assert project.questions == 24 == len(questions())
    assert any("at most 90 calls" in line for line in notes.notes)
    assert {row["kind"] for row in questions()} == {"single", "unanswerable"}
    assert all(row["document"] in row["passages"] for row in questions())
    recipe = ragc.recipe.load(project.folder / "recipe.toml")
    assert (recipe.data.train, recipe.data.dev, recipe.data.test) == (None, None, None)
    assert recipe.data.fields.explicit["group"] == "document"
    assert ragc.compile(project.folder / "recipe.toml", dry_run=True) is not None
    assert any("content words stand in its passage" in line for line in project.question_lines)
    assert not any("For trying" in line for line in project.question_lines)


def test_a_second_run_sends_nothing_and_writes_the_same(docs: Path) -> None:
    new(count=24)
    before = questions()
    _, target = new(count=24)
    assert (questions(), target.requests) == (before, [])


def test_a_run_that_the_teacher_ends_goes_on_from_the_store(docs: Path) -> None:
    answered: list[ChatRequest] = []

    def fails_after(request: ChatRequest) -> str | Reply:
        if len(answered) == 30:
            raise TargetUnavailable("the server went away")
        answered.append(request)
        return teach(request)

    project, _ = new(count=24, teacher=fails_after)
    assert any("The questions end early: the server went away" in line for line in project.question_lines)
    assert project.passages == 30
    again, target = new(count=24)
    assert again.questions == 24
    assert target.requests
    assert not [request for request in target.requests if request in answered]


def test_what_a_person_edited_stays_and_what_lost_its_passage_is_set_aside(docs: Path) -> None:
    new(count=24)
    items = questions()
    single = [row for row in items if row["kind"] == "single"]
    single[0]["question"], single[1]["answers"] = "Who was behind it all in 1850?", ["Ada"]
    items.append({"id": "mine", "question": "What is my own question?", "answers": ["this"]})
    write_rows(Path("docs-ragc/questions.jsonl"), items)
    gone, changed = docs / single[2]["document"], docs / single[3]["document"]
    gone.unlink()
    changed.write_text(changed.read_text().replace("a long war", "a short war"))
    project, target = new(count=24)
    texts = [row["question"] for row in questions()]
    assert "Who was behind it all in 1850?" in texts
    assert "What is my own question?" in texts
    assert next(row for row in questions() if row["id"] == single[1]["id"])["answers"] == ["Ada"]
    reasons = {row["id"]: row["reason"] for row in aside()}
    assert reasons[single[2]["id"]] == f"its passage {single[2]['document']!r} is no longer there"
    assert any("is no longer there" in line for line in project.question_lines)
    assert single[3]["question"] not in texts or target.requests
    assert not {row["id"] for row in questions()} & {single[2]["id"]}


def test_questions_that_fail_are_kept_aside_and_the_set_is_for_trying(docs: Path) -> None:
    def poor(request: ChatRequest) -> str | Reply:
        town = town_in(request.messages[-1].content)
        if int(town[-2:] or 0) % 5 == 1:
            return teach(request)
        return json.dumps({"quote": "q", "answer": "x", "question": "What does the passage say?"})

    project, _ = new(count=24, teacher=poor, kinds=("single",))
    assert project.questions == 6
    assert {row["reason"] for row in aside()} == {"failed self_contained"}
    assert all(row["for_trying"] is True for row in questions())
    assert any(
        "For trying only: 20% of the questions passed the checks, and a verdict needs 25%" in line
        for line in project.question_lines
    )
    assert project.studied  # by cross-validation


def test_a_teacher_whose_first_questions_all_fail_is_not_asked_for_more(docs: Path) -> None:
    def poor(request: ChatRequest) -> str | Reply:
        return json.dumps({"quote": "q", "answer": "x", "question": "What does the passage say?"})

    project, _ = new(count=24, teacher=poor)
    assert (project.questions, len(aside())) == (0, 12)
    assert any("None of the first 12 questions passed the checks" in line for line in project.question_lines)


def test_a_dry_run_bounds_the_calls_and_writes_nothing(docs: Path) -> None:
    target = ScriptedTarget(teach)
    planned = ragc.new("docs", teacher=target, count=10, dry_run=True)
    assert (planned["tries"], planned["calls"]) == (20, 60)
    assert planned["prompt_tokens"] > 0
    assert not Path("docs-ragc").exists()
    assert target.requests == []
    assert ragc.new("docs", questions=False, dry_run=True)["calls"] == 0


def test_a_log_keeps_gold_answers_and_thumbs_and_answers_the_rest(docs: Path) -> None:
    lines = ["query,response,thumbs"]
    lines += [f"Who is behind {town}?,Ada Quill{town[-2:]},up" for town in TOWNS[:18]]
    lines += [f"Who is behind {town}?,Bob,down" for town in TOWNS[18:22]]
    lines += ["who is behind Northtown10,Ada Q.,up", "What do boats cost?,,", "What do boats cost??,5,"]
    Path("logs.csv").write_text("\n".join(lines) + "\n")
    project, target = new(questions="logs.csv")
    by_text = {row["question"]: row for row in questions()}
    assert by_text["Who is behind Northtown10?"]["answers"] == ["Ada Quill10", "Ada Q."]
    assert by_text["Who is behind Northtown10?"]["asked"] == 2
    drafted = by_text["Who is behind Northtown28?"]
    assert (drafted["answers"], drafted["gold_ids"]) == (["Ada Quill28"], ["Northtown28.md"])
    assert (drafted["reply"], drafted["thumb"]) == ("Bob", "down")
    assert [(row["question"], row["reason"]) for row in aside()] == [
        ("What do boats cost?", "failed answerable")
    ]
    assert project.questions == 22
    assert len(target.requests) == 4  # of the fifth question no passage has a word
    recipe = ragc.recipe.load(project.folder / "recipe.toml")
    assert recipe.data.questions == "questions.jsonl"
    assert ragc.compile(project.folder / "recipe.toml", dry_run=True) is not None


def test_a_damaged_file_of_questions_is_named_and_left(docs: Path) -> None:
    new(count=24)
    path = Path("docs-ragc/questions.jsonl")
    path.write_text('{"question": 3}\n')
    with pytest.raises(ragc.DataError, match="line 1: `question` is missing or no text"):
        new(count=24)
    assert path.read_text() == '{"question": 3}\n'


def test_a_review_keeps_fixes_and_drops_and_goes_on_where_it_was(docs: Path) -> None:
    new(count=24)
    path = Path("docs-ragc/questions.jsonl")
    decisions = iter(["keep", "drop", {"question": "Who did it in 1850?", "answers": ["Ada"]}, "skip", None])
    first = [row["id"] for row in questions()]
    counts = ragc.review_questions(path, lambda row: next(decisions))
    assert (counts["kept"], counts["fixed"], counts["dropped"], counts["open"]) == (1, 1, 1, 21)
    assert first[1] not in [row["id"] for row in questions()]
    assert aside()[-1]["reason"] == "dropped"
    seen: list[str] = []

    def stop(row: Mapping[str, Any]) -> None:
        seen.append(row["id"])

    ragc.review_questions(path, stop)
    assert seen == [first[3]]
    _, target = new(count=24)
    assert first[1] not in [row["id"] for row in questions()]
    assert "Who did it in 1850?" in [row["question"] for row in questions()]
    with pytest.raises(ragc.UsageError, match="A decision is keep, drop"):
        ragc.review_questions(path, lambda row: "perhaps")
    assert target is not None


def test_enough_reviews_decide_whether_the_set_is_for_trying(docs: Path) -> None:
    new(count=24)
    path = Path("docs-ragc/questions.jsonl")
    decisions = iter([*["keep", "drop"] * 10, None])
    counts = ragc.review_questions(path, lambda row: next(decisions))
    assert counts["for_trying"] is True
    assert counts["good"] == 0.5
    assert {row.get("for_trying") for row in questions() if not row.get("review")} == {True}


def in_terminal(arguments: list[str], typed: str, *, interrupted: bool = False) -> str:
    """What `ragc` prints in a terminal in which `typed` is entered, then Ctrl-C at the next prompt if it is
    `interrupted`.
    """
    parent, child = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(SRC), "TERM": "dumb"}
    with subprocess.Popen(
        [sys.executable, "-m", "ragc", *arguments],
        stdin=child,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
    ) as process:
        os.close(child)
        os.write(parent, typed.encode())
        shown = b""
        while interrupted and shown.count(b"uit? ") <= typed.count("\n"):
            assert process.stdout
            shown += process.stdout.read(1)
        if interrupted:
            process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=120)
        out = shown + rest
    os.close(parent)
    assert process.returncode == (130 if interrupted else 0), out
    return out.decode()


def test_a_terminal_shows_each_question_and_takes_letters(docs: Path) -> None:
    new(count=24)
    out = in_terminal(
        ["questions", "review", "docs-ragc/questions.jsonl"], "k\nx\nd\nf\nWho was it?\nAda | A.\nq\n"
    )
    assert f"Q: {aside()[-1]['question']}" in out
    assert "1 kept, 1 fixed, 1 dropped, 21 open." in " ".join(out.split())
    fixed = next(row for row in questions() if row.get("review") == "fixed")
    assert (fixed["question"], fixed["answers"]) == ("Who was it?", ["Ada", "A."])


def test_a_question_is_shown_with_its_passage(docs: Path) -> None:
    new(count=24)
    first = next(row for row in questions() if row["kind"] == "single")
    write_rows(Path("docs-ragc/questions.jsonl"), [first])
    out = in_terminal(["questions", "review", "docs-ragc/questions.jsonl"], "q\n")
    town = first["document"].removesuffix(".md")
    assert f"[1] Plant {town} ({first['document']})\n    # Plant {town}\n    The plant of {town} is" in out


def test_an_interrupted_review_says_what_is_written(docs: Path) -> None:
    new(count=24)
    out = in_terminal(["questions", "review", "docs-ragc/questions.jsonl"], "k\n", interrupted=True)
    assert "every decision before this one is in docs-ragc/questions.jsonl. The same command goes on;" in out
    assert "every finished request" not in out
    assert sum(row.get("review") == "kept" for row in questions()) == 1


def test_labels_hold_for_one_prediction_and_are_asked_for_once(
    docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [
        {"id": f"q{n}", "question": f"Who is {n}?", "answers": ["Ada"], "prediction": f"A{n}" if n else None}
        for n in range(4)
    ]
    write_rows(Path("rows.jsonl"), answers)
    out = in_terminal(["questions", "label", "rows.jsonl"], "c\nw\nq\n")
    assert "1 correct, 1 wrong, 1 open; labels in rows.labels.jsonl." in " ".join(out.split())
    labels = read_rows(Path("rows.labels.jsonl"))
    assert [(row["id"], row["label"]) for row in labels] == [("q1", "correct"), ("q2", "wrong")]
    answers[1]["prediction"] = "another"
    write_rows(Path("rows.jsonl"), answers)
    shown_ids: list[str] = []

    def decide(row: Mapping[str, Any]) -> str:
        shown_ids.append(row["id"])
        return "correct"

    assert ragc.label_answers("rows.jsonl", decide) == {"correct": 3, "wrong": 1, "open": 0}
    assert shown_ids == ["q1", "q3"]
    with pytest.raises(ragc.UsageError, match="A verdict is correct, wrong"):
        ragc.label_answers("rows.jsonl", lambda row: "perhaps", out="other.jsonl")
