"""The pool of a study's demonstrations, with their scores, and the demonstration sets drawn from it.

A demonstration belongs to one typed call. A judgement call is one with an output from a closed set of labels.
Its demonstrations are balanced, with as equal numbers of each label as possible, because an unbalanced set
biases the model towards its most frequent label.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from pydantic import TypeAdapter

from ragc.core.digest import canonical
from ragc.recipe.values import BALANCED, BOOTSTRAPPED, FILLED, LABELLED
from ragc.task.baseline import label_field

Demo = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One demonstration of a typed call: its `values` by field name.

    `score` (0..1) is the score of its question; None if the gold answer replaced the model's. `label` is the
    decision of a judgement call, as JSON; "" for other calls.
    """

    values: Demo
    score: float | None = None
    label: str = ""


ByPredictor = Mapping[str, tuple[Demonstration, ...]]


def label_of(signature: Any, demo: Demo) -> str:
    """Returns the label of `demo`, as JSON; "" if the call is no judgement call."""
    field = label_field(signature)
    return canonical(demo[field]) if field and field in demo else ""


def balance_labels(
    demos: Sequence[Demonstration], number: int, size: int | None, seed: int
) -> tuple[Demonstration, ...]:
    """Returns at most `size` of `demos`, taken from the labels in turn, then shuffled.

    The counts of two labels differ by at most one, unless the rarer label runs out. Set `number` 0 takes the
    first of each label; all other sets take them at random. The same arguments give the same order.
    """
    rng = random.Random(f"balanced {seed} {number}")
    by_label: dict[str, list[Demonstration]] = {}
    for demo in demos:
        by_label.setdefault(demo.label, []).append(demo)
    lists = [by_label[label] for label in sorted(by_label)]
    for members in lists if number else ():
        rng.shuffle(members)
    rng.shuffle(lists)
    turns = [demo for turn in zip_longest(*lists) for demo in turn if demo is not None][:size]
    rng.shuffle(turns)
    return tuple(turns)


@dataclass(frozen=True, slots=True)
class DemoPool:
    """Demonstrations by predictor, each list in the order of its train questions.

    In `filled`, bootstrapped demonstrations come first, then `labelled` labelled ones. `scores` are those of
    the questions of the bootstrapped ones. `n_answered` is the number of questions tried and `counters` their
    cost. `labelled_demos` are labelled ones of all train questions, if the study asks for that kind.
    `by_label` are more bootstrapped ones of judgement calls; a question may yield several.
    """

    filled: ByPredictor
    scores: tuple[float, ...]
    n_answered: int
    labelled: int = 0
    counters: Mapping[str, float] = field(default_factory=dict)
    labelled_demos: ByPredictor = field(default_factory=dict)
    by_label: ByPredictor = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only; `of` is the inverse."""
        value: dict[str, Any] = _POOL.dump_python(self, mode="json")
        return value

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> DemoPool:
        """Returns the inverse of `to_json`."""
        return _POOL.validate_python(value)

    @property
    def demos(self) -> dict[str, tuple[Demo, ...]]:
        """The values of the demonstrations in `filled`, by predictor."""
        return {name: tuple(demo.values for demo in demos) for name, demos in self.filled.items()}

    @property
    def size(self) -> int:
        """The greatest number of demonstrations of any predictor."""
        return max((len(demos) for demos in self.filled.values()), default=0)

    def sets(self, count: int, size: int, seed: int) -> list[dict[str, list[Demo]]]:
        """Returns `count` orderings of the pool, each cut to `size` a predictor; the first is unshuffled.

        The same arguments give the same sets. Lists of equal length are shuffled alike, so demonstrations of
        one question stay together if each predictor has one for it.
        """
        return [
            {name: [demo.values for demo in self.select(name, number, size, seed)] for name in self.filled}
            for number in range(count)
        ]

    def select(
        self,
        predictor: str,
        number: int,
        size: int | None,
        seed: int,
        kind: str = FILLED,
    ) -> tuple[Demonstration, ...]:
        """Returns at most `size` demonstrations of `kind` for `predictor`, in the order of set `number`.

        The kinds cross-domain and nearest use `filled`. So does a predictor without labels to balance.
        """
        demos = self._of_kind(kind, predictor)
        if kind == BALANCED and any(demo.label for demo in demos):
            return balance_labels(demos, number, size, seed)
        return tuple(_shuffle(demos, number, seed)[:size])

    def _of_kind(self, kind: str, predictor: str) -> Sequence[Demonstration]:
        filled = self.filled.get(predictor, ())
        if kind == BOOTSTRAPPED:
            return [demo for demo in filled if demo.score is not None]
        if kind == LABELLED:
            return self.labelled_demos.get(predictor, ())
        if kind == BALANCED:
            known = [demo.values for demo in filled]
            return [*filled, *(demo for demo in self.by_label.get(predictor, ()) if demo.values not in known)]
        return filled


_POOL = TypeAdapter(DemoPool)


def _shuffle(demos: Sequence[Demonstration], number: int, seed: int) -> Sequence[Demonstration]:
    """Returns `demos` in the order of set `number`. Set 0 is unshuffled; lists of equal length are shuffled
    alike.
    """
    if not number:
        return demos
    order = list(range(len(demos)))
    random.Random(f"demos {seed} {number}").shuffle(order)
    return [demos[index] for index in order]
