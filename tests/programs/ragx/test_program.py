"""RAG-X through the public API, on scripted targets: its policies."""

from __future__ import annotations

import pytest

from ragc.programs.trace import Search
from ragc.signatures.answer import UNSURE
from ragc.testing import ScriptedTarget
from tests.programs.ragx.common import QUESTION, build_program, by_field, last, list_requests, notes
from tests.support.requests import last_output


@pytest.mark.parametrize(
    ("policy", "web", "kg", "own"),
    [
        ("llm", 0, 0, True),
        ("web", 1, 0, False),
        ("kg", 0, 2, False),
        ("all", 1, 2, False),
        ("llm_web", 1, 0, True),
        ("llm_kg", 0, 2, True),
        ("llm_all", 1, 2, True),
    ],
)
def test_a_manual_policy_asks_once_from_its_sources(policy: str, web: int, kg: int, own: bool) -> None:
    target = ScriptedTarget(by_field())
    prediction = build_program(target, source_policy=policy)(question=QUESTION)
    assert list_requests(target) == (["domain", "entities", "answer"] if kg else ["answer"])
    searches = [event.source for event in prediction.trace if isinstance(event, Search)]
    assert sorted(searches) == ["kg"] * kg + ["web"] * web
    assert prediction.counters["searches"] == web + kg
    assert ("from what you know" in target.requests[-1].messages[0].content.replace("and ", "")) == own
    shown_ids = [p.id for p in prediction.passages]
    assert shown_ids == (["k0", "k1"] if kg else []) + (["w0", "w1", "w2"] if web else [])
    assert all(p.text in last(target) for p in prediction.passages)
    assert ("Passages" in last(target)) == (policy != "llm")


@pytest.mark.parametrize("policy", ["predefined_web", "predefined_kg", "predefined_all"])
def test_a_predefined_policy_looks_up_only_when_the_model_alone_is_unsure(policy: str) -> None:
    sure = ScriptedTarget(by_field())
    prediction = build_program(sure, source_policy=policy)(question=QUESTION)
    assert (list_requests(sure), prediction.answer, prediction.passages) == (["answer"], "x", ())
    assert "Passages" not in last(sure)
    unsure = ScriptedTarget(by_field(answer=["Sorry, I don’t know that.", "y"]))
    prediction = build_program(unsure, source_policy=policy)(question=QUESTION)
    routed = [] if policy == "predefined_web" else ["domain", "entities"]
    assert (list_requests(unsure), prediction.answer) == (["answer", *routed, "answer"], "y")
    assert {p.id[0] for p in prediction.passages} == {"web": {"w"}, "kg": {"k"}, "all": {"w", "k"}}[
        policy[11:]
    ]
    assert "passages alone" in unsure.requests[-1].messages[0].content
    assert prediction.counters["missing"] == 0


@pytest.mark.parametrize("policy", ["predefined_web", "agent"])
def test_second_stage_internal_allows_own_knowledge_there(policy: str) -> None:
    target = ScriptedTarget(by_field(answer=[UNSURE, "y"], choice="web"))
    build_program(target, source_policy=policy, second_stage_internal=True)(question=QUESTION)
    assert "from the passages and from what you know" in target.requests[-1].messages[0].content


@pytest.mark.parametrize(("choice", "expected"), [("web", {"w"}), ("api", {"k"}), ("both", {"w", "k"})])
def test_the_agent_chooses_its_sources_and_always_reasons(choice: str, expected: set[str]) -> None:
    target = ScriptedTarget(by_field(answer=[UNSURE, "y"], choice=choice))
    prediction = build_program(target, source_policy="agent")(question=QUESTION)
    routed = [] if choice == "web" else ["domain", "entities"]
    assert list_requests(target) == ["answer", "choice", *routed, "answer"]
    assert {p.id[0] for p in prediction.passages} == expected
    answers = [r for r in target.requests if last_output(r) == "answer"]
    assert all(list(r.schema["properties"]) == ["reasoning", "answer"] for r in answers if r.schema)
    assert [r.sampling.max_tokens for r in answers] == [512, 512]


def test_a_sure_agent_asks_once() -> None:
    target = ScriptedTarget(by_field())
    assert build_program(target, source_policy="agent")(question=QUESTION).answer == "x"
    assert list_requests(target) == ["answer"]


def test_an_agent_whose_choice_cannot_be_read_says_it_does_not_know() -> None:
    target = ScriptedTarget([{"reasoning": "so", "answer": UNSURE}, "d", "d"], capabilities=())
    prediction = build_program(target, source_policy="agent")(question=QUESTION)
    assert (prediction.answer, prediction.passages, target.replies_left) == (UNSURE, (), 0)
    assert prediction.counters["searches"] == 0
    assert prediction.counters["missing"] == 1
    assert ("sources", "none") in notes(prediction)


def test_dynamism_tells_the_choice_how_fast_the_answer_changes() -> None:
    target = ScriptedTarget(by_field(answer=[UNSURE, "y"], choice="web", pace="real-time"))
    build_program(target, source_policy="agent", dynamism=True)(question=QUESTION)
    assert list_requests(target) == ["answer", "pace", "choice", "answer"]
    assert "Pace: real-time" in target.requests[2].messages[-1].content
    plain = ScriptedTarget(by_field(answer=[UNSURE, "y"], choice="web"))
    build_program(plain, source_policy="agent")(question=QUESTION)
    assert "Pace" not in plain.requests[1].messages[-1].content
