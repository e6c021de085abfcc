"""The features of a compile, a row each: overrides of the recipe of `world`, and how it is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.names import NO_CACHE, REASONING_TOKENS, ROUNDS

OWN_PROGRAM = '''
import dspy
import ragc


class Answer(dspy.Signature):
    """Answer the question in one word."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField()
    answer: str = dspy.OutputField()


class Mine(dspy.Module):
    """Searches and answers."""

    wide = ragc.number(2, 1, 6, "passages")

    def __init__(self):
        super().__init__()
        self.answer = dspy.Predict(Answer)
        self.find = dspy.Retrieve(k=2)

    def forward(self, question):
        passages = self.find(question, k=self.wide).passages
        return self.answer(question=question, passages=passages)
'''


@dataclass(frozen=True)
class Feature:
    """One row: overrides of the recipe, options of the command, and the data.

    `sizes` are the questions of train, dev and test, in named splits unless `unsplit`. With `grouped` every
    two questions are of one document.
    """

    name: str
    sets: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    sizes: tuple[int, int, int] = (6, 12, 8)
    unsplit: bool = False
    grouped: bool = False
    reasoning: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


NO_DEMOS = "search.demos=0"
TWO_TRIALS = "search.trials=2"
TWO_OBJECTIVES = 'search.objectives=["em", "-tokens"]'

FEATURES = (
    Feature("knobs", (NO_DEMOS,)),
    Feature("demonstrations", ("search.knobs=[]",)),
    Feature("instructions", (NO_DEMOS, "search.instructions=2")),
    Feature("rounds", (NO_DEMOS, "search.instructions=2", f"{ROUNDS}=2")),
    Feature(
        "thresholds",
        ('program="selfrag"', "knobs.top_k=1", 'search.knobs=["selfrag_threshold"]', NO_DEMOS, TWO_TRIALS),
    ),
    Feature("programs", (NO_DEMOS, 'search.programs=["cot"]')),
    Feature("two objectives", (TWO_OBJECTIVES,)),
    Feature("limits", (NO_DEMOS, "search.limits.tokens=900")),
    Feature("front", (TWO_OBJECTIVES, "search.front=2", NO_DEMOS)),
    Feature("folds", (NO_DEMOS, TWO_TRIALS), sizes=(0, 20, 0), unsplit=True),
    Feature("groups", (NO_DEMOS,), sizes=(6, 12, 12), grouped=True),
    Feature(
        "reasoning",
        (NO_DEMOS, f"targets.main.options.{REASONING_TOKENS}=300"),
        reasoning="<think>\nI was sent {key}.\n</think>\n",
    ),
    Feature("no cache", (NO_DEMOS,), (NO_CACHE,)),
    Feature("mipro", ('search.optimizer="mipro"', "search.knobs=[]", "budget.lm_calls=120")),
    Feature("random", ('search.optimizer="random"', "search.knobs=[]", TWO_TRIALS)),
    Feature("gepa", ('search.optimizer="gepa"', "search.knobs=[]", NO_DEMOS, "budget.lm_calls=120")),
    Feature(
        "own program",
        ('program="mine:Mine"', NO_DEMOS, 'search.knobs=["wide"]'),
        files={"mine.py": OWN_PROGRAM},
    ),
)  # fmt: skip
