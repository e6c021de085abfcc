"""`pybuiltins`: questions that the name of a Python built-in answers, easy enough for very small models.

The corpus are the docstrings of the running interpreter's built-in functions, types and exceptions and of the
methods of str, list, dict and set: one short passage each. Nothing is downloaded or copied. The questions are
ours, in `pybuiltins/questions.jsonl`. Docstrings vary slightly between versions; the names do not.
"""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType

from ragc.corpora.files.records import read_questions
from ragc.records import Passage, Question

ENOUGH_WORDS, MAX_WORDS = 45, 60

_QUESTIONS = Path(__file__).parent / "pybuiltins" / "questions.jsonl"
_METHODS_OF = (str, list, dict, set)


@cache
def passages() -> tuple[Passage, ...]:
    """Returns the corpus, by name: the beginning of each docstring, at most `MAX_WORDS` words, after the
    name.

    The title of a function or method has parentheses.
    """
    return tuple(
        Passage(name, f"{name}()" if called else name, f"{name}: {_beginning(text)}")
        for name, text, called in sorted(_docstrings())
    )


def _docstrings() -> Iterator[tuple[str, str, bool]]:
    """Yields name, docstring, and whether it is a function or method."""
    for name, value in vars(builtins).items():
        is_function = isinstance(value, BuiltinFunctionType) and not name.startswith("_")
        if is_function or (isinstance(value, type) and value.__name__ == name):  # EnvironmentError is OSError
            yield name, value.__doc__ or "", is_function
    for kind in _METHODS_OF:
        for name, value in vars(kind).items():
            if not name.startswith("_"):
                method = getattr(kind, name) if isinstance(value, classmethod) else value
                yield f"{kind.__name__}.{name}", method.__doc__ or "", True


def _beginning(docstring: str) -> str:
    """Returns the first paragraphs, as one line, until `ENOUGH_WORDS` words are reached."""
    first, *others = (paragraph.split() for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(docstring)))
    for words in others:
        if len(first) + len(words) > ENOUGH_WORDS:
            break
        first += words
    return " ".join(first[:MAX_WORDS])


@cache
def questions() -> tuple[Question, ...]:
    """Returns all questions, in file order; the gold passage is that of the built-in named in the answer.

    Answers are the name as in the passage, the name with parentheses, and both without the type. Raises
    DataError with every name that this Python lacks.
    """
    return read_questions(_QUESTIONS, corpus_ids={passage.id for passage in passages()}).questions
