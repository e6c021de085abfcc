"""Steps as they are written in a line or an object: `search[query]`, "Follow up: ...", `{"tool": ...}`.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ragc.programs.calls.reading.meaning import MARKS, NO_MEANING, choose, fold, word_set

_CALL = (
    r"\W*(?:(?:\d{1,2}[.)]\s*)?(?:action|step|act|next step|next action|tool|tool call|move|kind|"
    r"function)\s*\d*\s*[:\uff1a]\W*)?"
    r"(NAMES)(?:[ _-](?:up )?(?:question|query|action|search|tool))?[*`\"']*\s*\d*\s*"
    r"(?:(?<=\*\*)\s+([^\s\[(:][^\n]*)|\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]|\((.*)\)|"
    r"[:\uff1a][*_`]*\s*(\S[^\n]*))[\s.`*;]*"
)
_AROUND_OPTIONS = (("", "question"), ("", "query"), ("final", ""), ("", ""))
_STEP_NAMES = frozenset(
    ("name", "tool", "toolname", "function", "type", "action", "actionname", "kind", "step")
)
TEXT_NAMES = word_set("""
    input query arguments args parameters params actioninput toolinput question argument searchquery
    text content followup followupquestion answer
    """)


def held_in(value: Any) -> Any:
    """What an object with one field, or a list of one, holds; `value` where it is neither."""
    while isinstance(value, (dict, list)) and len(value) == 1:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value


def call_in(text: str, options: Sequence[str]) -> tuple[str, str] | None:
    """The option and what goes with it in a line such as `search[query]` or "Follow up: query"."""
    line = text.strip()
    if len(line) > 2000 or not options:
        return None
    folded = {fold(option): option for option in options}
    names = "|".join(
        r"[\s_-]*".join(map(re.escape, re.split(r"[\s_-]+", option)))
        for option in sorted(options, key=len, reverse=True)
    )
    called = re.fullmatch(_CALL.replace("NAMES", names), line, re.IGNORECASE | re.DOTALL)
    if called is None:
        return None
    held = next(held for held in called.groups()[1:] if held is not None).strip()
    held = re.sub(r"\A(?:query|q|input|action_input|text|question|answer)\s*[=:]\s*", "", held)
    quoted = len(held) > 1 and held[0] == held[-1] and held[0] in "\"'`" and held[0] not in held[1:-1]
    held = held[1:-1] if quoted else held
    blank = held.strip(MARKS).casefold() in (
        "",
        "query",
        "search query",
        "your query",
        "input",
        "answer",
        "question",
    )
    return None if blank else (folded[fold(called[1])], held.strip())


def call_of(
    options: Sequence[str], fields: Mapping[str, Any], name: str, text: str, known: Collection[str]
) -> tuple[str, str] | None:
    """The option and the text that goes with it, wherever they stand in `fields`."""
    held = fields.get(name)
    more = {key: one for key, one in fields.items() if key not in known}
    if isinstance(held, dict):
        more, held = {**more, **held}, None
    if isinstance(held, str) and (call := call_in(held, options)) and not fields.get(text):
        return call
    option = choose(held, options) if isinstance(held, str) else NO_MEANING
    spelled = {f"{before}{fold(one)}{end}": one for one in options for before, end in _AROUND_OPTIONS}
    keys = [key for key in more if fold(key) in spelled and isinstance(held_in(more[key]), str)]
    if option is NO_MEANING and len(keys) == 1:
        return spelled[fold(keys[0])], str(held_in(more[keys[0]]))
    if option is NO_MEANING:
        named = [
            one for key, one in more.items() if fold(key) in _STEP_NAMES and choose(one, options) in options
        ]
        option = choose(named[0], options) if len(named) == 1 else NO_MEANING
    texts = [held_in(one) for key, one in more.items() if fold(key) in TEXT_NAMES]
    texts = [fields[text]] if fields.get(text) else texts
    if option is NO_MEANING or len(texts) != 1 or not isinstance(texts[0], str) or not texts[0].strip():
        return None
    return option, texts[0]
