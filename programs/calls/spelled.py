"""Log probabilities of a value in a mended reply: the tokens that spell it, wherever they are.

`ragc.programs.calls.field_logprobs.field_tokens` finds a value in the requested layout. A reply in another
form (bare text, a number, `true` for yes, a list, single quotes, another key) has the value too, with the
same certainty. `value_tokens` searches there if `field_tokens` finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragc.programs.calls.field_logprobs import field_tokens
from ragc.targets.base import TokenLogprob

_BETWEEN = r"(?:\\[nrt\"\\/]|[\W_])+"
"""What may stand between two words of a value: marks, white space and escapes."""

_READ_AS = {"yes": "true", "no": "false"}
"""What a value may have been written as, by what it was read as."""

_BLANKS = str.maketrans({"Ġ": " ", "Ċ": "\n", "▁": " "})  # as vocabularies write white space


def value_tokens(tokens: Sequence[TokenLogprob], field: str, text: str) -> tuple[TokenLogprob, ...]:
    """Returns the tokens that spell `text`, the value of `field`, each cut to its characters in it.

    If the value occurs more than once, the first after the last mention of `field` counts, or else the last.
    Empty when `text` is blank, or does not occur in the reply.
    """
    if exact := field_tokens(tokens, field, text):
        return exact
    spelled = [TokenLogprob(token.token.translate(_BLANKS), token.logprob) for token in tokens]
    raw = "".join(token.token for token in spelled)
    labels = [label.end() for label in re.finditer(rf"\b{re.escape(field)}\b", raw, re.IGNORECASE)]
    for words in _spellings(text):
        places = [match.span() for match in re.finditer(words, raw, re.IGNORECASE)]
        behind = [span for span in places if labels and span[0] >= labels[-1]]
        if places:
            return _between(spelled, *(behind[0] if behind else places[-1]))
    return ()


def _spellings(text: str) -> Iterator[str]:
    """Yields patterns of `text`: its words with any marks between them, then words of the same meaning."""
    words = re.findall(r"[^\W_]+", text)
    if words:
        yield rf"(?<!\w){_BETWEEN.join(map(re.escape, words))}(?!\w)"
    if other := _READ_AS.get(text.strip().casefold()):
        yield rf"\b{other}\b"


def _between(tokens: Sequence[TokenLogprob], start: int, end: int) -> tuple[TokenLogprob, ...]:
    """Returns the tokens that have characters from `start` to `end` of the reply, cut to those."""
    cut: list[TokenLogprob] = []
    at = 0
    for token in tokens:
        part = token.token[max(0, start - at) : max(0, end - at)]
        at += len(token.token)
        if part:
            cut.append(TokenLogprob(part, token.logprob))
    return tuple(cut)
