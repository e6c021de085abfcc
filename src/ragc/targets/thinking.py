"""Tokens for thoughts of a model that thinks before it answers, added to every limit on a reply.

    limit of a call (its answer)  +  tokens for thoughts of its target  =  the limit that is sent

The option `thinking_tokens` of a target sets the number, or "auto". "auto" is also the default if thinking is
declared: by an effort, a switch or a budget in the options, by the name of a family that always thinks, or by
LiteLLM's table for a hosted model. It takes the first of:

    declared   0 if the options switch thoughts off; a budget in tokens if they set one
    known      by effort (`THINKING_TOKENS_BY_EFFORT`); 0 for a hosted model that thinks only when asked to
    otherwise  `DEFAULT_THINKING_TOKENS`

and at most half of a known context. The number is fixed before the first question, and a study does not
change it. It is part of a target's identity unless it is 0, and reduces the context left for prompts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from ragc.errors import UsageError
from ragc.targets.base import ChatRequest, Target
from ragc.targets.options import AUTO, EFFORTS, TargetOptions

DEFAULT_THINKING_TOKENS = 4096
"""Tokens of room where nothing tells how much a model thinks."""

THINKING_TOKENS_BY_EFFORT: Mapping[str, int] = dict(
    zip(
        EFFORTS,
        (0, 512, 2048, DEFAULT_THINKING_TOKENS, 4 * DEFAULT_THINKING_TOKENS, 8 * DEFAULT_THINKING_TOKENS),
        strict=True,
    )
)
"""Tokens of room by effort."""

_ALWAYS = re.compile(r"(?i)gpt-oss|deepseek-?r1|deepseek-reasoner|\bqwq\b|magistral|-thinking\b")
_WHEN_ASKED = re.compile(r"(?i)claude|deepseek-chat|deepseek-v3|gpt-5-chat")
_SWITCHES = ("enable_thinking", "thinking")


class _Thinker(Protocol):
    """The inputs that decide a target's tokens for thoughts."""

    name: str
    model: str

    @property
    def options(self) -> TargetOptions: ...

    @property
    def plain_identity(self) -> str: ...

    @property
    def whole_context(self) -> int: ...

    def reasons(self) -> bool: ...


class ThinkingRoom:
    """A part of targets with the option `thinking_tokens`: their number, decided at its first use.

    `plain_identity` is the identity without them. `whole_context` is the context in tokens, with those for
    thoughts; 0 if unknown.
    """

    _thinking: int | None = None

    @property
    def thinking_tokens(self: _Thinker) -> int:
        """Tokens for thoughts in every request."""
        own: Any = self
        if own._thinking is None:
            own._thinking = decide(self)
        return int(own._thinking)

    @property
    def identity(self: _Thinker) -> str:
        """The model and what else affects replies. Raises TargetUnavailable if its files cannot be read."""
        return f"{self.plain_identity}{identity_mark(room_of(self))}"

    def reasons(self) -> bool:
        """Returns whether a table says that the model can think."""
        return False


def room_of(target: object) -> int:
    """Returns the tokens for thoughts in every request to `target`; 0 if it does not think."""
    thinking = getattr(target, "thinking_tokens", 0)
    return thinking if type(thinking) is int else 0


def most_room(targets: Iterable[object]) -> int:
    """Returns the most tokens for thoughts of any of `targets`."""
    return max(map(room_of, targets), default=0)


def with_room(target: Target, request: ChatRequest) -> ChatRequest:
    """Returns `request` as it is sent to `target`, its limit raised by the tokens for thoughts.

    A request for the log-probabilities of a prompt needs none: its reply is not read.
    """
    thinking = 0 if request.prompt_logprobs else room_of(target)
    if not thinking:
        return request
    sampling = replace(request.sampling, max_tokens=request.sampling.max_tokens + thinking)
    return replace(request, sampling=sampling)


def room_left(target: _Thinker, unknown: int) -> int:
    """Returns the tokens of prompt and answer that fit `target`; `unknown` if its context is unknown."""
    return max(0, target.whole_context - room_of(target)) if target.whole_context else unknown


