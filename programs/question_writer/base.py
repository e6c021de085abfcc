"""What a written question is: its kind, the excerpts that it is about, and the outcome of its checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KINDS: Mapping[str, str] = {
    "single": "answered by one sentence of one passage",
    "unanswerable": "about the subject of a passage, and answered by none",
    "two_passage": "answered by one passage, which another one is needed to find",
    "comparison": "compares the subjects of two passages",
}
"""The kinds of questions, each with a line about it."""

WEIGHTS: Mapping[str, int] = {"single": 4, "unanswerable": 1, "two_passage": 2, "comparison": 1}
"""How often each kind is written, beside the others that are."""

DEFAULT_KINDS = ("single", "unanswerable")

NO_ANSWER = ("unknown", "I don't know", "not stated")
"""The gold answers of an unanswerable question."""

OVERLAP_CAP = 0.85
"""The greatest share of a question's content words that may stand in one of its passages, 0 to 1.

Nine in ten questions of people are below it: the 90th percentile is .83 on HotpotQA (the nearer of its two
passages) and .86 on Natural Questions.
"""

MIN_GOOD = 0.65
"""The least share of good questions in a set that a verdict may rest on."""

MIN_PASSED = 0.25
"""The least share of written questions that pass the checks, in a set that a verdict may rest on before
enough of it is reviewed.

Of what a 1.5B model wrote about HotpotQA's articles .31 passed, and readers who did not know the checks
called .89 [.82, .94] of those good; of what a 135M model wrote nothing passed, with earlier checks .15 and
none of it was good (experiments/LOG.md).
"""

MIN_REVIEWED = 20
"""The number of reviewed questions from which they, and not the checks, say how many are good."""

MIN_CONFIRMED = 0.8
"""The least probability of the teacher's "yes" to a question and its answer, where it tells probabilities."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a passage: the sentences around the one that is asked about.

    `passage` is the id of the passage in the corpus, `document` the file that it is from, and `whole` its
    whole text. `digest` changes with title and text of the passage.
    """

    passage: str
    document: str
    title: str
    text: str
    sentence: str
    whole: str
    digest: str

    @property
    def shown(self) -> str:
        """The excerpt as a call shows it: the title, then the text."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Topic:
    """What a question of a `kind` may be written about; two excerpts for kinds that need two passages."""

    id: str
    kind: str
    excerpts: tuple[Excerpt, ...]


@dataclass(frozen=True, slots=True)
class DraftQuestion:
    """A question as it was written, with its answer; `problem` says why there is none.

    `detail` is what an unanswerable question is to ask for.
    """

    candidate: Topic
    question: str = ""
    answer: str = ""
    problem: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CheckedQuestion:
    """A draft with the names of the checks that it passed, and the one that it `failed`, "" for none.

    `overlap` is the largest share of its content words in one of its passages, 0 to 1.
    """

    draft: DraftQuestion
    passed: tuple[str, ...]
    failed: str = ""
    overlap: float = 0.0

    @property
    def answers(self) -> tuple[str, ...]:
        """The gold answers."""
        return NO_ANSWER if self.draft.candidate.kind == "unanswerable" else (self.draft.answer,)


@dataclass(frozen=True, slots=True)
class WritingCost:
    """A bound on what writing takes: questions to try, calls, and tokens of prompts and of replies."""

    tries: int
    calls: int
    prompt_tokens: int
    reply_tokens: int
