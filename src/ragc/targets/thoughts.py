"""Separates the thoughts of a reasoning model from its reply, for every kind of target.

    reply as sent ─► fields such as `reasoning_content` ─┐
                  ─► tags at the start of the text ──────┴► `thoughts`; the rest is the reply

Only the start of a text is examined. Thoughts are in tags there, or before a closing tag whose opening tag
the chat template wrote into the prompt. A later tag belongs to the answer. Thoughts that were cut have no
closing tag, and leave an empty reply. The time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from ragc.targets.base import ChatRequest, Reply, TokenLogprob

MAX_THOUGHT_CHARS = 20_000
"""Characters of a reply's thoughts that are kept: the first and the last half. All are counted."""

_MAX_NESTED = 8
_MAX_ENDS = 1000
_STRING_CHARS = 10_000  # characters before a tag in which the object is looked for that holds it

_NAMES = "think|thinking|thoughts?|reasoning"
_OPENING = re.compile(
    rf"\s*(?:<(?P<name>{_NAMES})>|(?P<block>\[THINK\]|◁think▷|<\|channel\|>analysis<\|message\|>))",
    re.IGNORECASE,
)
_BLOCK_ENDS = {"[think]": "[/THINK]", "◁think▷": "◁/think▷", "<|channel|>analysis<|message|>": "<|end|>"}
_FINAL = re.compile(r"\s*(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>")
_FINAL_END = re.compile(r"<\|(?:return|end)\|>\s*\Z")
_ANY_END = re.compile(r"</think(?:ing)?>|\[/THINK\]|◁/think▷", re.IGNORECASE)
_ANY_START = re.compile(r"<think(?:ing)?>|\[THINK\]|◁think▷", re.IGNORECASE)
_ANSWER_FRAME = re.compile(r"\s*(?:\{|\[\s*[{\[\"]|```|<\w+>|\[\[ ## )")
"""How a reply begins in any layout: JSON, fenced or not, tags or markers."""
_BEFORE_QUOTE = frozenset({"", *" \t\r\n([{:=,>-"})
_CLOSING_QUOTE = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»"}


def take_off(reply: Reply, request: ChatRequest, count: Callable[[str], int]) -> Reply:
    """Separates the thoughts of `reply` to `request`, which become its `thoughts`.

    `reply.thoughts` may hold thoughts that the server reported apart from the text, and `usage.thinking`
    their reported tokens; without a report `count` counts them. Thinking tokens are at most those of the
    whole reply. Log-probabilities are kept for the tokens of the answer alone. A reply without thoughts is
    returned as it is.
    """
    tagged, answer = separate(
        reply.text, lambda name: _asks_for(request, name), is_separated=bool(reply.thoughts)
    )
    if not (tagged or reply.thoughts or answer != reply.text):
        return reply
    answer = answer.lstrip()
    thoughts = "\n\n".join(part for part in (reply.thoughts.strip(), tagged) if part)
    usage = reply.usage
    if not usage.thinking:
        usage = replace(usage, thinking=min(count(thoughts), usage.completion) if thoughts else 0)
    return replace(
        reply,
        text=answer,
        thoughts=shorten_thoughts(thoughts),
        usage=usage,
        logprobs=_answer_tokens(reply.logprobs, answer),
    )


def set_aside_cut(reply: Reply, count: Callable[[str], int]) -> Reply:
    """Returns `reply` of a model that thinks first, with its text as thoughts if they were cut short.

    Thoughts without an opening tag that the token limit cut look like any text. Only the beginning
    distinguishes them from an answer: an answer begins as the layouts ask for.
    """
    is_cut = reply.finish == "length" and not reply.thoughts and bool(reply.text.strip())
    if not is_cut or _ANSWER_FRAME.match(reply.text):
        return reply
    usage = replace(reply.usage, thinking=min(count(reply.text), reply.usage.completion))
    return replace(reply, text="", thoughts=shorten_thoughts(reply.text.strip()), usage=usage, logprobs=())


def shorten_thoughts(thoughts: str) -> str:
    """Returns `thoughts` with the middle left out beyond `MAX_THOUGHT_CHARS` characters."""
    left_out = len(thoughts) - MAX_THOUGHT_CHARS
    if left_out <= 0:
        return thoughts
    half = MAX_THOUGHT_CHARS // 2
    return f"{thoughts[:half]}\n[… {left_out:,} characters left out …]\n{thoughts[-half:]}"


