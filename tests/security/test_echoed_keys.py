"""What is masked of a text that holds a key of the environment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragc.core import event_loop, redact
from ragc.core.redact import MASK, mask_keys, remember, remember_environment
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Message, Reply, TokenLogprob, Usage
from ragc.targets.gateway import Gateway
from ragc.testing import ScriptedTarget

KEY = "plain/words+not&like=a-key"


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "_remembered", set())


@pytest.mark.usefixtures("forgetful")
def test_only_whole_keys_of_eight_characters_are_masked_in_replies() -> None:
    for key in ("longenough", "longenough-and-longer", "short12"):
        remember(key)
    text = "{}, {}, long enough, short12, sk-0123456789abcdefghij, password=hunter22"
    assert mask_keys(text.format("longenough", "longenough-and-longer")) == text.format(MASK, MASK)


@pytest.mark.usefixtures("forgetful")
def test_keys_that_a_library_may_send_are_known_by_their_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "OPENAI_API_KEY": "value-of-openai",
        "ACME_KEY": "value-of-acme",
        "SIGNING_KEY": "value-of-signing",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    remember_environment("acme_")
    text = " ".join(values.values())
    assert mask_keys(text) == f"{MASK} {MASK} value-of-signing"


@pytest.mark.usefixtures("forgetful")
def test_the_tokens_of_a_masked_reply_spell_nothing() -> None:
    remember(KEY)
    tokens = tuple(TokenLogprob(letter, -0.5) for letter in KEY)
    request = ChatRequest((Message("user", "x"),), logprobs=True)
    given = [
        Reply(KEY, usage=Usage(1, 9), logprobs=tokens),
        Reply("red", usage=Usage(1, 9), logprobs=tokens[:1]),
    ]
    gateway, target = Gateway(CallStore(None)), ScriptedTarget(given)
    masked_reply = event_loop.run(gateway.complete(target, request))
    assert masked_reply.text == MASK
    assert [token.logprob for token in masked_reply.logprobs] == [-0.5] * len(KEY)
    assert "".join(token.token for token in masked_reply.logprobs) == ""
    whole = event_loop.run(gateway.complete(target, replace(request, sample=1)))
    assert (whole.text, whole.logprobs) == ("red", tokens[:1])


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-abc***789xyz.",
        "Authorization: Bearer abcdefghijkl",
        "https://user:abcdefghijkl@host/v1",
        'api_key="abcdefghijkl"',
        "the value odd#value&99 from the environment",
        "a remembered one: qqqwwweee",
    ],
)
def test_redact_masks_whatever_looks_like_a_key(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "odd#value&99")
    remember("qqqwwweee")
    masked = redact.redact(text)
    assert "[redacted]" in masked
    assert not any(s in masked for s in ("abc***", "abcdefghijkl", "odd#value", "qqqwww"))


def test_redact_leaves_ordinary_words_alone() -> None:
    text = "You asked for 5000 tokens; max tokens: 4096, model m at http://127.0.0.1:8000/v1?x=1"
    assert redact.redact(text) == text
