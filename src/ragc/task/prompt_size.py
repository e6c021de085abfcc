"""The longest prompt of a program, estimated before anything is sent, and the cap `search.prompt_tokens`.

    instructions and demonstrations, as rendered and counted by the target
    + passages, each at its full chunk size + the longest question

Every call is taken to show as many passages as the knobs allow, so most prompts are shorter than this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ragc.errors import UsageError
from ragc.programs.base import RagProgram
from ragc.programs.calls.prompt import TypedPrompt
from ragc.programs.knobs import Value
from ragc.records import Question

PASSAGE_KNOBS = (
    "top_k", "noise_n", "k_local", "k_web", "web_k", "k_support", "window", "ndocs", "refs_max", "flare_k",
)  # fmt: skip
"""Knobs for the number of passages in a prompt; those of a program are added up."""

BUDGETS = ("context_tokens", "prompt_token_cap")
"""Knobs that bound the passages of a prompt in tokens; 0 bounds nothing."""

PASSAGE = 200
"""Tokens of a passage if no knob cuts passages: the default of `chunk_size`."""


def chunk_tokens(knobs: Mapping[str, Value]) -> int:
    """Returns the most tokens of a passage."""
    return int(knobs.get("chunk_size", PASSAGE))


def passage_tokens(knobs: Mapping[str, Value]) -> int:
    """Returns the most tokens of the passages of a prompt: at full chunk size, at most their budget."""
    passages = sum(int(knobs.get(name, 0)) for name in PASSAGE_KNOBS) * chunk_tokens(knobs)
    return min([passages, *(int(knobs[name]) for name in BUDGETS if knobs.get(name))])


def prompt_tokens(knobs: Mapping[str, Value], demos: int) -> int:
    """Estimates the tokens of a prompt: its passages, and `demos` demonstrations of a passage each."""
    return passage_tokens(knobs) + demos * chunk_tokens(knobs)


def longest_prompt(program: RagProgram, knobs: Mapping[str, Value], questions: Iterable[Question]) -> int:
    """Returns the tokens of the longest prompt of any predictor of `program`, which has `knobs`."""
    longest = max((question.question for question in questions), key=len, default="")
    shown = int(knobs.get("icl_n", 0)) if program.chooses_demos else None
    return passage_tokens(knobs) + max(
        (_fixed_tokens(call, shown) + call.target.count_tokens(longest) for _, call in program.named_calls()),
        default=0,
    )


def _fixed_tokens(call: TypedPrompt, shown: int | None) -> int:
    """Returns the tokens of instructions and demonstrations.

    Where demonstrations are selected by question, at most `nearest` of the predictor or `shown`, these are
    the longest of the pool.
    """
    prompt, most = call, call.nearest or shown
    if most is not None and len(call.demos) > most:
        lengths: list[int] = [len(str(demo)) for demo in call.demos]
        places = sorted(range(len(lengths)), key=lambda at: (-lengths[at], at))[:most]
        prompt = call.view(tuple(places))
    return sum(call.target.count_tokens(message.content) for message in prompt.template.prefix)


def check_cap(cap: int, program: RagProgram, knobs: Mapping[str, Any], questions: Iterable[Question]) -> None:
    """Raises UsageError if the baseline `program` exceeds `cap` tokens; 0 is no cap."""
    size = longest_prompt(program, knobs, questions) if cap else 0
    if size > cap:
        raise UsageError(
            f"search.prompt_tokens = {cap} is less than the longest prompt of {program.method.id!r} without "
            f"demonstrations, about {size} tokens; raise it, or show fewer or shorter passages."
        )
