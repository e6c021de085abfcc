"""What becomes of the replies and errors of real providers, and of the faults that OpenAI's client names.

`provider_replies.json` holds them, each with where it was found. A body that is a text is sent as it is, any
other as JSON; status 0 is a server that does not listen. Expected is "answer", "filtered", "too long",
"failed", "unavailable", "stopped", "refusal", "tool call", or "not an answer": any of the errors, or a reply
that has no text. `waits_too_long` marks what asks for a wait longer than all tries may take. `wrong_today`
says what a reply comes to instead, by kind of target.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragc.errors import RequestRefused, TargetStopped, TargetUnavailable
from ragc.targets.base import ChatRequest, Message, Target
from tests.processes import ragc
from tests.support.recipes import recipe_toml, vllm, write_files
from tests.support.server import MODEL, Answer, Asked, ScriptedServer, fitting, serving
from tests.support.targets import KINDS, Waits, finished, target_of

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("provider_replies.json").read_text("utf-8"))
BY_NAME = {case["name"]: case for case in CASES}
REFUSING = "http://127.0.0.1:1/v1"
"""Nothing listens there."""


def answer_of(case: dict[str, Any]) -> Answer:
    """What the server sends."""
    body = case["body"]
    content = body if isinstance(body, str) else json.dumps(body)
    headers = dict(case.get("headers", {}))
    typed = headers.pop("Content-Type", "application/json")
    more = {key: case[key] for key in ("ending", "sent", "raw") if key in case}
    return Answer(content.encode(), case["status"], typed, tuple(headers.items()), **more)


def faulty(request: Asked) -> Answer:
    """The reply whose name is asked for."""
    return answer_of(BY_NAME[request.text])


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with serving(faulty) as endpoint:
        yield endpoint


def outcome(target: Target, text: str) -> tuple[str, str]:
    """What a request comes to, and the text of its reply or error."""
    try:
        reply = finished(target, target.complete(ChatRequest((Message("user", text),))))
    except RequestRefused as error:
        return error.kind, str(error)
    except TargetStopped as error:
        return "stopped", str(error)
    except TargetUnavailable as error:
        return "unavailable", str(error)
    named = {"refusal": "refusal", "tool_calls": "tool call"}.get(reply.finish)
    return named or ("answer" if reply.text else "not an answer"), reply.text


def params() -> Iterator[Any]:
    """Every reply at every kind of target."""
    for case in CASES:
        wrong = case.get("wrong_today", {})
        for kind in KINDS:
            marks = [pytest.mark.xfail(strict=True, reason=wrong[kind])] if kind in wrong else []
            yield pytest.param(kind, case, id=f"{kind}: {case['name']}", marks=marks)


@pytest.mark.parametrize(("kind", "case"), list(params()))
def test_a_reply_comes_to_what_it_is(kind: str, case: dict[str, Any], server: ScriptedServer) -> None:
    url = REFUSING if case.get("ending") == "refused" else server.url
    patience = 0.3 if case.get("ending") == "stall" else 10.0
    target = target_of(kind, url, Waits(), tries=2, timeout_s=patience, total_s=600.0)
    before = len(server.requests)
    came, text = outcome(target, case["name"])
    sent = len(server.requests) - before
    if case["expected"] == "not an answer":
        assert came != "answer", text
    else:
        assert came == case["expected"], text
    if came == "answer":
        assert text == case["answer"]
    elif came != "not an answer":
        assert text.strip()
        assert "Traceback" not in text
        assert len(text) < 700
        if url != REFUSING and not case.get("waits_too_long"):
            assert sent == (2 if came == "unavailable" else 1)


STORED = ("filtered", "too long")
"""A question that failed so is not asked again by a second run."""


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("azure filters the prompt", "filtered"),
        ("tgi's sum of tokens", "too long"),
        ("mistral forbids an extra", "failed"),
        ("cloudflare 522", "failed"),
        ("openrouter's provider limits, inside a 200", "failed"),
    ],
)
def test_an_evaluation_loses_at_most_one_question_of_seven(tmp_path: Path, name: str, failure: str) -> None:
    with serving(faulty_once(name)) as endpoint:
        write_evaluation(tmp_path, endpoint.url)
        code, out, _ = ragc(tmp_path, *EVALUATION)
        assert code == 0
        report = json.loads(out)
        assert {kind: n for kind, n in report["failures"].items() if n} == {failure: 1}
        assert report["metrics"]["em"]["mean"] == pytest.approx(6 / 7)
        assert len(report["failure_reasons"]) == 1
        first = len(endpoint.requests)
        assert ragc(tmp_path, *EVALUATION)[0] == 0
        assert len(endpoint.requests) - first == (0 if failure in STORED else 1)


SPENT = (
    "deepseek's balance is spent",
    "openai's quota is spent",
    "anthropic's credit is spent, behind a 400",
    "litellm proxy's budget, behind a 429",
    "fireworks has suspended the account",
)


@pytest.mark.parametrize("name", SPENT)
def test_an_evaluation_stops_where_the_money_ends(
    tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    """Else the questions that were not answered count as wrong, in a score that looks like any other."""
    if "vllm" in BY_NAME[name].get("wrong_today", {}):
        request.applymarker(pytest.mark.xfail(strict=True, reason="each question fails, and is scored"))

    def script(asked: Asked) -> Answer:
        return fitting(asked, answer="red") if asked.number < 3 else answer_of(BY_NAME[name])

    with serving(script) as endpoint:
        write_evaluation(tmp_path, endpoint.url, concurrency=1)
        code, out, err = ragc(tmp_path, *EVALUATION)
        assert (code, out) == (1, "")
        assert err.splitlines()[-1].startswith("ragc: ")
        assert len(endpoint.requests) == 4


EVALUATION = "eval", "recipe.toml", "--split", "dev", "--json"


def faulty_once(name: str) -> Callable[[Asked], Answer]:
    """A script that answers "red", and the fourth of seven questions by the reply called `name`."""

    def script(request: Asked) -> Answer:
        once = "item 3?" in json.dumps(request.body["messages"])
        return answer_of(BY_NAME[name]) if once else fitting(request, answer="red")

    return script


def write_evaluation(folder: Path, url: str, **options: int) -> None:
    """A recipe that asks a model alone, and seven questions."""
    questions = [
        {"id": f"q{n}", "question": f"What colour is item {n}?", "answers": ["red"], "split": "dev"}
        for n in range(7)
    ]
    main = vllm(url, MODEL, tries=1, **options)
    recipe = recipe_toml("no_retrieval", sources={}, targets={"main": main}, metrics=["em"])
    write_files(folder, recipe=recipe, questions=questions, corpus=[])
