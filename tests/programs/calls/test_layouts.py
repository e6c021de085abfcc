"""The minimal layout tells a model the shape of what it should give in as few words as will do."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import pydantic
import pytest

from ragc.programs.calls.layouts import shape


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Part(pydantic.BaseModel):
    number: int = pydantic.Field(ge=1, le=8, description="of the part")
    words: str


class Whole(pydantic.BaseModel):
    parts: list[Part] = pydantic.Field(max_length=3)
    sure: bool


@pytest.mark.parametrize(
    ("annotation", "description"),
    [
        (int, "integer"),
        (bool, "true | false"),
        (Literal["YES", "NO"], '"YES" | "NO"'),
        (Literal["only"], '"only"'),
        (Colour, '"red" | "blue"'),
        (list[str], "[string]"),
        (str | None, "string | null"),
        (list[Part], '[{"number": integer 1 to 8 (of the part), "words": string}]'),
        (
            Whole,
            (
                '{"parts": [{"number": integer 1 to 8 (of the part), "words": string}], at most 3'
                ', "sure": true | false}'
            ),
        ),
        (Any, "any JSON"),
    ],
)
def test_a_shape_is_said_in_a_few_words(annotation: Any, description: str) -> None:
    assert shape(annotation) == description
