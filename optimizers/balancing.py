"""Demonstrations of judgement calls, as many of each label as there can be.

A judgement call is one with an output that is one of a closed set of labels. What a model mostly answers is
what its demonstrations mostly show; shown alike, no label is more at hand than another.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import Enum
from itertools import zip_longest
from typing import Annotated, Any, Literal, get_args, get_origin

from ragc.fingerprint import canonical
from ragc.optimizers.demonstration import Demo, Demonstration


def label_field(signature: Any) -> str:
    """The first output of `signature` that is a Literal, a bool or an enumeration; "" for none."""
    return next((n for n, info in signature.output_fields.items() if _is_closed(info.annotation)), "")


def label_of(signature: Any, demo: Demo) -> str:
    """The label that `demo` gives, as JSON; "" for a call that is no judgement."""
    field = label_field(signature)
    return canonical(demo[field]) if field and field in demo else ""


def balanced(
    found: Sequence[Demonstration], number: int, size: int | None, seed: int
) -> tuple[Demonstration, ...]:
    """At most `size` of `found`, the labels in turn as long as there are any, then mixed.

    The numbers of two labels differ by one at most, unless there were no more of the rarer one. Set
    `number` 0 takes the first of each label, every other one takes them at random; the same arguments give
    the same order.
    """
    rng = random.Random(f"balanced {seed} {number}")
    by_label: dict[str, list[Demonstration]] = {}
    for one in found:
        by_label.setdefault(one.label, []).append(one)
    lists = [by_label[label] for label in sorted(by_label)]
    for members in lists if number else ():
        rng.shuffle(members)
    rng.shuffle(lists)
    turns = [one for turn in zip_longest(*lists) for one in turn if one is not None][:size]
    rng.shuffle(turns)
    return tuple(turns)


def _is_closed(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _is_closed(get_args(annotation)[0])
    return (
        get_origin(annotation) is Literal
        or annotation is bool
        or (isinstance(annotation, type) and issubclass(annotation, Enum))
    )
