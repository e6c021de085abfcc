"""The final answer of ReAct and Self-Ask where a step gives it, in a field that may hold any text."""

from __future__ import annotations

from ragc.signatures.answers import FORMATS, option_of

_SHORT = FORMATS["short"].tokens


def settled(text: str, answer_format: str) -> str:
    """`text` as an answer in `answer_format`; nothing when it is none.

    A format with options takes one of them, whatever its case and the marks around it, as it is written.
    """
    options = FORMATS[answer_format].options
    if not options:
        return text.strip()
    return option_of(text, options)


def text_tokens(answer_format: str) -> int:
    """What a text takes that is a query or question as well as an answer in `answer_format`."""
    return max(_SHORT, FORMATS[answer_format].tokens)
