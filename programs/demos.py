"""Demonstrations as values: frozen lists of plain JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import dspy
from dspy.adapters.utils import serialize_for_json


def plain(demo: Mapping[str, Any] | dspy.Example) -> dict[str, Any]:
    """`demo` as JSON values by field name, without DSPy's own marks."""
    items = demo.toDict() if isinstance(demo, dspy.Example) else dict(demo)
    return {name: serialize_for_json(value) for name, value in items.items() if name != "augmented"}


class FrozenDemos(list[Any]):
    """A list that cannot change, so that what was rendered from it stays true."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("demonstrations are frozen; assign a new list to the predictor's demos instead")

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __deepcopy__(self, memo: object) -> FrozenDemos:
        return self

    def __copy__(self) -> FrozenDemos:
        return self

    def __reduce__(self) -> tuple[type[FrozenDemos], tuple[list[Any]]]:
        return FrozenDemos, (list(self),)
