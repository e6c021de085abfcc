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
from dataclasses import dataclass, field, replace
from typing import Any

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
    Gathered,
    Item,
    Message,
    Row,
    Selection,
    as_run,
    conversation,
    longest_reply,
    reply,
    teacher_call,
)

TEMPERATURES = TOP_PS = (0.1, 0.5, 0.9)
"""The small model judges once at each of the nine combinations."""

PASSAGES = (2, 5)
"""The fewest and the most passages a search finds; drawn for each question."""

_SMALL = {"temperature": 0.9, "top_p": 0.9}
_TEACHER = Sampling(temperature=0.1, top_p=0.9, max_tokens=256)
_PICK = Sampling(temperature=0.1, top_p=0.9, max_tokens=32)

UNREADABLE_SAMPLE = "a sample of the small model could not be read"
UNREADABLE_LABEL = "the teacher's label could not be read"
NONE_AGREES = "no sample agrees with the teacher"
NONE_DIFFERS = "no sample differs from the teacher"
UNREADABLE_CHOICE = "the teacher's choice names no candidate"
OTHER_PAIR = "another pair of the same question was drawn"
REPEATED = "a repeated prompt"
MIX = "left out for the mix of classes"
NO_COMPARISON = "a question without a comparison"
UNANSWERED = "a question whose run could not be read"


@dataclass(slots=True)
class _Collection:
    """The state of the present question: its pairs, and what was dropped."""

    question: Question
    seed: int
    pairs: list[Item] = field(default_factory=list)
    drops: Counter[str] = field(default_factory=Counter)
    compared: int = 0


_current: ContextVar[_Collection] = ContextVar("ragc_pairs")


class PairCollector(PrefRag):
    """PrefRAG that makes a pair of each comparison."""

    def __init__(self, runtime: Runtime, knobs: PrefRagKnobs) -> None:
        super().__init__(runtime, knobs)
        self.label = teacher_call(self.compare, CompareSources, sampling=_TEACHER)
        self.pick = teacher_call(self.compare, FindClosestStatement, sampling=_PICK)

    async def add_something(self, inputs: Mapping[str, Any]) -> bool:
        """Returns the teacher's judgement of the new passages; without a pair, the first judgement."""
        collection = _current.get()
        collection.compared += 1
        label, *samples = await together(
            self.label.try_call(**inputs),
            *(
                self.compare.try_call(**inputs, config={"temperature": temperature, "top_p": top_p})
                for temperature in TEMPERATURES
                for top_p in TOP_PS
            ),
        )
        candidates = [sample for sample in samples if sample is not None]
        if unreadable := len(samples) - len(candidates):
            collection.drops[UNREADABLE_SAMPLE] += unreadable
        pair = await self._pair(collection, inputs, label, candidates)
        if isinstance(pair, str):
            collection.drops[pair] += 1
            return bool(candidates and candidates[0].status)
        collection.pairs.append(pair)
        return bool(label.status)

    async def _pair(
        self, collection: _Collection, inputs: Mapping[str, Any], label: Any, candidates: Sequence[Any]
    ) -> Item | str:
        """Returns the pair of one comparison, or why there is none."""
        if label is None:
            return UNREADABLE_LABEL
        positive = [one for one in candidates if one.status == label.status]
        negative = [one for one in candidates if one.status != label.status]
        if not positive:
            return NONE_AGREES
        if not negative:
            return NONE_DIFFERS
        chosen = await self._nearest(label.analysis, positive)
        if chosen is None:
            return UNREADABLE_CHOICE
        mark = f"{collection.seed} {collection.question.id} {collection.compared}"
        rejected = random.Random(f"rejected {mark}").choice(negative)
        row: Row = {
            "prompt": conversation(self.compare, inputs),
            "chosen": [reply(self.compare, chosen)],
            "rejected": [reply(self.compare, rejected)],
        }
        return Item(row, str(bool(label.status)).lower())

    async def _nearest(self, analysis: str, positive: Sequence[Any]) -> Any:
        """Returns the one of `positive` that the teacher judges nearest to its own `analysis`, or None."""
        distinct = list({normalise(one.analysis): one for one in reversed(positive)}.values())[::-1]
        if len(distinct) == 1:
            return distinct[0]
        texts = [one.analysis for one in distinct]
        choice = await self.pick.try_call(reference=analysis, candidates=texts)
        if choice is None or not 1 <= choice.number <= len(distinct):
            return None
        return distinct[choice.number - 1]


