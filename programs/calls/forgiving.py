"""Outputs that a reply may get wrong twice without losing the others.

An output marked `unread=value` (`ragc.signatures.wording.output_field`) is requested again like any other. If
the second reply lacks it too, it becomes that value, and the other outputs are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

import dspy
from pydantic import ValidationError, WrapValidator


@lru_cache(maxsize=512)
def forgiving(signature: Any) -> Any:
    """Returns `signature` whose marked outputs default to their mark if they are missing or do not fit."""
    forgiven = signature
    for position, (name, info) in enumerate(signature.output_fields.items()):
        extra = info.json_schema_extra or {}
        if "unread" in extra:
            kind: Any = Annotated[(info.annotation, *info.metadata, WrapValidator(_read_or(extra["unread"])))]
            field = dspy.OutputField(desc=extra.get("desc"), default=extra["unread"])
            forgiven = forgiven.delete(name).insert(position, name, field, kind)
    return forgiven


def _read_or(unread: Any) -> Callable[[Any, Callable[[Any], Any]], Any]:
    def read_or_unread(value: Any, read: Callable[[Any], Any]) -> Any:
        try:
            return read(value)
        except ValidationError:
            return unread

    return read_or_unread
