"""`pybuiltins`: questions that the name of a Python built-in answers, easy enough for very small models.

The corpus are the docstrings of the running interpreter's built-in functions, types and exceptions and of the
methods of str, list, dict and set: one short passage each. Nothing is downloaded or copied. The questions are
ours, in `pybuiltins/questions.jsonl`. Docstrings vary slightly between versions; the names do not.
"""

from __future__ import annotations

import builtins
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from platform import python_version
from types import BuiltinFunctionType

from ragc.errors import DataError
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
        if isinstance(value, BuiltinFunctionType) and not name.startswith("_"):
            yield name, value.__doc__ or "", True
        elif isinstance(value, type) and value.__name__ == name:  # EnvironmentError is OSError
            yield name, value.__doc__ or "", False
    for kind in _METHODS_OF:
        for name, value in vars(kind).items():
            if callable(value) and not name.startswith("_"):
                yield f"{kind.__name__}.{name}", value.__doc__ or "", True
            elif isinstance(value, classmethod | staticmethod) and not name.startswith("_"):
                yield f"{kind.__name__}.{name}", getattr(kind, name).__doc__ or "", True


def _beginning(docstring: str) -> str:
    """Returns the first paragraphs, as one line, until `ENOUGH_WORDS` words are reached."""
    words: list[str] = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        new = paragraph.split()
        if words and len(words) + len(new) > ENOUGH_WORDS:
            break
        words += new
    return " ".join(words[:MAX_WORDS])


@cache
def questions() -> tuple[Question, ...]:
    """Returns all questions, in file order; the gold passage is that of the built-in named in the answer.

    Answers are the name as in the passage, the name with parentheses, and both without the type. Raises
    `DataError` with every name that this Python lacks.
    """
    titles = {passage.id: passage.title for passage in passages()}
    result: list[Question] = []
    problems: list[str] = []
    for number, line in enumerate(_QUESTIONS.read_text(encoding="utf-8").splitlines(), start=1):
        row = json.loads(line)
        name = row["name"]
        if name not in titles:
            problems.append(f"line {number}: {row['id']}: Python {python_version()} has no {name!r}")
            continue
        short = name.rpartition(".")[2]
        called = (f"{name}()", f"{short}()") if titles[name].endswith("()") else ()
        answers = tuple(dict.fromkeys((name, short, *called)))
        result.append(Question(row["id"], row["question"], answers, row["split"], (name,)))
    if problems:
        raise DataError(str(_QUESTIONS), problems)
    return tuple(result)