def _no_output(name: str) -> bool:
    return False


def separate(
    text: str, is_output: Callable[[str], bool] = _no_output, *, is_separated: bool = False
) -> tuple[str, str]:
    """Splits `text` into the thoughts at its start, without tags, and the rest; "" and `text` without any.

    `is_output` says whether the prompt asks for an output in a tag of that name, which holds no thoughts.
    `is_separated` says that the server reported thoughts apart from the text, so that a closing tag without
    an opening one belongs to the answer.
    """
    thoughts: list[str] = []
    at = 0
    while opened := _OPENING.match(text, at):
        name = opened["name"]
        if name and is_output(name):
            break
        # The pattern takes \u0130 and \u0131, which Turkish writes, for an i; in lower case they are none.
        ends = _end_of(f"</{name}>" if name else _BLOCK_ENDS.get(opened["block"].lower(), "[/THINK]"))
        closed = next((tag for tag in ends.finditer(text, opened.end()) if not _is_quoted(text, tag)), None)
        if closed is None:
            return _joined([*thoughts, text[opened.end() :]]), ""
        thoughts.append(text[opened.end() : closed.start()])
        at = closed.end()
        inner = _ANY_START.finditer(text, opened.end(), closed.start()) if name else iter(())
        for _ in islice((tag for tag in inner if not _is_quoted(text, tag)), _MAX_NESTED):
            # tags inside tags: the outer ones end later
            outer = _untagged_end(text, at)
            if outer is None:
                break
            thoughts.append(text[at : outer.start()])
            at = outer.end()
        if not name and (final := _FINAL.match(text, at)):
            return _joined(thoughts), _FINAL_END.sub("", text[final.end() :]).lstrip()
    if not at and not is_separated and (closed := _untagged_end(text, 0)):
        return text[: closed.start()].strip(), text[closed.end() :].lstrip()
    return _joined(thoughts), text[at:].lstrip() if at else text


@lru_cache(maxsize=64)
def _end_of(tag: str) -> re.Pattern[str]:
    return re.compile(re.escape(tag), re.IGNORECASE)


def _joined(thoughts: Sequence[str]) -> str:
    return "\n\n".join(filter(None, (part.strip() for part in thoughts)))


def _untagged_end(text: str, at: int) -> re.Match[str] | None:
    """Returns the closing tag of thoughts whose opening tag is not in `text`, or None.

    A text that begins like a reply of any layout is an answer. So is a text with an opening tag before the
    closing one. A closing tag in quotes or within a sentence is only mentioned.
    """
    if _ANSWER_FRAME.match(text, at):
        return None
    ends = islice(_ANY_END.finditer(text, at), _MAX_ENDS)
    ended = next((tag for tag in ends if not any(is_spoken(text, tag) for is_spoken in _SPOKEN_OF)), None)
    if ended is None:
        return None
    opened = (tag for tag in _ANY_START.finditer(text, at, ended.start()) if not _is_quoted(text, tag))
    return ended if next(opened, None) is None else None


def _is_quoted(text: str, tag: re.Match[str]) -> bool:
    """Returns whether `tag` is in quotes, of which the first is an opening quote, not after a word."""
    before, after = text[max(0, tag.start() - 1) : tag.start()], text[tag.end() : tag.end() + 1]
    if not before or _CLOSING_QUOTE.get(before) != after:
        return False
    return before != after or text[max(0, tag.start() - 2) : tag.start() - 1] in _BEFORE_QUOTE


def _is_word(text: str, tag: re.Match[str]) -> bool:
    """Returns whether `tag` is a word of a sentence: blanks around it, and text on both sides in its line."""
    before = text[max(0, tag.start() - 2) : tag.start()]
    after = text[tag.end() : tag.end() + 2]
    return len(before) == len(after) == 2 and (
        before[1] in " \t" and after[0] in " \t" and not (before[0].isspace() or after[1].isspace())
    )


