"""Vanilla and no-retrieval programs, through the public API, on scripted targets."""

from __future__ import annotations

import asyncio
from typing import Any

from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.records import Passage
from ragc.testing import ListSource, ScriptedTarget


def passages(n: int) -> list[Passage]:
    return [Passage(f"p{i}", f"Title {i}", f"text {i}") for i in range(n)]


def build_program(
    target: ScriptedTarget, id: str = "vanilla", source: Any = None, **knobs: Any
) -> RagProgram:
    runtime = Runtime({"main": target}, {"local": source or ListSource(passages(9))})
    return method(id).build(runtime, {"wording": "brief", **knobs})


def test_vanilla_puts_noise_at_the_end_or_among_what_is_found() -> None:
    shown = []
    for noise_pos in ("end", "random", "random"):
        prediction = build_program(ScriptedTarget([{"answer": "x"}]), noise_n=3, noise_pos=noise_pos)(
            question="Is it?"
        )
        shown.append([p.id for p in prediction.passages])
    end, first, second = shown
    assert end == ["p0", "p1", "p2", "p6", "p7", "p8"]
    assert first == second != end
    assert sorted(first) == end
    assert [p for p in first if p in end[:3]] == end[:3]


def test_a_program_may_be_awaited_on_any_loop() -> None:
    program = build_program(ScriptedTarget(lambda request: {"answer": "x"}))

    async def several() -> list[str]:
        predictions = await asyncio.gather(*(program.acall(question=f"Q{i}") for i in range(5)))
        return [s.answer for s in predictions]

    assert asyncio.run(several()) == ["x"] * 5
