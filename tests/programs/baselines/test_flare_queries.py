"""FLARE's explicit queries: questions about what a sentence is unsure of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Search
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import ScriptedTarget
from tests.programs.baselines.common import Echo, tokens
from tests.support.requests import last_output


def build_program(target: ScriptedTarget, **knobs: Any) -> RagProgram:
    ground = Runtime({"main": target}, {"local": Echo([])})
    return method("flare").build(ground, {"queries": "questions", "sentences": 1, **knobs})


def sentence(*pairs: tuple[str, float]) -> Reply:
    """A reply whose sentence is made of `pairs` of text and probability."""
    return tokens(('{"sentence": "', 1.0), *pairs, ('"}', 1.0))


UNSURE = sentence(("Ann", 0.9), (" Lee", 0.3), (" sang in", 0.9), (" 19", 0.2), ("01", 0.1), (".", 0.3))


def script(query: Callable[[str], Any], drafted: Reply = UNSURE) -> Callable[[ChatRequest], Any]:
    """Drafts one sentence, asks as `query` says of a prompt, and answers x."""

    def reply(request: ChatRequest) -> Any:
        if last_output(request) == "sentence":
            return drafted
        return query(request.messages[-1].content) if last_output(request) == "query" else {"answer": "x"}

    return reply


def queries(prediction: Any) -> list[str]:
    return [event.query for event in prediction.trace if isinstance(event, Search)]


def test_a_question_is_asked_about_each_doubtful_part_and_what_they_find_is_mixed() -> None:
    target = ScriptedTarget(
        script(lambda content: {"query": "Who?" if "Doubtful: Lee" in content else "When?"}), hold=True
    )
    prediction = build_program(target, flare_k=3)(question="Q?")
    assert queries(prediction) == ["Q?", "Who?", "When?"]
    assert [p.id for p in prediction.passages] == ["Who? 0", "When? 0", "Who? 1"]
    assert (prediction.counters["flare_lookups"], target.steps) == (1, 4)  # the questions side by side
    prompts = [r.messages[-1].content for r in target.requests if last_output(r) == "query"]
    assert [prompt.split("Doubtful: ")[1] for prompt in prompts] == ["Lee", "1901."]


@pytest.mark.parametrize(
    ("reply", "query", "dropped"),
    [({"query": " "}, "Ann sang in", 2), ("{}", "Ann sang in", 2), ({"query": "Same?"}, "Same?", 0)],
)
def test_without_questions_the_surer_words_are_looked_up(reply: Any, query: str, dropped: int) -> None:
    prediction = build_program(ScriptedTarget(script(lambda _: reply)))(question="Q?")
    assert (queries(prediction), prediction.counters["dropped"]) == (["Q?", query], dropped)


def test_no_part_is_so_doubtful_that_it_is_asked_about() -> None:
    target = ScriptedTarget(script(lambda _: {"query": "Who?"}, sentence(("Ann", 0.9), (" sang.", 0.6))))
    assert queries(build_program(target)(question="Q?")) == ["Q?", "Ann sang."]
    assert "query" not in map(last_output, target.requests)
