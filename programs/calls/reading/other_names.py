"""Other names of outputs: keys, tags and labels that mean an output, or the contrary of it.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragc.programs.calls.reading.meaning import (
    FLAGS,
    NO_MEANING,
    bare,
    choose,
    fold,
    is_form_of,
    is_text,
    word_set,
)
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


ALIASES: Mapping[str, frozenset[str]] = {
    "answer": word_set("""
        a réponse reponse antwort respuesta risposta resposta ответ 答案 回答 答え 答 정답 답 답변
        odpowiedź
        antwoord yanıt cevap उत्तर ans response
        """),
    "query": frozenset(("search", "queries", "keywords", "words", "terms")),
    "action": frozenset(("tool", "choice", "decision", "step", "move")),
    "improvement": frozenset(("improve", "suggestion", "suggestions")),
    "score": frozenset(("rating", "grade", "points", "score")),
    "grade": frozenset(("rating", "score", "points", "verdict", "relevance")),
    "utility": frozenset(("rating", "score", "grade", "usefulness")),
    "points": frozenset(("rating", "score", "grade")),
    "order": frozenset(("ranking", "rank", "ranked")),
    "ids": frozenset(("documents", "selected", "passages", "numbers", "id", "selection")),
    "reasoning": frozenset(
        ("reason", "thought", "thoughts", "rationale", "explanation", "thinking", "analysis", "why")
    ),
    "reason": frozenset(("reasoning", "thought", "rationale", "explanation", "analysis", "why")),
    "thought": frozenset(("reasoning", "reason", "thoughts", "thinking", "analysis")),
    "explanation": frozenset(("reasoning", "reason", "rationale", "justification", "analysis", "why")),
    "analysis": frozenset(("reasoning", "reason", "rationale", "explanation", "thought")),
    "input": frozenset(("query", "argument")),
}
"""Other words for the last word of an output's name, as labels."""
VERDICTS = word_set("verdict conclusion judgement judgment decision overall assessment")
"""Labels of a conclusion, whatever the output is called."""
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
    if not own or not words or OTHERS & set(words[:-1]):
        return False
    return words[-1] == own[-1] or words[-1] in ALIASES.get(own[-1], ())


def is_form_of_name(words: Sequence[str], name: str) -> bool:
    """Whether `words` are those of `name` in another order or form: "search needed" of `need_search`."""
    own = words_of(name)
    return (
        len(own) > 1
        and len(words) == len(own)
        and all(any(is_form_of(w, o) or w == o for w in words) for o in own)
    )


def text_under(name: str, fields: Mapping[str, Any]) -> str:
    """The only key of `fields` under which a text stands that `name` may be; "" where there is none."""
    texts = [key for key, held in fields.items() if isinstance(held, str) and held.strip()]
    same = [key for key in texts if names_text(name, key)]
    about = any(words_of(key)[-1:] in (["passage"], ["document"], ["doc"], ["rank"]) for key in fields)
    alone = not about and len(texts) == 1 and not any(isinstance(held, dict) for held in fields.values())
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
        meaning = verdict(name, (True, False), " ".join(words))
        if meaning is NO_MEANING:
            return NO_MEANING
        meant = flag is meaning
    return choose(meant, options) if options and not isinstance(options[0], bool) else meant


def marked_option(options: Sequence[Any], value: Any) -> Any:
    """The only one of `options` that a map of options marks as true, or gives the highest number."""
    if not isinstance(value, dict) or len(value) < 2:
        return NO_MEANING
    flags = all(isinstance(one, bool) for one in value.values())
    numbers = not any(isinstance(one, bool) or not isinstance(one, (int, float)) for one in value.values())
    chosen = {key: choose(key, options) for key in value}
    if not (flags or numbers) or NO_MEANING in chosen.values():
        return NO_MEANING
    most = [option for key, option in chosen.items() if value[key] == max(value.values())]
    return most[0] if len(most) == 1 and max(value.values()) > 0 else NO_MEANING


def chosen_under(name: str, options: Sequence[Any], fields: Mapping[str, Any]) -> str:
    """The only key of `fields` that is a word for a verdict and holds one of `options`; "" for none."""
    meant = [
        key
        for key, held in fields.items()
        if (fold(key) in _VERDICT_KEYS or names_text(name, key)) and choose(held, options) is not NO_MEANING
    ]
    return meant[0] if len(meant) == 1 else ""


_OTHER_THINGS = word_set("""
    scores ratings candidates options choices query queries question questions search tool action input
    passage passages context keywords sql code analysis summary up plan task
    """)


_LEFT_OUT_WORDS = word_set(
    "rejected irrelevant excluded removed dropped discarded unrelated ignored omitted unused"
)


def is_another(name: str, key: str, *, text: bool) -> bool:
    """Whether `key` says that what stands under it is something else than the output `name`."""
    words = words_of(key)
    if names_text(name, key) or not words:
        return False
    own = words_of(name)[-1:]
    asks = (
        own
        and own[0] in ("query", "question")
        and words[-1] in ("query", "question", "search", "keywords", "queries")
    )
    if OTHERS & set(words[:-1]) or _LEFT_OUT_WORDS & set(words):
        return True
    if text:
        return not asks and words[-1] in _OTHER_THINGS
    return words[-1] in ("scores", "ratings")


def is_verdict_key(name: str, key: str) -> bool:
    """Whether `key` is a word for a verdict, or means the output `name`."""
    return fold(key) in _VERDICT_KEYS or names_text(name, key)


def is_two_valued(kind: Mapping[str, Any]) -> bool:
    """Whether `kind` is a truth value, or yes or no."""
    options = kind.get("enum", ())
    return kind.get("type") == "boolean" or (
        not is_text(kind) and {FLAGS.get(str(one).casefold()) for one in options} == {True, False}
    )
