"""Validation of user input with pydantic: field types, table models, and errors as sentences.

A `Model` is a table. Its fields are annotated with types such as `Whole` or `Text`. `validate` reports all
problems at once; pydantic's own messages are never shown.
"""

from __future__ import annotations

from ragc.core.validation.fields import (
    Checked,
    Choice,
    JsonTable,
    Names,
    Number,
    Switch,
    Tables,
    Text,
    Whole,
    sentence,
    wrong,
)
from ragc.core.validation.models import (
    Key,
    Kinds,
    Location,
    Model,
    Options,
    Problem,
    dotted,
    shown,
    validate,
)

__all__ = [
    "Checked",
    "Choice",
    "JsonTable",
    "Key",
    "Kinds",
    "Location",
    "Model",
    "Names",
    "Number",
    "Options",
    "Problem",
    "Switch",
    "Tables",
    "Text",
    "Whole",
    "dotted",
    "sentence",
    "shown",
    "validate",
    "wrong",
]
