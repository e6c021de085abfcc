"""When a target is not available another answers, under its own name, and that is counted and said."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.errors import CapabilityMissing, RecipeError, TargetUnavailable, UsageError
from ragc.programs import method
from ragc.programs.runtime import Runtime
from ragc.recipe import parse
from ragc.store.calls import CallStore
from ragc.targets import build
from ragc.targets.base import ChatRequest, Message
from ragc.targets.gateway import request_key
from ragc.targets.options import TargetSpec, VllmOptions
from ragc.testing import ScriptedTarget
from tests.support.recipes import recipe_toml, vllm

ASK = ChatRequest((Message("user", "Capital of Peru?"),))
DOWN = TargetUnavailable("http://a/v1 answered 503 (tried 4 times).", endpoint="http://a/v1")


class Faulty(ScriptedTarget):
    """A server that raises `error` while it has one; its replies say its name."""

    endpoint = ""

    def __init__(self, name: str, error: Exception | None = None, **options: Any) -> None:
        super().__init__(lambda request: {"answer": name}, identity=name)
        self.name = self.model = name
        self.error = error
        self.options = VllmOptions(**options)

    async def complete(self, request: ChatRequest) -> Any:
        if self.error:
            self.requests.append(request)
            raise self.error
        return await super().complete(request)


def ask(runtime: Runtime, request: ChatRequest = ASK) -> tuple[str, Counters]:
    async def go() -> tuple[str, Counters]:
        with counting(Counters()) as spent:
            return (await runtime.gateway.complete(runtime.target("main"), request)).text, spent

    return event_loop.run(go())


def test_the_next_answers_is_stored_under_its_own_name_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    main, second = Faulty("main", DOWN, fallbacks=("second", "third")), Faulty("second", DOWN)
    third = Faulty("third")
    runtime = Runtime({"main": main, "second": second, "third": third})
    text, spent = ask(runtime)
    assert text == '{"answer": "third"}'
    assert (spent.fallbacks, spent.sent, spent.lm_calls) == (1, 1, 1)
    assert spent.invariant()["fallbacks"] == 1
    store = runtime.gateway.store
    assert [store.get(request_key(t, ASK)) is not None for t in (main, second, third)] == [False, False, True]
    text, spent = ask(runtime)
    assert (text, spent.fallbacks, spent.replayed) == ('{"answer": "third"}', 1, 1)
    assert [r.getMessage() for r in caplog.records] == [f"third answers in the place of main: {DOWN}"]
    main.error = None
    assert ask(runtime)[0] == '{"answer": "main"}'


def test_a_server_that_is_down_from_the_start_is_replaced_too() -> None:
    down = build(
        TargetSpec(
            kind="vllm", model="m", base_url="http://127.0.0.1:9/v1", options={"fallbacks": ["second"]}
        )
    )
    runtime = Runtime({"main": down, "second": Faulty("second")})
    event_loop.run(runtime.open())
    assert ask(runtime)[0] == '{"answer": "second"}'


def test_when_none_is_available_each_says_why() -> None:
    targets = {
        "main": Faulty("main", DOWN, fallbacks=("b",)),
        "b": Faulty("b", TargetUnavailable("b is off.")),
    }
    with pytest.raises(TargetUnavailable, match=r"main and its fallbacks.*answered 503.*b is off\."):
        ask(Runtime(targets))


def test_a_typed_call_that_a_fallback_answered_is_not_replayed_as_the_first_ones() -> None:
    main = Faulty("main", DOWN, fallbacks=("second",))
    runtime = Runtime({"main": main, "second": Faulty("second")}, store=CallStore(None))
    program = method("no_retrieval").build(runtime, {})
    assert program(question="Capital of Peru?").answer == "second"
    assert program(question="Capital of Peru?").answer == "second"
    main.error = None
    assert program(question="Capital of Peru?").answer == "main"
    main.error = DOWN
    assert program(question="Capital of Peru?").answer == "main"


def test_what_cannot_be_a_fallback_is_said_before_anything_is_sent() -> None:
    with pytest.raises(UsageError, match="Did you mean 'second'"):
        Runtime({"main": Faulty("main", fallbacks=("secnd",)), "second": Faulty("second")})
    with pytest.raises(UsageError, match="lists itself"):
        Runtime({"main": Faulty("main", fallbacks=("main",))})
    small = Faulty("small")
    small.context_tokens = 512
    with pytest.raises(UsageError, match="set context_tokens = 512 for main"):
        asyncio.run(Runtime({"main": Faulty("main", fallbacks=("small",)), "small": small}).open())
    small.capabilities = frozenset()
    needy = replace(method("no_retrieval"), capabilities=("logprobs",))
    with pytest.raises(CapabilityMissing, match=r"logprobs.*small"):
        Runtime({"main": Faulty("main", fallbacks=("small",)), "small": small}).require(needy)


def test_a_fallback_that_cannot_do_what_is_asked_is_left_out() -> None:
    plain, able = Faulty("plain"), Faulty("able")
    plain.capabilities = frozenset()
    main = Faulty("main", DOWN, fallbacks=("plain", "able"))
    runtime = Runtime({"main": main, "plain": plain, "able": able})
    assert ask(runtime)[0] == '{"answer": "plain"}'
    assert ask(runtime, ChatRequest(ASK.messages, logprobs=True))[0] == '{"answer": "able"}'


RECIPE = recipe_toml(
    "no_retrieval",
    data={"dataset": "pydocs"},
    sources=[],
    targets={"main": vllm("http://127.0.0.1:8000/v1", fallbacks=["spare"], requests_per_minute=60)},
)
SPARE = '[targets.spare]\nkind = "hosted"\nmodel = "openai/gpt-4o-mini"\n'


def test_a_recipe_names_them() -> None:
    recipe = parse(RECIPE + SPARE)
    assert recipe.targets["main"].options["fallbacks"] == ["spare"]
    assert set(recipe.targets) == {"main", "spare"}
    with pytest.raises(RecipeError, match=r"names \[targets.spare\], and there is no other target"):
        parse(RECIPE)
    with pytest.raises(RecipeError, match="target role is named 'spar'"):
        parse(RECIPE + SPARE + SPARE.replace("spare", "spar"))
