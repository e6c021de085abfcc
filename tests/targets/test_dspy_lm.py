"""What becomes of the failures of a user's dspy.LM, and of a reply of a class that overrides `forward`."""

from __future__ import annotations

import json
from typing import Any

import dspy
import pytest
from dspy import lm15

from ragc.core import event_loop
from ragc.errors import RagcError, RequestRefused, TargetStopped, TargetUnavailable
from ragc.targets.base import ChatRequest, Message, Sampling
from ragc.targets.dspy_lm import DspyTarget
from tests.support.server import MODEL, Answer, completion, in_order, serving

ASK = ChatRequest((Message("user", "Capital of Peru?"),), sampling=Sampling(max_tokens=50))


def error(status: int, message: str, code: str = "") -> Answer:
    return Answer(json.dumps({"error": {"message": message, "code": code}}).encode(), status)


def outcome(*answers: Answer, retries: int = 0) -> Any:
    """What the target makes of a server that gives these answers, the last one from then on."""
    with serving(in_order(*answers)) as server:
        lm = dspy.LM(f"openai/{MODEL}", api_base=server.url, api_key="sk-test", num_retries=retries)
        try:
            return event_loop.run(DspyTarget(lm).complete(ASK))
        except RagcError as raised:
            return raised


FAILURES = {
    "content filter": (error(400, "content management policy", "content_filter"), RequestRefused, "filtered"),
    "context": (error(400, "maximum context length is 512 tokens"), RequestRefused, "too long"),
    "parameter": (error(422, "top_p is not taken"), RequestRefused, "failed"),
    "key": (error(401, "Incorrect API key"), TargetStopped, ""),
    "quota": (error(429, "You exceeded your current quota", "insufficient_quota"), TargetStopped, ""),
    "filtered reply": (completion({"content": "Li"}, "content_filter"), RequestRefused, "filtered"),
    "reasoning alone": (
        completion({"content": "", "reasoning_content": "Peru has one."}),
        TargetUnavailable,
        "",
    ),
    "busy": (error(503, "overloaded"), TargetUnavailable, ""),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_what_it_is_at_every_other_server(name: str) -> None:
    answer, kind, refused = FAILURES[name]
    raised = outcome(answer)
    assert type(raised) is kind, raised
    assert getattr(raised, "kind", "") == refused
    assert "sk-test" not in str(raised)


def test_a_failure_that_passes_is_tried_again_as_often_as_the_lm_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: 0.0)
    answer = completion({"content": "Lima"})
    assert outcome(error(503, "overloaded"), answer, retries=2).text == "Lima"


@pytest.mark.filterwarnings("ignore")  # of LiteLLM's import
@pytest.mark.parametrize("engine", ["lm15", "litellm"])
def test_a_reply_that_was_cut_is_known_to_be_whichever_library_sends(engine: Any) -> None:
    with serving(in_order(completion({"content": "Li"}, "length"))) as server:
        lm = dspy.LM(f"openai/{MODEL}", api_base=server.url, api_key="sk-test", engine=engine)
        reply = event_loop.run(DspyTarget(lm).complete(ASK))
    assert (reply.text, reply.finish) == ("Li", "length")


class Legacy(dspy.BaseLM):
    """A class that overrides `forward`, as plugins of DSPy before 3.5 do."""

    def __init__(self, output: Any) -> None:
        super().__init__("mine")
        self.output = output

    def __call__(self, *_: Any, **__: Any) -> Any:
        return [self.output]


def test_a_class_with_a_forward_of_its_own_answers_and_its_tokens_are_bounded() -> None:
    reply = event_loop.run(DspyTarget(Legacy({"text": "Lima"})).complete(ASK))
    assert reply.text == "Lima"
    assert reply.usage.prompt > 0 < reply.usage.completion


class Broken:
    """An engine of a user's own that fails for one prompt and not for another."""

    def complete(self, request: lm15.Request) -> lm15.Response:
        raise KeyError("no template for this prompt")


def test_a_failure_of_a_users_engine_is_the_failure_of_its_question_and_stays_charged() -> None:
    with pytest.raises(RequestRefused, match="no template") as caught:
        event_loop.run(DspyTarget(dspy.LM("mine/model", engine=Broken())).complete(ASK))
    assert (caught.value.kind, caught.value.refused) == ("failed", False)