class PairsOfSources:
    """Pairs of prefrag-dpo over a task. Raises UsageError when the knobs make no comparisons."""

    needs_gold = False
    roles = ("main", "teacher")

    def __init__(self, task: Task) -> None:
        self.task = task
        knobs: Any = task.recipe.settings()
        for name, value in (("pref", True), ("pref_style", "module"), ("source_check", "status")):
            if getattr(knobs, name) != value:
                shown = str(value).lower()
                raise UsageError(
                    f"Pairs are of comparisons that say true or false, and the knob {name} is "
                    f"{str(getattr(knobs, name)).lower()}; set knobs.{name} to {shown}."
                )
        small = replace(knobs, reflect=False, **_SMALL)
        low, high = PASSAGES
        self._programs: dict[int, PairCollector] = {
            k: as_run(PairCollector(task.runtime, replace(small, k_local=k, k_web=k)), task)
            for k in range(low, high + 1)
        }

    @property
    def facts(self) -> dict[str, Any]:
        """How samples were drawn."""
        low, high = PASSAGES
        return {
            "samples a comparison": f"temperatures and top_p of {', '.join(map(str, TEMPERATURES))}",
            "passages a search": f"{low} to {high}",
        }

    @property
    def calls(self) -> int:
        """Each step but the first may be followed by nine judgements, a label and a choice."""
        knobs = next(iter(self._programs.values())).knobs
        steps = knobs.max_step + (0 if knobs.strict_budget else 1)
        compared = steps if knobs.compare_first else steps - 1
        return int(steps + compared * (len(TEMPERATURES) * len(TOP_PS) + 2) + 1)

    @property
    def longest_reply(self) -> int:
        """The greatest limit of a reply of any call."""
        return longest_reply(next(iter(self._programs.values())))

    async def collect(self, question: Question) -> Gathered:
        """Collects one pair of `question`, if there is any."""
        seed = self.task.seed
        collection = _Collection(question, seed)
        k = random.Random(f"passages {seed} {question.id}").randint(*PASSAGES)
        token = _current.set(collection)
        try:
            row = await answer(self._programs[k], question)
        finally:
            _current.reset(token)
        gathered = Gathered(question, drops=collection.drops)
        if row.failure:
            gathered.drops[UNANSWERED] += 1
        elif not collection.compared:
            gathered.drops[NO_COMPARISON] += 1
        if collection.pairs:
            pair = random.Random(f"pair {seed} {question.id}").choice(collection.pairs)
            gathered.items.append(pair)
            if others := len(collection.pairs) - 1:
                gathered.drops[OTHER_PAIR] += others
        return gathered

    def select(self, gathered: Sequence[Gathered]) -> Selection:
        """Returns the pairs in random order, without repeated prompts, in the recipe's mix of classes.

        Raises NothingAnswered when a class that the mix needs is missing.
        """
        spec, drops = self.task.recipe.training_data, Counter[str]()
        unique: dict[str, Item] = {}
        for one in gathered:
            for item in one.items:
                unique.setdefault(_text(item.row["prompt"]), item)
        total = sum(len(one.items) for one in gathered)
        drops[REPEATED] = total - len(unique)
        pairs = list(unique.values())
        random.Random(f"pairs {self.task.seed}").shuffle(pairs)
        true, false = (sum(pair.label == label for pair in pairs) for label in ("true", "false"))
        quota = mix(spec.pairs, spec.true_share, true, false)
        if pairs and not sum(quota.values()):
            only = "true" if true else "false"
            raise NothingAnswered(
                f"The class of {quantity(len(pairs), 'pair')} is {only}, of none another, so a share of "
                f"{spec.true_share:g} with the class true cannot be had and nothing was written; set "
                f"training_data.true_share to {1 if true else 0} to take them as they are (nothing is "
                "sent again)."
            )
        chosen: list[Item] = []
        for pair in pairs:
            if quota[pair.label]:
                quota[pair.label] -= 1
                chosen.append(pair)
        drops[MIX] = len(pairs) - len(chosen)
        return Selection(tuple(chosen), +drops)


def _text(messages: Sequence[Message]) -> str:
    return "\0".join(message["content"] for message in messages)


def mix(most: int, true_share: float, true: int, false: int) -> dict[str, int]:
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
            return {"true": n_true, "false": n - n_true}
    return {"true": 0, "false": 0}
