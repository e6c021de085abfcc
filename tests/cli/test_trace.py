"""The trace as people read it."""

from __future__ import annotations

import pytest

from ragc.cli import console
from ragc.cli.trace import lines
from ragc.core import event_loop
from ragc.programs import method
from ragc.programs.runtime import Runtime
from ragc.records import Passage, Question
from ragc.store.calls import CallStore
from ragc.task.answering import Row, answer
from ragc.testing import FailingSource, ListSource, ScriptedTarget

THOUGHT = {"thought": "The capital is missing."}
FINISH = {"action": "finish", "answer": "Paris", "explanation": "", "grade": "CORRECT", "improvement": ""}
FOUND = [Passage(f"p{i}", f"Title {i}", f"Text {i}.") for i in range(9)]


def shown(id: str, target: ScriptedTarget, sources: dict[str, object], **knobs: object) -> list[str]:
    ground = Runtime({"main": target}, sources, store=CallStore(None))  # type: ignore[arg-type]
    return list(lines(method(id).build(ground, knobs)(question="Capital?").trace))


def test_a_person_reads_thoughts_searches_comparisons_switches_and_grades_in_order() -> None:
    target = ScriptedTarget(
        [
            {**THOUGHT, "step": {"action": "search", "action_input": "capital of France"}},
            {**THOUGHT, "step": {"action": "search", "action_input": "Paris"}},
            {"status": False, "analysis": "nothing new"},
            {**THOUGHT, "step": FINISH},
        ]
    )
    text = shown(
        "prefrag", target, {"local": ListSource(FOUND), "web": ListSource(FOUND)}, k_local=1, k_web=1
    )
    heads = [line.strip() for line in text if line.startswith("  ") and line[2].isdigit()]
    kinds = [head.split(" ", 1)[1].split(":")[0].split(" (")[0] for head in heads]
    assert kinds[:7] == [
        "call step",
        "search local",
        "call step",
        "search local",
        "call compare",
        "switch",
        "search web",
    ]
    assert "      thought: The capital is missing." in text
    assert "      1. Title 0 (p0, 1.00)" in text


def test_long_outputs_are_wrapped_and_cut_and_a_source_that_fails_is_named() -> None:
    text = shown("vanilla", ScriptedTarget([{"answer": "word " * 400}]), {"local": FailingSource()})
    assert any("failed: the source is down" in line for line in text)
    output_lines = [line for line in text if "word" in line]
    assert len(output_lines) == 4
    assert all(len(line) <= 120 for line in text)
    assert text[-1].strip() == "…"


def answered(answers: tuple[str, ...]) -> Row:
    ground = Runtime(
        {"main": ScriptedTarget([{"answer": "Paris"}])}, {"local": ListSource(FOUND)}, store=CallStore(None)
    )
    program = method("vanilla").build(ground, {"top_k": 2})
    return event_loop.run(answer(program, Question("q", "Capital\nof France?", answers)))


def test_an_answer_keeps_each_field_on_its_line_and_shows_each_passage_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = answered(("Paris,\nFrance", "Paris"))
    console.print_answer(row, trace=False)
    plain = capsys.readouterr().out.splitlines()
    assert plain[0] == "Q: Capital of France?"
    assert plain[-1] == "   gold: Paris, France | Paris"
    assert sum("Title 0" in line for line in plain) == 1
    console.print_answer(row, trace=True)
    traced = capsys.readouterr().out.splitlines()
    assert sum("Title 0" in line for line in traced) == 1
    assert "passages: [1] p0, [2] p1" in traced
    assert not any("Text 0." in line for line in traced)
