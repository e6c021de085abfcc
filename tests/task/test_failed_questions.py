"""A request that fails is its question's failure; an endpoint that is down, or refuses all, ends a run."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ragc import metrics
from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.errors import (
    BudgetExhausted,
    PromptTooLong,
    RagcError,
    RequestRefused,
    TargetStopped,
    TargetUnavailable,
)
from ragc.metrics.base import Scorer
from ragc.metrics.failures import Failures
from ragc.metrics.judge import JudgeAssessor
from ragc.programs import method
from ragc.programs.runtime import Runtime
from ragc.records import Question
from ragc.targets.base import ChatRequest
from ragc.task.answering import Row, evaluate, failures_of
from ragc.task.judge import Judge
from ragc.testing import ScriptedTarget

QUESTIONS = tuple(Question(f"q{n}", f"Which number is item {n:03}?", (f"{n:03}",)) for n in range(28))
EM = Scorer((metrics.get("em"),))

FILTERED = RequestRefused("The content filter refused the prompt.", "filtered", request_id="req-7")
TOO_LONG = RequestRefused("The prompt has 9000 tokens, and the context 8192.", "too long")
FAILED = RequestRefused("The server refuses the parameter `top_k`.", "failed")
DOWN = TargetUnavailable("http://localhost:8000/v1 does not answer (HTTP 529).")
STOPPED = TargetStopped("The key in OPENAI_API_KEY is refused (HTTP 401).")


def number_of(request: ChatRequest) -> int:
    texts = " ".join(message.content for message in request.messages)  # a repair has further ones
    return int(re.findall(r"item (\d+)\?", texts)[-1])


def failing(errors: dict[int, Any]) -> Callable[[ChatRequest], Any]:
    """Answers every question but those in `errors`."""

    def reply(request: ChatRequest) -> Any:
        number = number_of(request)
        error = errors.get(number)
        if isinstance(error, Exception):
            raise error
        return error or {"answer": f"{number:03}"}

    return reply


def answered(
    target: ScriptedTarget,
    questions: Sequence[Question] = QUESTIONS,
    *,
    scorer: Scorer = EM,
    flying: int = 1,
    runtime: Runtime | None = None,
) -> tuple[tuple[Row, ...], Counters]:
    async def go() -> tuple[tuple[Row, ...], Counters]:
        program = method("no_retrieval").build(runtime or Runtime({"main": target}))
        with counting(Counters()) as spent:
            limit = asyncio.Semaphore(flying)
            return await evaluate(program, questions, scorer, limit=limit), spent

    return event_loop.run(go())


@pytest.mark.parametrize(
    ("error", "kind", "counter"),
    [
        (FILTERED, "filtered", "filtered"),
        (TOO_LONG, "too long", "too_long"),
        (PromptTooLong("A prompt takes 90 tokens."), "too long", "too_long"),
        (FAILED, "failed", "failed"),
        (DOWN, "failed", "failed"),
    ],
)
@pytest.mark.parametrize("flying", [1, 64])
def test_one_failed_request_is_its_questions_failure(
    error: RagcError, kind: str, counter: str, flying: int
) -> None:
    rows, spent = answered(ScriptedTarget(failing(dict.fromkeys((3, 17), error))), flying=flying)
    assert [row.question.id for row in rows if row.failure] == ["q3", "q17"]
    assert [row.scores["em"] for row in rows] == [float(n not in (3, 17)) for n in range(28)]
    row = rows[3]
    assert (row.prediction, row.failure, row.failure_kind) == (None, str(error), kind)
    assert (row.counters[counter], spent.to_json()[counter]) == (1, 2)
    shown = row.to_json()
    assert (shown["id"], shown["failure"], shown["failure_kind"]) == ("q3", str(error), kind)
    failures = failures_of(rows)
    assert failures.text == f"2 of 28 questions failed: 2 {kind} (ids q3, q17); {str(error).rstrip('.')}"
    assert Failures.from_json(json.loads(json.dumps(failures.to_json()))) == failures
    assert failures.table_json()["failures"] == {
        **dict.fromkeys(("filtered", "too long", "failed", "unreadable"), 0),
        kind: 2,
    }


def test_failures_of_several_kinds_stand_in_one_line() -> None:
    errors = {2: FILTERED, 5: TOO_LONG, 6: TOO_LONG, 9: "%%%", 11: FAILED, 20: DOWN, 21: DOWN}
    rows, _ = answered(ScriptedTarget(failing(errors)))
    text = failures_of(rows).text
    assert text.startswith(
        "7 of 28 questions failed: 1 filtered, 2 too long, 3 failed, 1 unreadable "
        "(ids q2, q5, q6, q9, q11 and 2 more); "
    )
    assert "\n" not in text


@pytest.mark.parametrize("error", [FAILED, DOWN])
def test_five_failures_in_a_row_end_a_run_and_nothing_more_is_sent(error: RagcError) -> None:
    target = ScriptedTarget(failing(dict.fromkeys(range(4, 28), error)))
    with pytest.raises(TargetUnavailable) as caught:
        answered(target)
    assert len(target.requests) == 4 + 5
    text = str(caught.value)
    assert str(error).rstrip(".") in text
    assert "5 questions in a row failed" in text
    assert "--resume" in text


def test_an_unreadable_reply_is_an_answer_of_the_endpoint() -> None:
    errors = {n: "%%%" if n % 5 == 0 else DOWN for n in range(28)}
    rows, _ = answered(ScriptedTarget(failing(errors)))
    assert all(row.failure for row in rows)


@pytest.mark.parametrize("error", [FILTERED, TOO_LONG])
def test_what_is_filtered_or_too_long_never_ends_a_run(error: RagcError) -> None:
    assert failures_of(answered(ScriptedTarget(failing(dict.fromkeys(range(28), error))))[0]).all
    errors = {n: error if n % 2 else DOWN for n in range(28)}
    with pytest.raises(TargetUnavailable, match="5 questions in a row"):
        answered(ScriptedTarget(failing(errors)))


def test_what_is_stopped_ends_a_run_at_once_with_its_own_words() -> None:
    target = ScriptedTarget(failing({2: STOPPED}))
    with pytest.raises(TargetStopped) as caught:
        answered(target)
    assert (str(caught.value), len(target.requests)) == (str(STOPPED), 3)


def test_a_spent_budget_still_ends_a_run() -> None:
    with pytest.raises(BudgetExhausted):
        answered(ScriptedTarget(failing({2: BudgetExhausted("The budget is spent.")})))


@pytest.mark.parametrize("questions", [1, 3, 4])
@pytest.mark.parametrize("error", [FAILED, DOWN])
def test_a_few_questions_that_all_fail_are_an_error_and_no_score(questions: int, error: RagcError) -> None:
    with pytest.raises(TargetUnavailable) as caught:
        answered(ScriptedTarget(failing(dict.fromkeys(range(4), error))), QUESTIONS[:questions])
    assert str(error).rstrip(".") in str(caught.value)


def test_a_second_run_sends_what_failed_again_and_nothing_else() -> None:
    target = ScriptedTarget(failing({5: FAILED, 9: DOWN}))
    runtime = Runtime({"main": target})
    answered(target, runtime=runtime)
    again = runtime.targets["main"] = ScriptedTarget(failing({9: DOWN}))
    rows, _ = answered(again, runtime=runtime)
    assert [number_of(request) for request in again.requests] == [5, 9]
    assert [row.question.id for row in rows if row.failure] == ["q9"]


def judged(errors: dict[int, Exception]) -> tuple[Row, ...]:
    """The rows of answers that are all right but not to the letter, judged right except where it fails."""

    def judge(request: ChatRequest) -> Any:
        if error := errors.get(number_of(request)):
            raise error
        return {"correct": True}

    target = ScriptedTarget(lambda request: {"answer": f"It is {number_of(request):03}."})
    runtime = Runtime({"main": target, "judge": ScriptedTarget(judge)})
    em, accuracy = metrics.get("em"), metrics.get("judge_acc")
    scorer = Scorer((em, accuracy), {"judge": JudgeAssessor(Judge(runtime))})
    return answered(target, scorer=scorer, runtime=runtime)[0]


@pytest.mark.parametrize("error", [FILTERED, TOO_LONG, FAILED, DOWN])
def test_a_request_of_the_judge_that_fails_is_a_missing_judgement(error: Exception) -> None:
    rows = judged({4: error})
    assert [row.scores["judge_acc"] for row in rows] == [None if n == 4 else 1.0 for n in range(28)]
    assert rows[4].scores["em"] == 0
    assert rows[4].prediction == "It is 004."
    assert not rows[4].failure
    assert rows[4].to_json()["found"] == {"judge": {"by": "failed", "why": str(error)}}


def test_a_judge_that_is_down_ends_the_run() -> None:
    with pytest.raises(TargetUnavailable, match=r"5 questions in a row.*HTTP 529"):
        judged(dict.fromkeys(range(28), DOWN))
    with pytest.raises(TargetStopped):
        judged({3: STOPPED})
