"""PrefRAG through the public API, on scripted targets and sources."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.errors import UsageError
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, Search
from ragc.records import Hit, Passage
from ragc.targets.base import ChatRequest
from ragc.testing import FailingSource, ListSource, ScriptedTarget
from tests.support.requests import inputs_of

NO, YES = {"analysis": "nothing new", "status": False}, {"analysis": "new", "status": True}
FORCED = {"answer": "forced"}


def source(name: str, n: int = 9) -> ListSource:
    return ListSource([Passage(f"{name}{i}", f"{name} title {i}", f"{name} text {i}") for i in range(n)])


class Echo(ListSource):
    """Finds one passage that no other query finds."""

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        return (Hit(Passage(query, "", f"about {query}"), 1.0),)


def look(query: str, action: str = "search") -> dict[str, Any]:
    return {"thought": f"I need {query}", "step": {"action": action, "action_input": query}}


def end(answer: str, grade: str = "CORRECT") -> dict[str, Any]:
    finish = {"action": "finish", "answer": answer}
    return {
        "thought": "I know",
        "step": {**finish, "explanation": "because", "grade": grade, "improvement": "more"},
    }


def build_program(target: ScriptedTarget, sources: dict[str, Any] | None = None, **knobs: Any) -> RagProgram:
    all_sources = {"local": source("local"), "web": source("web")} if sources is None else sources
    return method("prefrag").build(
        Runtime({"main": target}, all_sources), {"k_local": 3, "k_web": 3, "wording": "brief", **knobs}
    )


def searches(prediction: Any) -> list[tuple[str, str]]:
    return [(e.source, e.query) for e in prediction.trace if isinstance(e, Search)]


def fields_of(request: ChatRequest, name: str) -> dict[str, Any]:
    """The fields of a search or a finish in the schema of a step."""
    assert request.schema is not None
    fields: dict[str, Any] = request.schema["$defs"][name]["properties"]
    return fields


def notes(prediction: Any) -> list[tuple[str, str]]:
    return [(e.about, e.outcome) for e in prediction.trace if isinstance(e, Note)]


def test_local_passages_are_compared_after_the_first_search_and_dropped_on_a_no() -> None:
    target = ScriptedTarget([look("q1"), look("q2"), NO, look("q3"), YES, end("Paris")])
    prediction = build_program(target)(question="Capital?")
    assert (prediction.answer, target.replies_left) == ("Paris", 0)
    assert searches(prediction) == [("local", "q1"), ("local", "q2"), ("web", "q2"), ("local", "q3")]
    expected_ids = ["local0", "local1", "local2", "web0", "web1", "web2"]
    assert [p.id for p in prediction.passages] == expected_ids
    compared = inputs_of(target.requests[2])
    assert "Question: Capital?" in compared
    assert compared.index("Known:") < compared.index("local text 2") < compared.index("New:")
    last = inputs_of(target.requests[-1])
    assert "Thought: I need q1\nSearch: q1\nResults:\nPassage 1: local title 0\nlocal text 0" in last
    assert "Search: q2\nResults:\nPassage 4: web title 0" in last
    assert "Search: q3\nResults: passages 1, 2, 3, shown above" in last
    assert last.count("local title 2") == 1
    tallies = {
        k: prediction.counters[k] for k in ("total_local", "total_web", "switches", "used_local", "used")
    }
    assert tallies == {"total_local": 3, "total_web": 1, "switches": 1, "used_local": 2, "used": 3}
    assert ("switch", "local to web") in notes(prediction)


@pytest.mark.parametrize("grade", ["PARTIALLY CORRECT", "INCORRECT"])
def test_a_bad_grade_searches_all_sources_with_the_question_once(grade: str) -> None:
    target = ScriptedTarget([look("q1"), end("Rome", grade), end("Paris", grade)])
    prediction = build_program(target)(question="Capital?")
    assert (prediction.answer, target.replies_left, prediction.counters["supplements"]) == ("Paris", 0, 1)
    assert searches(prediction) == [("local", "q1"), ("local", "Capital?"), ("web", "Capital?")]
    last = inputs_of(target.requests[-1])
    assert (
        f"Answer: Rome\nExplanation: because\nGrade: {grade}\nImprovement: more\nSearch: Capital?\n"
        "Results: passages 1, 2, 3, shown above" in last
    )
    assert "\nPassage 4: web title 0" in last
    assert (prediction.counters["used_local"], prediction.counters["used"]) == (2, 3)


def test_a_query_that_is_asked_again_goes_to_the_other_source_once_and_then_ends_the_steps() -> None:
    target = ScriptedTarget([look("q1"), look("Q1"), look("q1"), FORCED])
    prediction = build_program(target)(question="Capital?")
    assert searches(prediction) == [("local", "q1"), ("web", "Q1")]
    assert notes(prediction)[:2] == [
        ("repeat", "local was searched for this, web was not"),
        ("step", "dropped: search: q1"),
    ]
    assert (prediction.answer, prediction.counters["dropped"], target.replies_left) == ("forced", 1, 0)
    names = ("total_local", "total_web", "switches", "repeats", "used_local", "used")
    assert [prediction.counters[name] for name in names] == [1, 1, 0, 1, 1, 2]


def test_a_repeated_query_may_be_searched_again() -> None:
    target = ScriptedTarget([look("q1"), look("Q1"), NO, look("q1"), YES, FORCED])
    prediction = build_program(target, no_repeats=False, compare_key="subquery", max_step=2)(
        question="Capital?"
    )
    assert searches(prediction) == [("local", "q1"), ("local", "Q1"), ("web", "Q1"), ("local", "q1")]
    names = ("total_local", "total_web", "switches", "repeats", "used_local", "used")
    assert [prediction.counters[name] for name in names] == [3, 1, 1, 0, 2, 3]
    assert (prediction.answer, prediction.counters["dropped"]) == ("forced", 0)


@pytest.mark.parametrize(
    ("knobs", "grade_at", "steps"),
    [
        ({"max_step": 1}, None, 2),
        ({}, None, 4),
        ({}, 0, 6),
        ({}, 3, 6),
        ({"max_supplements": 2}, 0, 8),
        ({"max_supplements": 0}, None, 4),
        ({"strict_budget": True}, None, 3),
        ({"strict_budget": True}, 1, 3),
    ],
)
def test_a_search_that_never_ends_is_cut_by_the_budget_and_the_answer_forced(
    knobs: dict[str, Any], grade_at: int | None, steps: int
) -> None:
    taken: list[int] = []
    graded = range(grade_at, grade_at + int(knobs.get("max_supplements", 1))) if grade_at is not None else ()

    def reply(request: ChatRequest) -> dict[str, Any]:
        names = set(request.schema["properties"]) if request.schema else set()
        if names == {"answer"}:
            return FORCED
        if "status" in names:
            return YES
        taken.append(1)
        return end("Rome", "INCORRECT") if len(taken) - 1 in graded else look(f"q{len(taken)}")

    target = ScriptedTarget(reply, hold=True)
    prediction = build_program(target, {"local": Echo([]), "web": Echo([])}, **knobs)(question="Capital?")
    searched = steps - len(graded)
    compared = searched - (0 if grade_at == 0 else 1)
    assert (prediction.answer, len(taken)) == ("forced", steps)
    assert len(target.requests) == target.steps == steps + compared + 1
    assert "Trajectory:\n[1] Thought:" in inputs_of(target.requests[-1])


@pytest.mark.parametrize(
    ("knobs", "answer"), [({}, "Paris"), ({"strict_budget": True, "max_step": 1}, "Rome")]
)
def test_a_strict_budget_takes_the_last_answer_whatever_its_grade(knobs: dict[str, Any], answer: str) -> None:
    target = ScriptedTarget([end("Rome", "INCORRECT"), end("Paris")])
    assert build_program(target, **knobs)(question="Capital?").answer == answer


def test_a_separate_grade_is_a_call_of_its_own() -> None:
    bare = {"thought": "I know", "step": {"action": "finish", "answer": "Rome"}}
    bad = {"grade": "INCORRECT", "explanation": "wrong land", "improvement": "look north"}
    target = ScriptedTarget([bare, bad, {**bare, "step": {"action": "finish", "answer": "Paris"}}])
    prediction = build_program(target, reflect_mode="separate")(question="Capital?")
    assert (prediction.answer, target.replies_left) == ("Paris", 0)
    assert list(fields_of(target.requests[0], "Finish")) == ["action", "answer"]
    assert list(target.requests[1].schema["properties"]) == ["explanation", "grade", "improvement"]  # type: ignore[index]
    assert inputs_of(target.requests[1]).endswith("Answer: Rome")
    assert "Explanation: wrong land\nGrade: INCORRECT\nImprovement: look north" in inputs_of(
        target.requests[2]
    )
    good = ScriptedTarget([bare, {**bad, "grade": "CORRECT"}])
    assert build_program(good, reflect_mode="separate")(question="Capital?").answer == "Rome"
    assert good.replies_left == 0


def test_without_reflection_the_first_answer_is_given() -> None:
    target = ScriptedTarget([end("Rome", "INCORRECT")])
    prediction = build_program(target, reflect=False)(question="Capital?")
    assert (prediction.answer, prediction.counters["supplements"]) == ("Rome", 0)
    assert list(fields_of(target.requests[0], "Finish")) == ["action", "answer"]


def test_without_preference_only_the_preferred_source_is_searched() -> None:
    target = ScriptedTarget([look("q1"), look("q2"), end("Rome", "INCORRECT"), end("Paris")])
    prediction = build_program(target, {"local": source("local")}, pref=False)(question="Capital?")
    assert searches(prediction) == [("local", "q1"), ("local", "q2"), ("local", "Capital?")]
    assert (prediction.answer, prediction.counters["total_web"], prediction.counters["switches"]) == (
        "Paris",
        0,
        0,
    )


def test_without_preference_the_choice_may_be_free() -> None:
    target = ScriptedTarget(
        [look("q1", "search_web"), look("q2", "search_web"), end("x", "INCORRECT"), end("y")]
    )
    prediction = build_program(target, pref=False, free_choice=True)(question="Capital?")
    assert searches(prediction) == [("web", "q1"), ("web", "q2"), ("local", "Capital?"), ("web", "Capital?")]
    assert (prediction.answer, prediction.counters["switches"]) == ("y", 0)
    prompt = inputs_of(target.requests[0])
    assert "[1] search_local: searches a curated collection\n[2] search_web: searches pages" in prompt
    assert "prefer" not in prompt


def test_a_preference_in_words_names_both_sources_and_compares_nothing() -> None:
    target = ScriptedTarget([look("q1", "search_web"), look("q2", "search_local"), end("Paris")])
    prediction = build_program(target, pref_style="prompt")(question="Capital?")
    assert searches(prediction) == [("web", "q1"), ("local", "q2")]
    assert fields_of(target.requests[0], "Search")["action"]["enum"] == ["search_local", "search_web"]
    prompt = inputs_of(target.requests[0])
    assert prompt.index("search_local") < prompt.index("prefer this one") < prompt.index("search_web")
    assert "Search web: q1" in inputs_of(target.requests[-1])


def test_of_several_sources_the_preferred_one_is_asked_first_then_the_one_named() -> None:
    sources = {name: source(name) for name in ("local", "web", "wiki")}
    target = ScriptedTarget([look("q1", "search_wiki"), look("q2", "search_wiki"), NO, end("Paris")])
    prediction = build_program(target, sources)(question="Capital?")
    assert searches(prediction) == [("local", "q1"), ("local", "q2"), ("wiki", "q2")]
    assert fields_of(target.requests[0], "Search")["action"]["enum"] == [
        "search_local", "search_web", "search_wiki"
    ]  # fmt: skip


def test_the_first_search_may_be_compared_and_by_the_query_too() -> None:
    target = ScriptedTarget([look("q1"), NO, end("Paris")])
    prediction = build_program(target, compare_first=True, compare_key="subquery")(question="Capital?")
    assert searches(prediction) == [("local", "q1"), ("web", "q1")]
    assert inputs_of(target.requests[1]).startswith("Question: q1\nKnown: none\nNew: [1] local title 0")


@pytest.mark.parametrize(
    ("sure", "threshold", "stays_local"),
    [
        (60, 0.5, True),
        (60, 0.6, False),
        (50, 0.5, False),
        (0, 0.0, False),
        (10, 0.0, True),
        (100, 1.0, False),
    ],
)
def test_a_comparison_may_say_how_sure_it_is(sure: int, threshold: float, stays_local: bool) -> None:
    compared = {"analysis": "perhaps", "confidence": sure}
    target = ScriptedTarget([look("q1"), look("q2"), compared, end("Paris")])
    knobs: dict[str, Any] = {"source_check": "confidence", "source_check_threshold": threshold}
    prediction = build_program(target, **knobs)(question="Capital?")
    assert searches(prediction)[1:] == [("local", "q2")] + ([] if stays_local else [("web", "q2")])
    assert "percent" in target.requests[2].messages[0].content
    fields = target.requests[2].schema["properties"]  # type: ignore[index]
    assert list(fields) == ["analysis", "confidence"]
    assert (fields["confidence"]["minimum"], fields["confidence"]["maximum"]) == (0, 100)


@pytest.mark.parametrize(("knobs", "left"), [({}, "3 2 1 2"), ({"strict_budget": True}, "2 1 0")])
def test_a_step_is_told_how_many_may_follow_it_a_supplement_counted(knobs: dict[str, Any], left: str) -> None:
    target = ScriptedTarget([look("q1"), look("q2"), YES, end("Rome", "INCORRECT"), end("Paris")])
    build_program(target, **knobs)(question="Capital?")
    prompts = [inputs_of(request) for request in target.requests]
    assert " ".join(p.partition("Steps left: ")[2] for p in prompts if "Steps left: " in p) == left


@pytest.mark.parametrize("nothing", ["", "None"])
def test_a_finish_without_an_answer_ends_the_steps(nothing: str) -> None:
    prediction = build_program(ScriptedTarget([end(nothing, "INCORRECT"), FORCED]))(question="Capital?")
    assert prediction.answer == "forced"
    assert notes(prediction) == [
        ("step", "finished without an answer"),
        ("answer", "forced: no step gave one"),
    ]


def test_a_flat_step_is_asked_for_once_more_then_the_answer_is_forced() -> None:
    flat = {"thought": "I need q1", "action": "search", "action_input": "q1"}
    target = ScriptedTarget([flat, look("q1"), flat, flat, FORCED], capabilities=())
    prediction = build_program(target)(question="Capital?")
    assert (prediction.answer, searches(prediction)) == ("forced", [("local", "q1")])
    assert (prediction.counters["repairs"], prediction.counters["dropped"]) == (2, 1)


def test_an_answer_before_any_search_is_taken_and_the_prompt_asks_for_results() -> None:
    target = ScriptedTarget([end("Paris")])
    prediction = build_program(target)(question="Capital?")
    assert (prediction.answer, prediction.passages, prediction.counters["searches"], notes(prediction)) == (
        "Paris",
        (),
        0,
        [],
    )
    assert "not from memory" in target.requests[0].messages[0].content


def test_an_unknown_tool_or_an_empty_query_spends_the_step_and_is_sampled_anew() -> None:
    target = ScriptedTarget(
        [look("q", "browse"), look("none"), look("q"), look("q2", "x"), FORCED], capabilities=()
    )
    prediction = build_program(target)(question="Capital?")
    assert (prediction.answer, prediction.counters["dropped"], target.replies_left) == ("forced", 3, 0)
    assert [r.sample for r in target.requests] == [0, 1, 2, 0, 0]
    assert ("step", "dropped: browse: q") in notes(prediction)
    first, second = (inputs_of(request).partition("Steps left: ") for request in target.requests[:2])
    assert (first[0], first[2], second[2]) == (second[0], "3", "2")
    greedy = ScriptedTarget([look("q", "browse"), FORCED], capabilities=())
    assert build_program(greedy, temperature=0.0)(question="Capital?").answer == "forced"
    assert greedy.replies_left == 0


@pytest.mark.parametrize("lost", [ListSource([]), FailingSource()])
def test_where_the_preferred_source_finds_nothing_the_other_is_asked_unasked(lost: ListSource) -> None:
    target = ScriptedTarget([look("q1"), end("Paris")])
    prediction = build_program(target, {"local": lost, "web": source("web")})(question="Capital?")
    assert (prediction.answer, prediction.counters["switches"]) == ("Paris", 1)
    assert [p.id for p in prediction.passages] == ["web0", "web1", "web2"]
    assert prediction.counters["failed_searches"] == isinstance(lost, FailingSource)


def test_a_third_source_may_be_preferred() -> None:
    sources = {name: source(name) for name in ("local", "web", "wiki")}
    target = ScriptedTarget([look("q1", "search_web"), look("q2", "search_local"), NO, end("Paris")])
    prediction = build_program(target, sources, preferred_source="wiki")(question="Capital?")
    assert searches(prediction) == [("wiki", "q1"), ("wiki", "q2"), ("local", "q2")]
    assert (prediction.counters["switches"], prediction.counters["used_local"]) == (1, 1)
    with pytest.raises(UsageError, match=r"found local, web; add \[sources.wiki\]"):
        build_program(ScriptedTarget([]), preferred_source="wiki")
    with pytest.raises(UsageError, match="preferred_source must be one of"):
        build_program(ScriptedTarget([]), preferred_source="no such [name]")


def test_what_does_not_fit_is_left_out_oldest_first_and_counted() -> None:
    def long(name: str) -> ListSource:
        return ListSource([Passage(f"{name}{i}", "", f"{name}{i} " * 150) for i in range(3)])

    target = ScriptedTarget([look("q1"), look("q2"), NO, end("Paris")], context_tokens=1400)
    prediction = build_program(target, {"local": long("local"), "web": long("web")})(question="Capital?")
    shown_ids = [p.id for p in prediction.passages]
    assert prediction.answer == "Paris"
    assert 0 < len(shown_ids) < 6
    assert shown_ids[-3:] == ["web0", "web1", "web2"]
    assert prediction.counters["trimmed"] >= 6 - len(shown_ids)
    for request in target.requests:
        assert sum(len(m.content.split()) for m in request.messages) <= 1400
    tiny = ScriptedTarget([look("q1"), look("q2"), NO, end("Paris")], context_tokens=740)
    assert (
        build_program(tiny, {"local": long("local"), "web": long("web")})(question="Capital?").passages == ()
    )
