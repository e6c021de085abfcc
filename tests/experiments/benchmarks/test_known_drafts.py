"""The measurement of SlimPLM's judge on PopQA, with a scripted proxy: rows, resuming, and the table."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from experiments.benchmarks.scoring import known_drafts
from experiments.benchmarks.scoring.known_drafts import (
    Judged,
    draw,
    judge_all,
    main,
    read_questions,
    report,
)
from ragc.core import event_loop
from ragc.errors import DataError
from ragc.store.call_store import CallStore
from ragc.targets.base import ChatRequest, Reply, TokenLogprob
from ragc.testing import ScriptedTarget
from tests.support.rows import write_rows

ROWS = [
    {"id": "1", "question": "What is the capital of France?", "answers": ["Paris"], "s_pop": 90_000},
    {"id": "2", "question": "Who painted Mona Lisa?", "answers": ["Leonardo", "da Vinci"], "s_pop": 50_000},
    {"id": "3", "question": "What is Henry Feilden's occupation?", "answers": ["politician"], "s_pop": 58},
]
DRAFTS = {"France": "It is paris.", "Mona": "Leonardo painted it.", "Feilden": "He was a painter."}


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    write_rows(path, ROWS)
    return path


def proxy(drafts: Any = DRAFTS, *, able: bool = True) -> ScriptedTarget:
    """Sure of every draft where style is asked for; of correctness only where the subject is well known."""

    def reply(request: ChatRequest) -> Reply:
        assert request.schema is not None
        inputs = request.messages[-1].content
        *_, name = request.schema["properties"]
        if name == "heuristic_answer":
            return Reply(json.dumps({name: next(text for word, text in drafts.items() if word in inputs)}))
        likely = 0.9 if "likely right" not in request.messages[0].content or "Feilden" not in inputs else 0.2
        if name == "confidence":
            return Reply(json.dumps({"reason": "", name: round(likely * 10) * 10}))
        word = "yes" if likely > 0.5 else "no"
        text = json.dumps({"reason": "", name: word})
        at = text.rindex(word)
        sure = math.log(max(likely, 1 - likely))
        tokens = ((text[:at], 0.0), (word, sure), (text[at + len(word) :], 0.0))
        return Reply(text, logprobs=tuple(TokenLogprob(*token) for token in tokens))

    return ScriptedTarget(reply, capabilities=("schema", "logprobs") if able else ("schema",))


def measure(target: ScriptedTarget, path: Path, out: Path, **more: Any) -> list[Judged]:
    options: dict[str, Any] = {"kinds": ("logprobs",), "wordings": ("full", "brief"), **more}
    popqa = read_questions(path)
    return event_loop.run(judge_all(target, popqa, out, store=CallStore(None), **options))


def test_drafts_are_judged_in_both_forms_and_wordings(questions: Path, tmp_path: Path) -> None:
    target, out = proxy(), tmp_path / "judged.jsonl"
    judged = measure(target, questions, out)
    assert len(judged) == 3 * 2 * 2
    assert {one.id: one.right for one in judged} == {"1": True, "2": True, "3": False}
    assert {one.id: one.popularity for one in judged} == {"1": 90_000, "2": 50_000, "3": 58}
    scores = {(one.asks, one.id): one.score for one in judged if one.wording == "full"}
    assert scores == {
        ("style", "1"): pytest.approx(0.9), ("style", "2"): pytest.approx(0.9),
        ("style", "3"): pytest.approx(0.9), ("correctness", "1"): pytest.approx(0.9),
        ("correctness", "2"): pytest.approx(0.9), ("correctness", "3"): pytest.approx(0.2),
    }  # fmt: skip
    assert len(target.requests) == 6 + 12  # a draft is shared by both forms
    assert len(out.read_text("utf-8").splitlines()) == len(judged)


@pytest.mark.parametrize(("kind", "high", "low"), [("text", 1.0, 0.0), ("confidence", 0.9, 0.2)])
def test_targets_without_probabilities_are_measured_too(
    questions: Path, tmp_path: Path, kind: str, high: float, low: float
) -> None:
    judged = measure(proxy(able=False), questions, tmp_path / "judged.jsonl", kinds=(kind,))
    scores = {one.id: one.score for one in judged if one.asks == "correctness"}
    assert scores == {"1": high, "2": high, "3": low}


def test_an_ended_measurement_goes_on_and_other_prompts_are_not_taken_over(
    questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "judged.jsonl"
    judged = measure(proxy(), questions, out)
    lines = out.read_text("utf-8").splitlines(keepends=True)
    out.write_text("".join(lines[:7]) + lines[7][:30], "utf-8")  # as a kill leaves it
    again = proxy()
    assert measure(again, questions, out) == judged
    assert 5 <= len(again.requests) <= 2 * 5
    assert sorted(out.read_text("utf-8").splitlines(keepends=True)) == sorted(lines)
    idle = proxy()
    assert measure(idle, questions, out) == judged
    assert not idle.requests
    others = [json.dumps(json.loads(line) | {"judge": "of other prompts"}) + "\n" for line in lines]
    out.write_text("".join(others), "utf-8")
    assert measure(proxy(), questions, out) == judged
    assert out.read_text("utf-8").startswith("".join(others))


def test_the_table_shows_that_style_tells_nothing_and_correctness_does(
    questions: Path, tmp_path: Path
) -> None:
    text = "\n".join(report(measure(proxy(), questions, tmp_path / "judged.jsonl")))
    style, correct = (
        next(line for line in text.splitlines() if f"full, logprobs, {asks}" in line)
        for asks in ("style", "correctness")
    )
    assert "1.00,     1.00" in style
    assert "0.500 [" in style
    assert "1.00,     0.00" in correct
    assert "1.000 [" in correct
    assert "correctness less style, full, logprobs: +0.500" in text
    assert "page views alone, brief drafts: right 1.000" in text


def test_what_cannot_be_read_is_counted(questions: Path, tmp_path: Path) -> None:
    def reply(request: ChatRequest) -> str:
        assert request.schema is not None
        inputs = request.messages[-1].content
        if "heuristic_answer" in request.schema["properties"]:
            return '{"heuristic_answer": " "}' if "Mona" in inputs else '{"heuristic_answer": "A draft."}'
        return "no judgement at all"

    target = ScriptedTarget(reply, capabilities=("schema",))
    judged = measure(target, questions, tmp_path / "judged.jsonl", kinds=("text",), wordings=("full",))
    assert {one.score for one in judged} == {None}
    assert not any(one.known or one.right for one in judged)
    text = "\n".join(report(judged))
    assert text.startswith("2 judgements left out, whose draft is empty")
    assert "cannot be told" in text


def test_questions_are_checked_and_drawn_with_a_fixed_seed(tmp_path: Path, questions: Path) -> None:
    every = read_questions(questions)
    assert [one.id for one in draw(every, None)] == ["1", "2", "3"]
    assert draw(every, 2) == draw(every, 2)
    assert len(draw(every, 2)) == 2
    table = tmp_path / "popQA.tsv"
    table.write_text(
        'id\tquestion\tpossible_answers\ts_pop\n7\tWho was Ann?\t["a poet", "poet"]\t12\n', "utf-8"
    )
    (one,) = read_questions(table)
    assert (one.id, one.answers, one.popularity) == ("7", ("a poet", "poet"), 12)
    write_rows(questions, [{"id": "1", "question": "Who?", "answers": ["a"]}])
    with pytest.raises(DataError, match="`s_pop` is missing, the page views of the subject"):
        read_questions(questions)


def test_one_command_measures_the_target_of_a_recipe(
    questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(known_drafts, "build_target", lambda spec: proxy())
    recipe = tmp_path / "recipe.toml"
    (tmp_path / "corpus.jsonl").write_text('{"id": "a", "text": "a"}\n', "utf-8")
    recipe.write_text(
        'program = "slimplm"\n[data]\nquestions = "questions.jsonl"\ncorpus = "corpus.jsonl"\n'
        '[sources.local]\nkind = "bm25"\n[targets.main]\nkind = "embedded"\n[targets.proxy]\n'
        'kind = "embedded"\n',
        "utf-8",
    )
    out = tmp_path / "judged.jsonl"
    main([str(recipe), str(questions), "--limit", "3", "--wording", "brief", "--out", str(out)])
    printed = capsys.readouterr().out
    assert "3 questions" in printed
    assert "brief, logprobs, correctness" in printed
    assert len(out.read_text("utf-8").splitlines()) == 6
