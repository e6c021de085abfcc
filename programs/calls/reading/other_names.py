"""Other names of outputs: keys, tags and labels that mean an output, or the contrary of it.

This module is part of exported Python files too: it needs nothing but the standard library of Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragc.programs.calls.reading.meaning import FLAGS, NO_MEANING, bare, choose, fold, is_text, word_set
from ragc.programs.calls.reading.verdicts import verdict

OTHERS = word_set("""
    original old previous initial first intermediate wrong given user current possible candidate
    tentative alternative other example rejected incorrect her his their this that no not an a expected
    gold reference partial
    """)
"""Words before the name of an output that say that another one is meant."""
_TEXT_KEYS = word_set("text value content answer response result output claim sentence statement name title")
_VERDICT_KEYS = word_set("""
    value verdict label choice score points rating percent decision result answer judgement judgment
    conclusion output response grade assessment status class category classification prediction option
    """)


_HOLDS = {
    **dict.fromkeys(("right", "correct", "true", "holds", "likely", "certain", "sure"), True),
    **dict.fromkeys(("wrong", "incorrect", "false", "unlikely", "uncertain", "unsure"), False),
}


def words_of(key: str) -> list[str]:
    """The words of a key such as "final_answer" or "needSearch"."""
    return re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).casefold())


def names_text(name: str, key: str) -> bool:
    """Whether `key` ends with the last word of the output `name`, and does not say that it is another."""
    own, words = words_of(name), words_of(key)
    return bool(own and words) and words[-1] == own[-1] and not OTHERS & set(words[:-1])


def text_under(name: str, fields: Mapping[str, Any]) -> str:
    """The only key of `fields` under which a text stands that `name` may be; "" where there is none."""
    texts = [key for key, held in fields.items() if isinstance(held, str) and held.strip()]
    same = [key for key in texts if names_text(name, key)]
    alone = len(texts) == 1 and not any(isinstance(held, dict) for held in fields.values())
    meant = same or [key for key in texts if alone and fold(key) in _TEXT_KEYS]
    return meant[0] if len(meant) == 1 else ""


def flag_under(name: str, options: Sequence[Any], key: str, value: Any) -> Any:
    """What `value` under `key` says of the output `name`, which is true or false, yes or no.

    `NO_MEANING` where `key` says neither that it is the output nor that it is the contrary.
    """
    flag = FLAGS.get(bare(value)) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        return value if fold(key) in _VERDICT_KEYS or names_text(name, key) else NO_MEANING
    words = words_of(key)
    if fold(key) in _VERDICT_KEYS or names_text(name, key) or fold(name) in map(fold, words):
        meant = flag != bool({"not", "non", "no", "un"} & set(words))
    elif words[-1] in _HOLDS:
        meant = flag is _HOLDS[words[-1]]
    else:
        said = verdict(name, (True, False), " ".join(words))
        if said is NO_MEANING:
            return NO_MEANING
        meant = flag is said
    return choose(meant, options) if options and not isinstance(options[0], bool) else meant


def marked_option(options: Sequence[Any], value: Any) -> Any:
    """The only one of `options` that a map of options to truth values marks as true."""
    if not isinstance(value, dict) or len(value) < 2 or not all(isinstance(one, bool) for one in value.values()):
        return NO_MEANING
    chosen = {key: choose(key, options) for key in value}
    if NO_MEANING in chosen.values() or sum(value.values()) != 1:
        return NO_MEANING
    return next(chosen[key] for key, holds in value.items() if holds)


def is_two_valued(kind: Mapping[str, Any]) -> bool:
    """Whether `kind` is a truth value, or yes or no."""
    options = kind.get("enum", ())
    return kind.get("type") == "boolean" or (
        not is_text(kind) and {FLAGS.get(str(one).casefold()) for one in options} == {True, False}
    )