def identity_mark(thinking: int) -> str:
    """Returns the part of a target's identity for `thinking`; "" for none."""
    return f"+{thinking}t" if thinking else ""


def decide(target: _Thinker) -> int:
    """Returns the tokens for thoughts of `target`."""
    option = target.options.thinking_tokens
    if isinstance(option, int):
        return option
    sent = target.options.sent
    declared = _declared(sent)
    if declared is None and option != AUTO and not _is_thinker(target):
        return 0
    if declared is not None and declared is not True:
        return declared
    thinking = _known(target, sent)
    context = target.whole_context
    return min(thinking, context // 2) if context else thinking


def switches_on(sent: Mapping[str, Any]) -> bool:
    """Returns whether the fields of a request ask for thoughts."""
    return bool(_declared(sent))


def _is_thinker(target: _Thinker) -> bool:
    return _ALWAYS.search(target.model) is not None or target.reasons()


def _declared(sent: Mapping[str, Any]) -> int | bool | None:
    """Returns the thoughts that a request's fields ask for.

    0 for no thoughts, a budget in tokens, True for some; else None.
    """
    template, thinking, reasoning = (
        held if isinstance(held := sent.get(name), Mapping) else {}
        for name in ("chat_template_kwargs", "thinking", "reasoning")
    )
    effort = _effort(sent)
    if effort == "none" or thinking.get("type") == "disabled" or reasoning.get("enabled") is False:
        return 0
    if any(template.get(name) is False for name in _SWITCHES):
        return 0
    for budget in (thinking.get("budget_tokens"), reasoning.get("max_tokens")):
        if type(budget) is int and budget > 0:
            return budget
    switched = any(template.get(name) is True for name in _SWITCHES)
    return True if effort or switched or thinking.get("type") or reasoning.get("enabled") else None


def _effort(sent: Mapping[str, Any]) -> str:
    """Returns the effort in the fields of a request; "" for none."""
    held = [sent.get("reasoning_effort")]
    for name, inner in (("reasoning", "effort"), ("chat_template_kwargs", "reasoning_effort")):
        table = sent.get(name)
        held.append(table.get(inner) if isinstance(table, Mapping) else None)
    return next((effort for effort in held if isinstance(effort, str) and effort), "")


def _known(target: _Thinker, sent: Mapping[str, Any]) -> int:
    """Returns the number by effort, else that of an unknown model."""
    if effort := _effort(sent):
        return THINKING_TOKENS_BY_EFFORT.get(effort, DEFAULT_THINKING_TOKENS)
    is_asked = _declared(sent) is not None or target.options.thinking_tokens == AUTO
    return 0 if _WHEN_ASKED.search(target.model) and not is_asked else DEFAULT_THINKING_TOKENS


def rooms_of(targets: Mapping[str, object]) -> dict[str, int]:
    """Returns the tokens for thoughts of each of `targets` that has any."""
    return {name: thinking for name, target in targets.items() if (thinking := room_of(target))}


def check_rooms(targets: Iterable[Any]) -> None:
    """Raises UsageError if tokens for thoughts take the whole known context of one of `targets`."""
    for target in targets:
        thinking, holds = room_of(target), getattr(target, "whole_context", 0)
        if 0 < holds <= thinking:
            raise UsageError(
                f"thinking_tokens = {thinking} leaves nothing for prompts and answers in the context of "
                f"{target.name}, which holds {holds} tokens; lower it, or give the model a longer context."
            )


def thinking_note(targets: Mapping[str, Any]) -> str:
    """Returns sentences on tokens for thoughts of `targets` and on their unsupported options; "" for none."""
    lines = []
    for name, target in targets.items():
        if thinking := room_of(target):
            lines.append(
                f"{name} ({target.name}) has room for {thinking:,} tokens of thoughts in every call."
            )
        if refused := getattr(target, "refused_by_thinking", ()):
            lines.append(f"{name} ({target.name}) thinks and takes no {' and no '.join(refused)}.")
    return " ".join(lines)
