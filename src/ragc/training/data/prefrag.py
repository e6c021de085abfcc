"""Preference pairs for PrefRAG's comparison of sources, for direct preference optimization (DPO).

Paper: PrefRAG, section 3.4 and appendix C. A train question is answered by the small model at temperature .9,
without self-reflection and with 2 to 5 passages a search. At every comparison the small model judges nine
times, at each of three temperatures with each of three nucleus masses, and the teacher once. Judgements with
the teacher's status are positive, others negative. The teacher picks the positive one whose analysis is
nearest to its own, a negative one is drawn. The trajectory goes on as the teacher decided, or as the first
judgement where there is no pair. Each question gives one pair at most; of those a mix of both classes is
taken.
Differs: the number of the nearest positive is read as a number, where the authors' code took a text for an
index and so always drew; judgements are sorted by their parsed status, not by words in their text; one that
cannot be read is no candidate (in the code it counts by the words in it), and neither is a number that names
no candidate. Chosen and rejected replies stand in the program's own layout, so that a pair differs in what it
says, not in how it is punctuated. Where data is short the classes keep their mix.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from ragc.core.digest import canonical
from ragc.core.display import quantity
from ragc.errors import NothingAnswered, UsageError
from ragc.metrics.short_answer import normalise
from ragc.programs.prefrag import PrefRagKnobs
from ragc.programs.prefrag.program import PrefRag
from ragc.programs.runtime import Runtime
from ragc.programs.trace import together
from ragc.records import Question
from ragc.signatures.grade import CompareSources
from ragc.signatures.judge import FindClosestStatement
from ragc.targets.base import Sampling
from ragc.task.answering import answer
from ragc.task.base import Task
from ragc.training.data.base import (
    Collector,
    Gathered,
    Item,
    conversation,
    first_of_each,
    reply,
    teacher_call,
)

TEMPERATURES = TOP_PS = (0.1, 0.5, 0.9)
"""The small model judges once at each of the nine combinations."""

PASSAGES = (2, 5)
"""The fewest and the most passages a search finds; drawn for each question."""

_TEACHER = Sampling(temperature=0.1, top_p=0.9, max_tokens=256)


@dataclass(slots=True)
class _Pairs(Gathered):
    """The pairs of a question, and the number of its comparisons so far."""

    compared: int = 0


_current: ContextVar[_Pairs] = ContextVar("ragc_pairs")


class PairCollector(PrefRag):
    """PrefRAG that makes a pair of each comparison."""

    def __init__(self, runtime: Runtime, knobs: PrefRagKnobs, seed: int) -> None:
        super().__init__(runtime, knobs)
        self.seed = seed
        self.label = teacher_call(self.compare, CompareSources, sampling=_TEACHER)
        self.pick = teacher_call(
            self.compare, FindClosestStatement, sampling=replace(_TEACHER, max_tokens=32)
        )

    async def add_something(self, inputs: Mapping[str, Any]) -> bool:
        """Returns the teacher's judgement of the new passages; without a pair, the first judgement."""
        pairs = _current.get()
        pairs.compared += 1
        configs = [{"temperature": warm, "top_p": mass} for warm in TEMPERATURES for mass in TOP_PS]
        samples = (self.compare.try_call(**inputs, config=config) for config in configs)
        label, *judgements = await together(self.label.try_call(**inputs), *samples)
        candidates = [judgement for judgement in judgements if judgement is not None]
        pairs.drops["a sample of the small model could not be read"] += len(judgements) - len(candidates)
        chosen, negative = await self._choose(label, candidates)
        if isinstance(chosen, str):
            pairs.drops[chosen] += 1
            return bool(candidates and candidates[0].status)
        draw = random.Random(f"rejected {self.seed} {pairs.question.id} {pairs.compared}")
        row = {
            "prompt": conversation(self.compare, inputs),
            "chosen": [reply(self.compare, chosen)],
            "rejected": [reply(self.compare, draw.choice(negative))],
        }
        pairs.items.append(Item(row, str(bool(label.status)).lower()))
        return bool(label.status)

    async def _choose(self, label: Any, candidates: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        """Returns the judgement with the status of `label` that the teacher finds nearest, and all with the
        other one.

        In place of the first it returns a text, why there is none.
        """
        if label is None:
            return "the teacher's label could not be read", ()
        positive = [candidate for candidate in candidates if candidate.status == label.status]
        negative = [candidate for candidate in candidates if candidate.status != label.status]
        if not positive or not negative:
            return f"no sample {'differs from' if positive else 'agrees with'} the teacher", ()
        choices = first_of_each(positive, lambda candidate: normalise(candidate.analysis))
        if len(choices) == 1:
            return choices[0], negative
        texts = [candidate.analysis for candidate in choices]
        choice = await self.pick.try_call(reference=label.analysis, candidates=texts)
        if choice is None or not 1 <= choice.number <= len(choices):
            return "the teacher's choice names no candidate", ()
        return choices[choice.number - 1], negative


class PairsOfSources(Collector):
    """Pairs of prefrag-dpo over a task. Raises UsageError when the knobs make no comparisons."""

    needs_gold = False
    roles = ("main", "teacher")

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        knobs = self.knobs
        for name, value in {"pref": True, "pref_style": "module", "source_check": "status"}.items():
            if (setting := getattr(knobs, name)) != value:
                raise UsageError(
                    f"Pairs are of comparisons that say true or false, and the knob {name} is "
                    f"{str(setting).lower()}; set knobs.{name} to {str(value).lower()}."
                )
        small = replace(knobs, reflect=False, temperature=0.9, top_p=0.9)
        low, high = PASSAGES
        self.programs: dict[int, PairCollector] = {
            k: self.as_run(PairCollector(task.runtime, replace(small, k_local=k, k_web=k), task.seed))
            for k in range(low, high + 1)
        }
        self.program = self.programs[low]
        # Each step but the first may be followed by nine judgements, a label and a choice.
        steps = knobs.max_step + (not knobs.strict_budget)
        compared = steps - (not knobs.compare_first)
        self.calls = steps + compared * (len(TEMPERATURES) * len(TOP_PS) + 2) + 1
        self.facts = {
            "samples a comparison": f"temperatures and top_p of {', '.join(map(str, TEMPERATURES))}",
            "passages a search": f"{low} to {high}",
        }

    async def collect(self, question: Question) -> Gathered:
        """Collects one pair of `question`, if there is any."""
        seed, pairs = self.task.seed, _Pairs(question)
        program = self.programs[random.Random(f"passages {seed} {question.id}").randint(*PASSAGES)]
        _current.set(pairs)
        row = await answer(program, question)
        pairs.drops["a question whose run could not be read"] += bool(row.failure)
        pairs.drops["a question without a comparison"] += not row.failure and not pairs.compared
        if pairs.items:
            pairs.drops["another pair of the same question was drawn"] += len(pairs.items) - 1
            pairs.items = [random.Random(f"pair {seed} {question.id}").choice(pairs.items)]
        return pairs

    def select(self, items: Sequence[Item], drops: Counter[str]) -> Sequence[Item]:
        """Returns the pairs in random order, without repeated prompts, in the recipe's mix of classes.

        Raises NothingAnswered when a class that the mix needs is missing.
        """
        spec = self.task.recipe.training_data
        pairs = first_of_each(items, lambda item: canonical(item.row["prompt"]))
        drops["a repeated prompt"] += len(items) - len(pairs)
        random.Random(f"pairs {self.task.seed}").shuffle(pairs)
        by_label = [[pair for pair in pairs if pair.label == label] for label in ("true", "false")]
        quota = mix(spec.pairs, spec.true_share, *map(len, by_label))
        if pairs and not sum(quota):
            raise NothingAnswered(
                f"The class of {quantity(len(pairs), 'pair')} is {pairs[0].label}, of none another, so a "
                f"share of {spec.true_share:g} with the class true cannot be had and nothing was written; "
                f"set training_data.true_share to {int(pairs[0].label == 'true')} to take them as they are "
                "(nothing is sent again)."
            )
        chosen = {
            id(pair) for members, number in zip(by_label, quota, strict=True) for pair in members[:number]
        }
        drops["left out for the mix of classes"] += len(pairs) - len(chosen)
        return [pair for pair in pairs if id(pair) in chosen]


def mix(most: int, true_share: float, true: int, false: int) -> tuple[int, int]:
    """Returns how many pairs of each class are taken: at most `most`, as many as keep the wanted share.

    `true` and `false` are the available numbers. Shares are met up to rounding, but a class with a share
    above 0 has one pair at least; both are 0 if that is impossible.
    """
    both = 0 < true_share < 1
    for n in range(min(most, true + false), both, -1):
        n_true = round(n * true_share)
        if both:
            n_true = min(max(n_true, 1), n - 1)
        if n_true <= true and n - n_true <= false:
            return n_true, n - n_true
    return 0, 0
