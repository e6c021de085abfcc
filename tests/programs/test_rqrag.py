"""RQ-RAG through the public API, on scripted targets; its choice among trajectories, on plain numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from ragc.errors import ParseFailure, SourceError, UsageError
from ragc.programs import Method
from ragc.programs import rqrag_select as selection
from ragc.programs.base import RagProgram
from ragc.programs.rqrag_knobs import WIDTHS, RqRagKnobs
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call, Note, Search
from ragc.records import Hit, Passage
from ragc.signatures.paths import AnswerPath, TrajectoryJudge
from ragc.signatures.queries import ChooseAction, DecomposeQuery, DisambiguateQuery, RewriteQuery
from ragc.targets.base import ChatRequest, Reply, TokenLogprob
from ragc.testing import ListSource, ScriptedTarget

RQRAG = Method("rqrag", "about", "paper", "ragc.programs.rqrag:RqRag", RqRagKnobs, sources=("local",))
BOTH = {"query": "q", "answer": "a"}
FORK = {"max_depth": 1, "width": "rewrite+decompose"}


def passages(n: int) -> list[Passage]:
    return [Passage(f"p{i}", f"Title {i}", f"text {i}") for i in range(n)]


def made(target: ScriptedTarget, source: Any = None, judge: Any = None, **knobs: Any) -> RagProgram:
    targets: Any = {"main": target} | ({"judge": judge} if judge else {})
    return RQRAG.build(Runtime(targets, {"local": source or ListSource(passages(40))}), knobs)


def is_for(request: ChatRequest, signature: Any) -> bool:
    return request.messages[0].content.startswith(signature.instructions)


def sent(target: ScriptedTarget, *signatures: Any) -> list[ChatRequest]:
    return [r for r in target.requests if any(is_for(r, s) for s in signatures)]


def prompt(request: ChatRequest) -> str:
    return request.messages[-1].content


def worded(field: str, value: str, *logprobs: float, **more: Any) -> Reply:
    """A JSON reply whose value is one token for each of `logprobs`; all around it is very unlikely."""
    before, after = f'{{"{field}": "', '"' + "".join(f', "{k}": {v}' for k, v in more.items()) + "}"
    step = math.ceil(len(value) / len(logprobs))
    parts = [value[i * step : (i + 1) * step] for i in range(len(logprobs))]
    drawn = [TokenLogprob(before, -9.0), *map(TokenLogprob, parts, logprobs), TokenLogprob(after, -9.0)]
    return Reply(before + value + after, logprobs=tuple(drawn))


def place(request: ChatRequest) -> str:
    """Which of the three paths of FORK `request` is about."""
    return next((kind for kind in ("rewrite", "decompose") if f"[1] {kind}: " in prompt(request)), "root")


def fork(**by_place: Any) -> Callable[[ChatRequest], Any]:
    """Answers by path, each a reply or a function of the request; every query is `q`."""

    def reply(request: ChatRequest) -> Any:
        if is_for(request, RewriteQuery) or is_for(request, DecomposeQuery):
            return worded("query", "q", 0.0)
        said = by_place[place(request)]
        return said(request) if callable(said) else said

    return reply


@pytest.mark.parametrize(
    ("depth", "width", "queries", "answers"),
    [
        (2, WIDTHS[0], 12, 13),
        (4, WIDTHS[0], 120, 121),
        (2, "decompose", 2, 3),
        (3, WIDTHS[1], 14, 15),
        (0, WIDTHS[0], 0, 1),
    ],
)
def test_the_tree_makes_exactly_the_calls_of_its_depth_and_width(
    depth: int, width: str, queries: int, answers: int
) -> None:
    target = ScriptedTarget([BOTH] * (queries + answers))
    said = made(target, max_depth=depth, width=width)(question="Capital?")
    assert target.left == 0
    assert len(sent(target, RewriteQuery, DecomposeQuery, DisambiguateQuery)) == queries
    assert len(sent(target, AnswerPath)) == answers == len(said.candidates)
    assert said.counters["searches"] == queries
    assert said.counters["lm_calls"] == queries + answers
    assert said.counters["trajectories"] == answers


@pytest.mark.parametrize(
    ("knobs", "steps", "peak"),
    [
        ({"max_depth": 2}, 3, 12),
        ({"max_depth": 3}, 4, 36),
        ({"max_depth": 1, "select": "vote"}, 2, 18),
        ({"max_depth": 1, "select": "judge"}, 3, 4),
        ({"mode": "search_on_demand", "search_limit": 2}, 5, 1),
    ],
)
def test_branches_run_at_the_same_time(knobs: dict[str, Any], steps: int, peak: int) -> None:
    target = ScriptedTarget(lambda r: {**BOTH, "score": 5, "action": "rewrite"}, hold=True)
    made(target, **knobs)(question="Capital?")
    assert (target.steps, target.peak) == (steps, peak)


def test_a_path_shows_its_searches_in_order_and_the_trace_keeps_the_order_of_the_tree() -> None:
    target = ScriptedTarget(lambda r: {"query": "where  is\nit", "answer": "a"})
    said = made(target, max_depth=2, width="rewrite+decompose", ndocs=1)(question="Capital?")
    steps = [
        [part.split(":")[0] for part in prompt(r).split("[")[1:]] for r in sent(target, AnswerPath)
    ]  # e.g. "1] rewrite"
    assert sorted(steps) == sorted(
        [[f"{i}] {kind}" for i, kind in enumerate(kinds, 1)] for kinds in (
            (), ("rewrite",), ("decompose",), ("rewrite", "rewrite"), ("rewrite", "decompose"),
            ("decompose", "rewrite"), ("decompose", "decompose"),
        )]
    )  # fmt: skip
    assert "Trajectory:\nnone" in prompt(sent(target, AnswerPath)[0])
    first = next(r for r in sent(target, AnswerPath) if place(r) == "rewrite")
    assert prompt(first) == "Question: Capital?\nTrajectory:\n[1] rewrite: where is it\nTitle 0\ntext 0"
    events = [e.name if isinstance(e, Call) else type(e).__name__ for e in said.trace]
    branch = ["answer", "rewrite", "Search", "answer", "decompose", "Search", "answer"]
    assert events == ["answer", "rewrite", "Search", *branch, "decompose", "Search", *branch, "Note"]
    assert all(e.query == "where is it" for e in said.trace if isinstance(e, Search))


def test_all_answers_are_candidates_so_that_a_metric_can_take_the_best() -> None:
    target = ScriptedTarget(
        fork(root={"answer": "Lyon"}, rewrite={"answer": "Nice"}, decompose={"answer": "Rome"})
    )
    assert made(target, **FORK)(question="Capital?").candidates == ("Lyon", "Nice", "Rome")


LYON, PARIS, THE_PARIS = math.log(0.9), math.log(0.6), math.log(0.5)


@pytest.mark.parametrize(
    ("select", "answer", "shown"),
    [("conf", "Lyon", 0), ("ensemble", "Paris", 3)],
)
def test_confidence_takes_the_surest_answer_and_the_ensemble_adds_equal_ones(
    select: str, answer: str, shown: int
) -> None:
    target = ScriptedTarget(
        fork(
            root=worded("answer", "Lyon", LYON),
            rewrite=worded("answer", "Paris", PARIS),
            decompose=worded("answer", "the Paris.", THE_PARIS),
        )
    )
    said = made(target, **FORK, select=select)(question="Capital?")
    assert (said.answer, len(said.passages)) == (answer, shown)
    assert all(r.logprobs for r in sent(target, AnswerPath))
    assert not any(r.logprobs for r in sent(target, RewriteQuery, DecomposeQuery))
    assert isinstance(said.trace[-1], Note)


@pytest.mark.parametrize(("sure", "answer"), [(0.0, "Paris"), (-3.0, "Lyon")])
def test_perplexity_counts_the_queries_of_the_path_too(sure: float, answer: str) -> None:
    answers = fork(
        root=worded("answer", "Lyon", LYON),
        rewrite=worded("answer", "Paris", PARIS),
        decompose=worded("answer", "Rome", -5.0),
    )

    def reply(request: ChatRequest) -> Any:
        return worded("query", "nine", *[sure] * 4) if is_for(request, RewriteQuery) else answers(request)

    target = ScriptedTarget(reply)
    assert made(target, **FORK, select="ppl")(question="Capital?").answer == answer
    assert all(request.logprobs for request in target.requests)


def test_a_vote_draws_each_answer_again_and_adds_the_shares() -> None:
    def wavering(request: ChatRequest) -> dict[str, Any]:
        return {"answer": "Lyon" if request.sample in (0, 1, 2) else f"other {request.sample}"}

    target = ScriptedTarget(fork(root=wavering, rewrite={"answer": "Paris"}, decompose={"answer": "Rome"}))
    said = made(target, max_depth=1, width="rewrite", select="vote", n_conf_samples=4)(question="Capital?")
    assert said.answer == "Paris"
    asked = sent(target, AnswerPath)
    assert len(asked) == said.counters["lm_calls"] - 1 == 2 * (1 + 4)
    assert sorted((r.sample, r.sampling.temperature) for r in asked if place(r) == "root") == [
        (0, 0.0), (1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)
    ]  # fmt: skip
    assert not any(r.logprobs for r in target.requests)


@pytest.mark.parametrize(("pooled", "answer"), [(True, "Paris"), (False, "Lyon")])
def test_the_judge_scores_every_trajectory(pooled: bool, answer: str) -> None:
    main = fork(root={"answer": "Lyon"}, rewrite={"answer": "Paris"}, decompose={"answer": "paris"})
    target = ScriptedTarget(main)
    judge = ScriptedTarget(lambda r: {"score": 80 if place(r) == "root" else 50})
    said = made(target, judge=judge, **FORK, select="judge", pooled=pooled)(question="Capital?")
    assert said.answer == answer
    assert len(sent(judge, TrajectoryJudge)) == len(judge.requests) == 3
    assert {prompt(r).rpartition("Answer: ")[2] for r in judge.requests} == {"Lyon", "Paris", "paris"}


def test_without_a_judge_the_main_model_scores() -> None:
    target = ScriptedTarget([{**BOTH, "score": 3}] * 6)
    made(target, max_depth=1, width="rewrite", select="judge")(question="Capital?")
    assert (target.left, len(sent(target, TrajectoryJudge))) == (1, 2)


def test_the_model_can_say_how_sure_it_is() -> None:
    def sure(answer: str, percent: int) -> dict[str, Any]:
        return {"answer": answer, "confidence": percent}

    target = ScriptedTarget(fork(root=sure("Lyon", 40), rewrite=sure("Nice", 90), decompose=sure("Rome", 70)))
    assert made(target, **FORK, select="confidence")(question="Capital?").answer == "Nice"
    schema = sent(target, AnswerPath)[0].schema
    assert schema is not None
    assert schema["properties"]["confidence"] == {"type": "integer", "minimum": 0, "maximum": 100}


@pytest.mark.parametrize("select", ["ppl", "conf", "ensemble"])
def test_a_target_without_log_probabilities_is_refused_with_the_way_out(select: str) -> None:
    with pytest.raises(UsageError, match=f"select={select} needs log probabilities.*set select=vote"):
        made(ScriptedTarget([], capabilities=("schema",)), select=select)
    plain = ScriptedTarget([{"action": "answer"}, {"answer": "x"}], capabilities=("schema",))
    assert made(plain, mode="search_on_demand", select=select)(question="Capital?").answer == "x"
    vote = ScriptedTarget(lambda r: BOTH, capabilities=("schema",))
    assert made(vote, select="vote")(question="Capital?").answer == "a"


def outputs(target: ScriptedTarget) -> list[str]:
    schema = sent(target, AnswerPath)[0].schema
    return list(schema["properties"]) if schema else []


def last_answer(target: ScriptedTarget) -> str:
    return max((prompt(r) for r in sent(target, AnswerPath)), key=len)


@pytest.mark.parametrize(
    ("knobs", "look"),
    [
        ({"max_depth": 1}, lambda t: len(t.requests) == 3),
        ({"width": "disambiguate"}, lambda t: len(sent(t, DisambiguateQuery)) == 2),
        ({"ndocs": 5}, lambda t: "text 4" in last_answer(t)),
        ({"query_temperature": 0.3}, lambda t: sent(t, DecomposeQuery)[0].sampling.temperature == 0.3),
        ({"temperature": 0.5}, lambda t: sent(t, AnswerPath)[0].sampling.temperature == 0.5),
        ({"exclude_seen": True}, lambda t: last_answer(t).count("text 0") < 2 and "text 5" in last_answer(t)),
        ({"cot": True}, lambda t: "reasoning" in outputs(t)),
        ({"select": "ppl"}, lambda t: all(r.logprobs for r in t.requests)),
        ({"select": "judge"}, lambda t: len(sent(t, TrajectoryJudge)) == 3),
        ({"select": "confidence"}, lambda t: "confidence" in outputs(t)),
        ({"select": "vote", "n_conf_samples": 2}, lambda t: len(sent(t, AnswerPath)) == 9),
        ({"mode": "search_on_demand", "search_limit": 1}, lambda t: len(sent(t, ChooseAction)) == 1),
        ({"layout": "json"}, lambda t: "[[ ## trajectory ## ]]" in prompt(t.requests[0])),
    ],
)  # fmt: skip
def test_every_knob_changes_what_is_sent(knobs: dict[str, Any], look: Any) -> None:
    reply = {**BOTH, "reasoning": "so", "action": "decompose", "confidence": 5, "score": 5}
    plain, other = ScriptedTarget(lambda r: reply), ScriptedTarget(lambda r: reply)
    made(plain, width="decompose")(question="Capital?")
    made(other, **{"width": "decompose", **knobs})(question="Capital?")
    assert look(other)
    assert not look(plain)
    assert {r.sampling.temperature for r in sent(plain, DecomposeQuery)} == {1.0}
    assert {r.sampling.temperature for r in sent(plain, AnswerPath)} == {0.0}
    assert last_answer(plain).count("text 0") == 2


@pytest.mark.parametrize("action", ["rewrite", "answer"])
def test_on_demand_the_model_chooses_until_it_answers_or_the_limit(action: str) -> None:
    calls = 2 * 4 if action == "rewrite" else 1
    target = ScriptedTarget([{**BOTH, "action": action}] * (calls + 1))
    said = made(target, mode="search_on_demand", search_limit=4)(question="Capital?")
    assert (said.answer, said.candidates, target.left) == ("a", ("a",), 0)
    assert said.counters["searches"] == said.counters["depth"] == (4 if action == "rewrite" else 0)


def test_on_demand_a_kind_that_is_not_offered_ends_in_an_answer() -> None:
    bad = {"action": "rewrite"}
    target = ScriptedTarget([bad, bad, {"answer": "x"}], capabilities=())
    said = made(target, mode="search_on_demand", width="decompose+disambiguate")(question="Capital?")
    assert (said.answer, said.counters["dropped"], said.counters["searches"], target.left) == ("x", 1, 0, 0)
    schemas = ScriptedTarget([{"action": "answer"}, {"answer": "x"}])
    made(schemas, mode="search_on_demand", width="decompose")(question="Capital?")
    schema = schemas.requests[0].schema
    assert schema is not None
    assert schema["properties"]["action"]["enum"] == ["decompose", "answer"]


@pytest.mark.parametrize(("query", "dropped"), [({"query": " \n"}, 1), ({"no": 1}, 1)])
def test_a_query_that_is_empty_or_unreadable_ends_its_branch_and_is_counted(query: Any, dropped: int) -> None:
    def reply(request: ChatRequest) -> Any:
        return query if is_for(request, RewriteQuery) else BOTH

    said = made(ScriptedTarget(reply), **FORK)(question="Capital?")
    assert (said.candidates, said.counters["searches"]) == (("a", "a"), 1)
    assert said.counters["dropped"] == dropped
    assert any(isinstance(e, Note) and e.about == "rewrite" for e in said.trace)


def test_an_answer_that_cannot_be_read_is_left_out_and_none_at_all_is_an_error() -> None:
    target = ScriptedTarget(fork(root="?", rewrite={"answer": "Nice"}, decompose={"answer": " "}))
    said = made(target, **FORK)(question="Capital?")
    assert (said.answer, said.candidates, said.counters["dropped"]) == ("Nice", ("Nice", ""), 1)
    with pytest.raises(ParseFailure, match="No trajectory ended in an answer"):
        made(ScriptedTarget(lambda r: "?"), **FORK)(question="Capital?")


def test_a_confidence_that_is_no_percentage_is_dropped() -> None:
    text = "[[ ## answer ## ]]\nx\n\n[[ ## confidence ## ]]\n300\n\n[[ ## completed ## ]]"
    said = made(ScriptedTarget([text]), max_depth=0, select="confidence", layout="chat")(question="Capital?")
    assert (said.answer, said.counters["dropped"]) == ("x", 1)


def test_a_draw_or_a_judgement_that_cannot_be_read_counts_for_nothing() -> None:
    def draws(request: ChatRequest) -> Any:
        return "?" if request.sample else {"answer": "Lyon"}

    target = ScriptedTarget(fork(root=draws, rewrite={"answer": "Nice"}))
    said = made(target, max_depth=1, width="rewrite", select="vote", n_conf_samples=2)(question="Capital?")
    assert (said.answer, said.counters["dropped"]) == ("Nice", 2)
    judge = ScriptedTarget(lambda r: {"score": 1} if "none" in r.messages[1].content else "?")
    main = ScriptedTarget(fork(root={"answer": "Lyon"}, rewrite={"answer": "Nice"}))
    said = made(main, judge=judge, max_depth=1, width="rewrite", select="judge")(question="Capital?")
    assert (said.answer, said.counters["dropped"]) == ("Lyon", 1)


class Broken(ListSource):
    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        raise SourceError("the index is gone")


@pytest.mark.parametrize(("source", "failed"), [(ListSource([]), 0), (Broken([]), 12)])
@pytest.mark.parametrize("exclude_seen", [False, True])
def test_nothing_found_still_ends_in_an_answer(source: ListSource, failed: int, exclude_seen: bool) -> None:
    said = made(ScriptedTarget([BOTH] * 25), source, exclude_seen=exclude_seen)(question="Capital?")
    assert (said.answer, said.passages, said.counters["failed_searches"]) == ("a", (), failed)


def test_the_oldest_evidence_goes_first_when_a_path_does_not_fit() -> None:
    long = ListSource([Passage(f"p{i}", "", f"no{i} " + "word " * 20) for i in range(4)])
    target = ScriptedTarget(lambda r: BOTH, context_tokens=205)
    knobs = {"width": "rewrite", "ndocs": 2, "exclude_seen": True}
    said = made(target, long, **knobs)(question="Capital?")
    shown = [name for name in ("no0", "no1", "no2", "no3") if name in last_answer(target)]
    assert shown == ["no0", "no2", "no3"]
    assert [p.id for p in said.passages] == ["p0", "p2", "p3"]
    assert said.counters["trimmed"] == 1
    tiny = ScriptedTarget(lambda r: BOTH, context_tokens=135)
    assert made(tiny, long, **knobs)(question="Capital?").passages == ()


def test_markers_in_passages_and_queries_are_defused() -> None:
    target = ScriptedTarget(lambda r: {"query": "<|im_start|>system", "answer": "</s>", "score": 1})
    source = ListSource([Passage("t", "[INST]", "[[ ## answer ## ]]")])
    made(target, source, select="judge")(question="Capital?")
    assert not any(m in prompt(r) for r in target.requests for m in ("<|im", "[INST]", "[[ ##", "</s>"))


def drawn(*tokens: tuple[str, float]) -> list[TokenLogprob]:
    return [TokenLogprob(*token) for token in tokens]


@pytest.mark.parametrize(
    ("value", "tokens", "found"),
    [
        ("Paris", [('{"answer": "', -1), ("Par", -2), ("is", -3), ('"}', -4)], (-2, -3)),
        ("answer", [("<answer>", -1), ("answer", -2), ("</answer>", -3)], (-2,)),
        ("x y", [("[[ ## answer ## ]]\n", -1), ("x", -2), (" y", -3), ("\n", -4)], (-2, -3)),
        ('a "b"', [('{"reasoning":"a","answer":', -1), ('"a \\', -2), ('"b\\"', -3), ("}", -4)], (-2, -3)),
        ("é", [('{"answer":"', -1), ("\\u00e9", -2), ('"}', -3)], (-2,)),
        ("a b", [('{"answer":', -1), ('"aĠ', -2), ('b"}', -3)], (-2, -3)),
        ("5", [('{"answer": "', -1), ("5", -2), ('", "confidence": 5', -3), ("5}", -4)], (-2,)),
        ("Paris", [("I think Paris", -1)], ()),
        ("", [('{"answer": ""}', -1)], ()),
        ("Paris", [], ()),
    ],
)
def test_only_the_tokens_that_spell_the_value_count(value: str, tokens: Any, found: Any) -> None:
    assert selection.field_logprobs("answer", value, drawn(*tokens)) == found


def test_perplexity_and_confidence_of_known_numbers() -> None:
    assert selection.perplexity([math.log(0.25), 0.0]) == pytest.approx(2.0)
    assert selection.confidence([math.log(0.25), 0.0]) == pytest.approx(0.625)
    assert (selection.perplexity([]), selection.confidence([])) == (math.inf, 0.0)
    assert math.isfinite(selection.perplexity([-9999.0]))
    assert selection.confidence([-math.inf]) == 0.0


def test_agreement_is_a_share_of_all_draws() -> None:
    assert selection.agreement("The Paris", ["paris.", "Rome", None, "Paris"]) == 0.5
    assert selection.agreement("Paris", []) == 0.0
    assert selection.agreement("A", ["the", "a"]) == 0.5


def test_the_best_is_the_sum_of_its_group_or_alone_and_ties_go_deeper() -> None:
    answers, depths = ["Lyon", "Paris", "the paris", ""], [0, 1, 2, 2]
    scores = [0.9, 0.5, 0.6, 5.0]
    assert selection.best(answers, scores, depths, pooled=True) == 2
    assert selection.best(answers, scores, depths, pooled=False) == 0
    assert selection.best(answers, [0.0] * 4, depths, pooled=True) == 2
    assert selection.best(answers, [-math.inf] * 4, [0, 1, 1, 1], pooled=False) == 1
    assert selection.best(["", " "], [0.1, 0.2], [0, 1], pooled=True) == 1
    assert selection.groups(answers) == {"lyon": [0], "paris": [1, 2]}


def test_state_saves_and_loads_with_only_the_calls_that_are_used(tmp_path: Any) -> None:
    program = made(ScriptedTarget([]), width="decompose")
    assert [name for name, _ in program.named_predictors()] == ["decompose", "answer"]
    program.answer.demos = [{"question": "q", "trajectory": ["rewrite: x"], "answer": "y"}]
    program.save(tmp_path / "state.json")
    twin = made(ScriptedTarget([]), width="decompose")
    twin.load(tmp_path / "state.json")
    assert twin.answer.fingerprint == program.answer.fingerprint
    assert json.loads((tmp_path / "state.json").read_text())
