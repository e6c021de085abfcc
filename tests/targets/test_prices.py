"""Prices: typed ones, those of LiteLLM's table, and what a request can cost at most."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from ragc import targets
from ragc.errors import UsageError
from ragc.targets.base import ChatRequest, Message, Sampling, Usage
from ragc.targets.dspy_lm import DspyTarget, target_of
from ragc.targets.options import TargetSpec
from ragc.targets.prices import FREE, Price, most_context, most_tokens, most_usd, price_of, typed_price
from ragc.targets.reasoning import reasoning_of, with_reasoning
from ragc.testing import ScriptedTarget

TYPED = {"input": 2, "cached_input": 0.5, "output": 8.0}
PRICE = Price(input=2.0, cached_input=0.5, output=8.0)


def hosted(model: str, **options: Any) -> targets.Target:
    return targets.build(
        TargetSpec(kind="hosted", model=model, base_url="http://127.0.0.1:9/v1", options=options)
    )


def test_cached_tokens_cost_as_much_as_others_unless_they_have_a_price() -> None:
    assert Price.of({"input": 2.0, "output": 8.0}) == Price(input=2.0, cached_input=2.0, output=8.0)
    assert Price.of(TYPED).usd(Usage(1_000_000, 500_000, 400_000)) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 4)


@pytest.mark.parametrize("kind", ["embedded", "vllm"])
def test_a_model_of_ones_own_costs_nothing_unless_it_is_priced(kind: Any) -> None:
    where: dict[str, Any] = {"base_url": "http://127.0.0.1:9/v1", "model": "m"} if kind == "vllm" else {}
    assert price_of(targets.build(TargetSpec(kind=kind, **where))) == FREE
    assert price_of(targets.build(TargetSpec(kind=kind, **where, options={"price": TYPED}))) == PRICE


def test_a_hosted_model_has_the_tables_price_a_typed_one_or_none() -> None:
    known = price_of(hosted("openai/gpt-4o-mini"))
    assert known is not None
    assert known.input >= 0.15
    assert known.output >= 0.6
    assert price_of(hosted("openai/our-own-model")) is None
    assert price_of(hosted("openai/our-own-model", price=TYPED)) == PRICE
    assert typed_price(hosted("openai/gpt-4o-mini", price={"input": 0, "output": 0})) == FREE


def test_an_lm_of_dspy_has_the_price_that_was_given_or_the_tables() -> None:
    assert price_of(DspyTarget(dspy.LM("openai/our-own-model"))) is None
    assert price_of(DspyTarget(dspy.LM("openai/our-own-model"), price=TYPED)) == PRICE
    assert price_of(DspyTarget(dspy.LM("openai/gpt-4o-mini"))) is not None
    lm = dspy.LM("openai/our-own-model")
    lm.price = TYPED
    assert price_of(target_of(lm)) == PRICE


def test_a_target_of_ones_own_has_the_price_that_it_names() -> None:
    target = ScriptedTarget([])
    assert price_of(target) is None
    target.price = TYPED  # type: ignore[attr-defined]
    assert price_of(target) == PRICE
    target.price = {"input": "cheap"}  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"The price of scripted, dollars .*: input must be a number"):
        price_of(target)


def test_reasoning_tokens_are_reserved_and_bound_what_a_request_takes() -> None:
    options: dict[str, Any] = {"context_tokens": 8192, "price": {"input": 1.0, "output": 10.0}}
    where: dict[str, Any] = {"kind": "vllm", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    plain, roomy = (
        targets.build(TargetSpec(**where, options={**options, "thinking_tokens": tokens}))
        for tokens in (0, 1000)
    )
    request = ChatRequest((Message("user", "Why?"),), sampling=Sampling(max_tokens=24))
    one, more = (most_tokens(target, with_reasoning(target, request)) for target in (plain, roomy))
    assert (one.prompt, one.completion, more.completion) == (more.prompt, 24, 1024)
    usd = [most_usd(target, 100, 24 + reasoning_of(target)) for target in (plain, roomy)]
    assert usd[1] == pytest.approx((usd[0] or 0) + 1000 * 10 / 1e6)
    embedded = targets.build(TargetSpec(kind="embedded", options={"context": 2048, "thinking_tokens": 1000}))
    assert most_context(embedded) == 2048
    assert most_usd(hosted("openai/our-own-model"), 1, 1) is None
    assert most_usd(plain, None, 1) is None


def test_without_a_limit_that_is_sent_the_whole_context_is_reserved() -> None:
    target = targets.build(
        TargetSpec(
            kind="vllm",
            base_url="http://127.0.0.1:9/v1",
            model="m",
            options={"context_tokens": 4000, "omit": ["max_tokens"]},
        )
    )
    request = ChatRequest((Message("user", "Why?"),), sampling=Sampling(max_tokens=24))
    assert most_tokens(target, request).completion == 4000
