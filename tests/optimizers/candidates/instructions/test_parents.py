"""The pool of parents: who leads where, who is left out, and how often each is drawn."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ragc import metrics
from ragc.metrics.base import Objective
from ragc.optimizers.candidates.instructions.parents import ParentPool
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult

EM = Objective(metrics.get("em"), 1)


def trial(number: int, scores: Sequence[float], **instructions: int) -> TrialResult:
    """A complete trial; its candidate differs from others by its instructions."""
    mean = sum(scores) / len(scores)
    rows = tuple({"em": score} for score in scores)
    return TrialResult(number, Candidate({}, instructions=instructions), rows, (mean,), True, {})


def pool(*trials: TrialResult) -> ParentPool:
    return ParentPool.of(trials, EM)


def test_parents_are_drawn_by_the_questions_they_lead() -> None:
    members = pool(trial(1, [1, 1, 1, 0], answer=1), trial(2, [0, 0, 0, 1], answer=2))
    rng = random.Random(1)
    drawn = Counter(members.draw(rng).number for _ in range(2000))
    assert 0.70 < drawn[1] / 2000 < 0.80


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=5, max_size=5), min_size=1, max_size=7))
def test_on_every_question_some_member_has_the_best_score(rows: list[list[float]]) -> None:
    trials = [trial(number, scores, answer=number) for number, scores in enumerate(rows)]
    members = pool(*trials)
    assert {at for led in members.leads.values() for at in led} == set(range(5))
    for at in range(5):
        top = max(scores[at] for scores in rows)
        assert any(members.trials[n].scores[at]["em"] == top for n in members.leads)
