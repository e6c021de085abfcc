"""Replies without thoughts, tokens of chat templates and marks of formulas.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_THOUGHTS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reflection>", "</reflection>"),
    ("<scratchpad>", "</scratchpad>"),
    ("[think]", "[/think]"),
    ("[thinking]", "[/thinking]"),
    ("<|channel|>analysis", "<|channel|>final<|message|>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
)
_BARE_ENDS = ("</think>", "</thinking>", "[/think]", "\u25c1/think\u25b7")
_TOKENS = re.compile(
    r"(?:<\|[a-z_]{2,30}\|>|</?s>|<(?:end|start)_of_turn>|<eos>|<bos>|\[/?INST\]|"
    r"[*_`]{0,3}\[{0,2} ?#{1,3} ?completed ?#{1,3} ?\]{0,2}[*_`]{0,3})",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"\A\s*(?:<\|start_header_id\|>assistant<\|end_header_id\|>|<\|im_start\|>assistant\n|assistant\n\s*\n)\s*"
)
_WRAPPED = re.compile(r"\s*<(\w{1,40})>[ \t]*\n([^<]*)\n[ \t]*</\1>\s*")
"""Lines in one tag."""
COMPLETED = "[[ ## completed ## ]]"
_TURN_ENDS = re.compile(r"<\|(?:im_end|eot_id|end|endoftext|return|eom_id)\|>|<end_of_turn>|</s>|<eos>")
_LATEX = re.compile(
    r"\\(?:text|textbf|mathrm|mathbf|mathit|boxed|fbox)\s*\{|\$\$?(?=[^$\n]{1,200}\$)|\\[(\[]"
)
_WRAPPER = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mathit)\s*\{([^{}]*)\}")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{([^{}]*)\}")


def answering_part(text: str, names: Sequence[str]) -> str:
    """`text` without thoughts, tokens of chat templates and marks of formulas.

    `names` are the outputs: a tag of such a name holds no thoughts. Of thoughts that do not end nothing is
    left.
    """
    if _is_framed(text.strip(), names):
        return text
    answer = _ROLE.sub("", _without_thoughts(text, names))
    if "&lt;" in answer and any(f"&lt;{name}&gt;" in answer for name in names):
        answer = answer.replace("&lt;", "<").replace("&gt;", ">")
    end = _TURN_ENDS.search(answer)
    if end and answer[: end.start()].strip():
        answer = answer[: end.start()]
    wrapped = _WRAPPED.fullmatch(answer)
    if wrapped and wrapped[1].lower() not in {name.lower() for name in names}:
        answer = wrapped[2]
    if "completed" in answer or "<" in answer or "[" in answer:
        answer = _without_tokens(answer)
    return _without_formulas(answer) if "\\" in answer or "$" in answer else answer


def _is_framed(text: str, names: Sequence[str]) -> bool:
    """Whether `text` is just the frame that a layout asks for: then all of it is said."""
    if not names or "\\" in text:
        return False
    marked = text.startswith(f"[[ ## {names[0]} ## ]]\n") and text.endswith(f"\n{COMPLETED}")
    return marked or (text.startswith(f"<{names[0]}>") and text.endswith(f"</{names[-1]}>"))


def _without_thoughts(text: str, names: Sequence[str]) -> str:
    start = text.lstrip()
    lower = text.replace("\u0130", "i").lower()  # the one character whose lower case is two
    for opening, closing in _THOUGHTS:
        if start[: len(opening)].lower() != opening or opening.strip("<>[]") in names:
            continue
        at = lower.rfind(closing) if closing.startswith("<|") else lower.find(closing)
        return _without_thoughts(text[at + len(closing) :], names) if at >= 0 else ""
    if not start.startswith(("{", "[[ ##", *(f"<{name}>" for name in names))):
        for closing in _BARE_ENDS:
            at = lower.rfind(closing)
            if at >= 0:
                return text[at + len(closing) :]
    return text


MOST_TOKENS = 20
"""Tokens at the ends of a reply that are taken off."""


def _without_tokens(text: str) -> str:
    """`text` without the tokens that stand at its ends, and the mark of its end on the line of a value."""
    changed = True
    for _ in range(MOST_TOKENS):
        if not changed:
            break
        changed = False
        stripped = text.strip()
        for match in _TOKENS.finditer(stripped):
            before = stripped[: match.start()]
            ends = match.end() == len(stripped)
            if ends and match[0] == COMPLETED and before[-1:] == "\n" and "[[ ##" in before:
                return text
            if ends and before.strip():
                text, changed = stripped[: match.start()], True
            elif match.start() == 0 and match[0] not in ("<s>", "</s>") and "completed" not in match[0]:
                text, changed = stripped[match.end() :], True
                break
    return text


def _without_formulas(text: str) -> str:
    if not _LATEX.search(text) and "\\boxed" not in text:
        return text
    while _WRAPPER.search(text):
        text = _WRAPPER.sub(r"\1", text)
    if _BOXED.search(text):
        text = _BOXED.sub(lambda boxed: f"The answer is: {boxed[1].strip()}", text)
    if re.search(r"\$[^$\n]*[\\_^A-Za-z][^$\n]*\$", text):
        text = re.sub(r"\$\$?([^$\n]{1,200})\$\$?", lambda at: re.sub(r"[_^]\{?(\w+)\}?", r"\1", at[1]), text)
    return re.sub(r"\\[()\[\]]", "", text)
