"""Reasoning of a model: the tokens that it gets, and the one place where it is taken off a reply.

    limit of a call (its answer)  +  reasoning tokens of its target  =  the limit that is sent

The number is the option `thinking_tokens`, else 0 where the options switch reasoning off, else a budget in
the options, else by `reasoning_effort`, else as by medium effort for a model that is known to reason; at most
half of a known context. It is part of a target's identity unless it is 0, and reduces the context left for
prompts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from ragc.errors import UsageError
from ragc.targets.base import ChatRequest, Count, Reply, Target

BY_EFFORT: Mapping[str, int] = {
    "none": 0,
    "minimal": 512,
    "low": 2048,
    "medium": 4096,
    "high": 16384,
    "xhigh": 32768,
}
"""Reasoning tokens by effort; medium where nothing tells how much a model reasons."""

MOST_CHARS = 20_000
"""Characters of a reply's reasoning that are kept, half of its beginning and half of its end."""

_ALWAYS = re.compile(
    r"(?i)gpt-oss|deepseek-?r1|deepseek-reasoner|\bqwq\b|magistral|-thinking\b|(?:^|/)o[134](?:-|$)"
    r"|gpt-5(?!-chat)|minimax-m|kimi-k2-thinking|glm-4\.[5-9]|gemini-(?:2\.5-pro|3)"
)
_WHEN_ASKED = re.compile(r"(?i)claude|deepseek-chat|deepseek-v3|gpt-5-chat")
_NAMES = "think|thinking|thoughts?|reasoning"
_BLOCK = re.compile(
    rf"\s*(?:<(?P<name>{_NAMES})>(?P<tag>.*?)(?:</(?P=name)>|\Z)"
    r"|\[THINK\](?P<mistral>.*?)(?:\[/THINK\]|\Z)"
    r"|◁think▷(?P<kimi>.*?)(?:◁/think▷|\Z)"
    r"|<\|channel\|>analysis<\|message\|>(?P<oss>.*?)(?:<\|end\|>|\Z))",
    re.DOTALL | re.IGNORECASE,
)
_FINAL = re.compile(r"\s*(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>")
_FINAL_END = re.compile(r"<\|(?:return|end)\|>\s*\Z")
_FRAME = re.compile(r"\s*(?:\{|\[\s*[{\[\"]|```|<\w+>|\[\[ ## )")
"""How a reply begins in any layout: JSON, fenced or not, tags or markers."""
_UNOPENED = re.compile(r"(?s)(.*?)(?<![\"'`])(?:</think(?:ing)?>|\[/THINK\]|◁/think▷)(?![\"'`])(?!\s*\w+ \w)")
_END = re.compile(rf"</(?:{_NAMES})>|\[/THINK\]|◁/think▷|<\|end\|>", re.IGNORECASE)
_OPENINGS = ("<think>", "<thinking>", "<thought>", "<thoughts>", "<reasoning>", "[think]", "◁think▷")


RECENT = 32
"""Parts of a stream in which a layout begins, or reasoning ends."""


class Reasons:
    """A part of targets: reasoning tokens on top of every limit on an answer.

    `plain_identity` is the identity without them. `whole_context` is the context in tokens, with those for
    reasoning; 0 if unknown.
    """

    model: str
    options: Any
    whole_context: int
    unknown_context: int = 4096
    _identity: str

    def known_to_reason(self) -> bool:
        """Returns whether a table says that the model can reason."""
        return False

    @cached_property
    def reasoning_tokens(self) -> int:
        """Tokens for reasoning in every request."""
        options, sent = self.options, self.options.sent
        if isinstance(options.thinking_tokens, int):
            return options.thinking_tokens
        tables = [sent, *(sent.get(name) for name in ("chat_template_kwargs", "reasoning", "thinking"))]
        said = {
            name: value for table in tables if isinstance(table, Mapping) for name, value in table.items()
        }
        switches = [said[name] for name in ("enable_thinking", "thinking", "enabled") if name in said]
        if False in switches or said.get("type") == "disabled":
            return 0
        budget = said.get("budget_tokens") or (sent.get("reasoning") or {}).get("max_tokens")
        effort = said.get("reasoning_effort") or said.get("effort") or ""
        always = _ALWAYS.search(self.model) or (self.known_to_reason() and not _WHEN_ASKED.search(self.model))
        if not (budget or effort or options.thinking_tokens or any(switches) or always):
            return 0
        tokens = int(budget or BY_EFFORT.get(effort, BY_EFFORT["medium"]))
        return tokens if budget or not self.whole_context else min(tokens, self.whole_context // 2)

    @property
    def plain_identity(self) -> str:
        """The model, its address, and what is sent with every request."""
        return self._identity

    @property
    def identity(self) -> str:
        """What answers, in the store's keys."""
        tokens = self.reasoning_tokens
        return self.plain_identity + (f"+{tokens}t" if tokens else "")

    @property
    def context_tokens(self) -> int:
        """Tokens of prompt and answer together; a guess while it is unknown."""
        return (
            max(0, self.whole_context - self.reasoning_tokens) if self.whole_context else self.unknown_context
        )


def reasoning_of(target: object) -> int:
    """Returns the tokens for reasoning in every request to `target`; 0 if it does not reason."""
    return int(getattr(target, "reasoning_tokens", 0))


def with_reasoning(target: Target, request: ChatRequest) -> ChatRequest:
    """Returns `request` as it is sent to `target`, its limit raised by the reasoning tokens.

    A request for the log-probabilities of a prompt needs none: its reply is not read.
    """
    tokens = 0 if request.prompt_logprobs else reasoning_of(target)
    if not tokens:
        return request
    sampling = replace(request.sampling, max_tokens=request.sampling.max_tokens + tokens)
    return replace(request, sampling=sampling)


def check_reasoning(targets: Iterable[Any]) -> None:
    """Raises UsageError if reasoning tokens take the whole known context of one of `targets`."""
    for target in targets:
        tokens, holds = reasoning_of(target), getattr(target, "whole_context", 0)
        if 0 < holds <= tokens:
            raise UsageError(
                f"thinking_tokens = {tokens} leaves nothing for prompts and answers in the context of "
                f"{target.name}, which holds {holds} tokens; lower it, or give the model a longer context."
            )


def split(text: str, outputs: str = "", *, apart: bool = False) -> tuple[str, str]:
    """Returns the reasoning at the start of `text`, without its tags, and the answer; the time is linear.

    A later tag belongs to the answer, and so does one that `outputs`, the prompt, asks for. `apart` says that
    the server sent reasoning in a field of its own, so that a closing tag without an opening one is text.
    """
    found, at = list[str](), 0
    while (block := _BLOCK.match(text, at)) and not _asks_for(outputs, block["name"]):
        found.append(next(part for part in block.group("tag", "mistral", "kimi", "oss") if part is not None))
        at = block.end()
    if final := _FINAL.match(text, at):
        return _joined(found), _FINAL_END.sub("", text[final.end() :]).lstrip()
    closed = None if at or apart or _FRAME.match(text) else _UNOPENED.match(text)
    if closed and not any(opening in closed[1].lower() for opening in _OPENINGS):
        return closed[1].strip(), text[closed.end() :].lstrip()
    return _joined(found), text[at:].lstrip() if at else text


def _asks_for(outputs: str, name: str | None) -> bool:
    """Returns whether a prompt asks for an output in tags of `name`, as the layout `xml` does."""
    return bool(name) and (f"{{{name}}}" if str(name).lower() == "think" else f"<{name}>") in outputs


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, (part.strip() for part in parts)))


