"""Detects replies that only repeat the prompt: an echo, or a point of a scale in the prompt's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ragc.programs.calls.reading.meaning import fold
from ragc.signatures.wording import output_texts


@lru_cache(maxsize=512)
def descriptions(signature: Any) -> Mapping[str, frozenset[str]]:
    """Returns the descriptions of each text output in prompts, in both wordings, without blanks and marks."""
    return {name: frozenset(map(fold, texts)) for name, texts in output_texts(signature).items()}


_SCALE = re.compile(r"(-?\d+)\s+(?!to\b|\()([^,;:\d]+)")


def on_scale(signature: Any, text: str) -> dict[str, Any] | None:
    """Returns the points of the only output if `text` is the prompt's description of them on a scale."""
    if len(signature.output_fields) != 1 or len(text) > 200:
        return None
    (name,) = signature.output_fields
    said_of = {
        fold(about): int(points)
        for one in output_texts(signature)[name]
        for points, about in _SCALE.findall(one)
    }
    return {name: said_of[fold(text)]} if fold(text) in said_of else None