def _is_in_json(text: str, tag: re.Match[str]) -> bool:
    """Returns whether `tag` is inside a string of a JSON object."""
    opened = text.rfind("{", max(0, tag.start() - _STRING_CHARS), tag.start())
    before = text[opened : tag.start()] if opened >= 0 else ""
    return "}" not in before and before.replace('\\"', "").count('"') % 2 == 1


_SPOKEN_OF = (_is_quoted, _is_word, _is_in_json)


def _asks_for(request: ChatRequest, name: str) -> bool:
    """Returns whether a prompt asks for an output in tags of that `name`, as the layout `xml` does."""
    tag = f"{{{name}}}" if name.lower() == "think" else f"<{name}>"
    return any(tag in message.content for message in request.messages)


def _answer_tokens(tokens: Sequence[TokenLogprob], answer: str) -> tuple[TokenLogprob, ...]:
    """Returns the tokens of `answer`, the end of the text of all `tokens`; the first one may be cut."""
    if not answer:
        return ()
    spelled = "".join(token.token for token in tokens)
    start = spelled.rfind(answer)
    if start < 0:  # tokens that share the bytes of a character spell it otherwise
        ends = list(_ANY_END.finditer(spelled))
        start = ends[-1].end() if ends else max(0, len(spelled) - len(answer))
    answer_tokens, at = [], 0
    for token in tokens:
        following = at + len(token.token)
        if following > start:
            answer_tokens.append(TokenLogprob(token.token[max(0, start - at) :], token.logprob))
        at = following
    return tuple(answer_tokens)


_LITERALS = ("[THINK]", "◁think▷", "<|channel|>analysis<|message|>", "[[ ## ", "```")
_OPEN_TAG = re.compile(r"<\w{0,60}\Z")
_SOME_END = re.compile(rf"</(?:{_NAMES})>|\[/THINK\]|◁/think▷|<\|end\|>", re.IGNORECASE)
_MAX_END_CHARS = 16
_MAX_LOOKS = 50


class AnswerStream:
    """The answer in the parts of a reply as they arrive, without thoughts.

    A text that does not begin like a reply of any layout may be thoughts without an opening tag. It is held
    back until a closing tag comes, or the reply is complete. `is_output` is that of `separate`. The time is
    linear in the length.
    """

    def __init__(self, is_output: Callable[[str], bool] = _no_output) -> None:
        self._is_output = is_output
        self._parts: list[str] = []
        self._tail, self._looks = "", 0
        self._has_begun = self._is_held = self._may_end = False

    @property
    def holds(self) -> bool:
        """Whether parts came and all of them are held back."""
        return bool(self._parts) and not self._has_begun

    def feed(self, part: str) -> str:
        """Returns what `part` adds to the answer; "" while that is not certain."""
        if self._has_begun:
            return part
        if not self._parts and not (part := part.lstrip()):
            return ""
        self._parts.append(part)
        if not self._is_held:
            head = "".join(self._parts)
            if _is_unfinished(head):
                return ""
            opened = _OPENING.match(head)
            if _ANSWER_FRAME.match(head) and not (opened and not self._is_output(opened["name"] or "")):
                return self._begin(head)
            self._is_held = True
        self._may_end = self._may_end or bool(_SOME_END.search(self._tail + part))
        self._tail = (self._tail + part)[-_MAX_END_CHARS:]
        if not self._may_end or self._looks >= _MAX_LOOKS:
            return ""
        self._looks += 1
        whole = "".join(self._parts)
        thoughts, answer = separate(whole, self._is_output)
        is_taken_off = answer != whole
        if not is_taken_off and _SOME_END.search(part) is None:
            self._may_end = False  # that tag was only spoken of
        begins = is_taken_off and len(answer) > 1 and not _is_unfinished(answer)
        if begins and _ANY_START.search(thoughts):  # an outer tag may end later
            begins = _ANSWER_FRAME.match(answer) is not None
        return self._begin(answer) if begins else ""

    def _begin(self, answer: str) -> str:
        self._has_begun = True
        self._parts.clear()
        return answer


def _is_unfinished(head: str) -> bool:
    """Returns whether `head` may still become an opening tag of thoughts, or the beginning of a reply."""
    head = head.lstrip().upper()
    return bool(_OPEN_TAG.match(head)) or any(
        literal.upper().startswith(head) and literal.upper() != head for literal in _LITERALS
    )