def _shortened(reasoning: str) -> str:
    if len(reasoning) <= MOST_CHARS:
        return reasoning
    return f"{reasoning[: MOST_CHARS // 2]}\n[…]\n{reasoning[-MOST_CHARS // 2 :]}"


def set_aside_cut(reply: Reply) -> Reply:
    """Returns `reply` of a model that reasons, with its text as reasoning where the limit cut it short.

    Reasoning without an opening tag looks like any text until its end; an answer begins as the layouts ask.
    """
    cut = reply.finish == "length" and not reply.reasoning and reply.text.strip()
    if not cut or _FRAME.match(reply.text):
        return reply
    usage = replace(reply.usage, reasoning=reply.usage.completion)
    return replace(reply, text="", reasoning=_shortened(reply.text.strip()), usage=usage, logprobs=())


def take_off(reply: Reply, request: ChatRequest, count: Count) -> Reply:
    """Returns `reply` to `request` without the reasoning at its start, which stands in `reasoning`.

    `reply.reasoning` may hold what the server sent apart from the text. Its tokens are those reported, else
    counted by `count`, at most those of the reply. Log-probabilities are kept for the answer alone.
    """
    apart, prompt = reply.reasoning, "".join(message.content for message in request.messages)
    tagged, answer = split(reply.text.lstrip() if apart else reply.text, prompt, apart=bool(apart))
    if not (tagged or apart or answer != reply.text):
        return reply
    reasoning, usage = _joined([apart, tagged]), reply.usage
    if reasoning and not usage.reasoning:
        usage = replace(usage, reasoning=min(count(reasoning), usage.completion))
    first, left = len(reply.logprobs), len(answer)
    while first and left > 0:  # the answer is the end of what the tokens spell
        first -= 1
        left -= len(reply.logprobs[first].token)
    kept = reply.logprobs[first:]
    if kept:
        kept = (kept[0]._replace(token=kept[0].token.lstrip()), *kept[1:])
    return replace(reply, text=answer, reasoning=_shortened(reasoning), usage=usage, logprobs=kept)


class AnswerParts:
    """The answer in the parts of a reply as they come: reasoning at its start is held back.

    A text that does not begin like a layout may be reasoning without an opening tag, and is held to the end.
    `outputs` is the prompt, or the tags of outputs.
    """

    def __init__(self, outputs: str = "") -> None:
        self._outputs, self._parts, self._begun = outputs, list[str](), False

    @property
    def holds(self) -> bool:
        """Whether parts came and all of them are held back."""
        return bool(self._parts) and not self._begun

    def feed(self, part: str) -> str:
        """Returns what `part` adds to the answer; "" while that is not certain."""
        if self._begun:
            return part
        if not (self._parts or part.strip()):
            return ""
        self._parts.append(part)
        # Joining at each part would be quadratic: reasoning is read again where its end may have come.
        if len(self._parts) > RECENT and not _END.search("".join(self._parts[-RECENT:])):
            return ""
        text = "".join(self._parts).lstrip()
        answer = split(text, self._outputs)[1]
        # After reasoning, any text is an answer that is not the beginning of a further tag.
        is_answer = answer != text and answer[:1] not in ("", "<", "[", "\u25c1")
        self._begun = is_answer or bool(_FRAME.match(answer))
        return answer if self._begun else ""
