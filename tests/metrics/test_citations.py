"""ALCE's claims and citations by hand: what is asked, and what the verdicts come to."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Sequence

import pytest

from ragc.errors import UsageError
from ragc.metrics.base import Finding, Outcome, Pair, grade
from ragc.metrics.citations import METRICS, CitationAssessor, ClaimAssessor, cited_sentences
from ragc.metrics.rouge import sentences
from ragc.records import Passage

needs_punkt = pytest.mark.skipif(
    importlib.util.find_spec("punkt") is None, reason="the extra `metrics` is not installed"
)
BY_ID = {metric.id: metric for metric in METRICS}
P = tuple(Passage(f"p{n}", f"T{n}", f"text {n}") for n in range(1, 6))


class Known:
    """Says yes when `rule` does, and keeps what it was asked, one list a call."""

    name = "known"

    def __init__(self, rule: Callable[[str, str], bool | None]) -> None:
        self.rule, self.calls = rule, list[list[Pair]]()

    async def entails(self, pairs: Sequence[Pair], /) -> list[bool | None]:
        self.calls.append(list(pairs))
        return [self.rule(premise, hypothesis) for premise, hypothesis in pairs]


def shown(*numbers: int) -> str:
    return "\n".join(f"Title: T{n}\ntext {n}" for n in numbers)


def together(*sets: tuple[int, ...]) -> Known:
    """An entailer to whom any premise that holds all passages of one of `sets` entails everything."""
    return Known(lambda premise, _: any(all(f"text {n}" in premise for n in numbers) for numbers in sets))


def listing(prediction: str | None, passages: tuple[Passage, ...] = P) -> Outcome:
    return Outcome(prediction, question="Who?", passages=passages, extra={"answers": [["Ada"]]})


def scores(outcome: Outcome, entailer: Known) -> tuple[float | None, float | None]:
    graded_outcome = asyncio.run(grade(outcome, [CitationAssessor(entailer)]))
    return BY_ID["alce_cite_recall"].score(graded_outcome), BY_ID["alce_cite_precision"].score(graded_outcome)


@needs_punkt
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. No [1] came in 1962. It won.", ["Dr. No [1] came in 1962.", "It won."]),
        ("It fell [1]. Then it rose [2].", ["It fell [1].", "Then it rose [2]."]),
        ("It fell. [1] Then it rose. [2]", ["It fell.", "[1] Then it rose.", "[2]"]),
        (
            "J. R. R. Tolkien wrote it in the U.S. in 1937.",
            ["J. R. R. Tolkien wrote it in the U.S. in 1937."],
        ),
        ("Many do, e.g. on Mars.", ["Many do, e.g.", "on Mars."]),  # NLTK's model has never seen e.g.
        ("no stop", ["no stop"]),
        (" ", []),
    ],
)
def test_sentences_are_cut_as_nltk_cuts_them(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@needs_punkt
def test_a_sentence_is_read_with_its_marks() -> None:
    one, two, three = cited_sentences(Outcome("A [2][1]. B [9]. C.\nD [1].", passages=P))
    assert (one.text, one.marks, one.used) == ("A.", (2, 1), (2, 1))
    assert (two.text, two.marks, two.used) == ("B.", (9,), ())
    assert (three.text, three.marks, three.used) == ("C.", (), ())


def test_an_item_of_a_list_stands_behind_the_question() -> None:
    parts = cited_sentences(listing("Ada [1], Bo[2]."))
    assert [(part.text, part.used) for part in parts] == [("Who? Ada", (1,)), ("Who? Bo", (2,))]


@pytest.mark.parametrize(
    ("prediction", "sets", "recall", "precision"),
    [
        ("Ada [1]", [(1,)], 1.0, 1.0),
        ("Ada [1]", [(2,)], 0.0, 0.0),
        ("Ada", [(1,)], 0.0, 0.0),
        ("Ada [1], Bo", [(1,)], 0.5, 1.0),  # what cites nothing costs recall only
        ("Ada [1], Bo [2]", [(1,)], 0.5, 0.5),
        ("Ada [6]", [(1,)], 0.0, 0.0),
        ("Ada [0]", [(5,)], 0.0, 0.0),  # not the last passage
        ("Ada [1], Bo [1][6]", [(1,)], 0.5, 1.0),  # one mark out of range: none of that item counts
        ("Ada [1][2][3][6]", [(1,)], 0.0, 0.0),  # and so does a fourth
        ("Ada [1][2]", [(1,), (2,)], 1.0, 1.0),  # each alone is enough
        ("Ada [1][2]", [(1, 2)], 1.0, 1.0),  # both are needed
        ("Ada [1][2]", [(1,)], 1.0, 0.5),  # 2 is neither enough nor needed
        ("Ada [1][2][3]", [(1, 2)], 1.0, 2 / 3),
        ("Ada [1][2][3]", [(1, 2), (2, 3)], 1.0, 1 / 3),  # only 2 is needed
        ("Ada [3][4][1][2]", [(2,)], 0.0, 0.0),  # a fourth mark is not read
        ("Ada [1][2][3][4]", [(1, 2, 3)], 1.0, 1.0),  # nor counted
        ("Ada [1][1]", [(1,)], 1.0, 1.0),
        ("Ada [1, 2]", [(2,)], 0.0, 0.0),  # ", 2]" is another item
        ("Ada [1][2], Bo [3]", [(1, 2), (4,)], 0.5, 2 / 3),
        ("", [(1,)], 0.0, 0.0),
        (None, [(1,)], 0.0, 0.0),
    ],
)
def test_recall_and_precision_by_hand(
    prediction: str | None, sets: list[tuple[int, ...]], recall: float, precision: float
) -> None:
    assert scores(listing(prediction), together(*sets)) == pytest.approx((recall, precision))


def test_everything_is_asked_at_once_and_each_pair_once() -> None:
    entailer = together((1, 2))
    scores(listing("Ada [1][2], Ada [1][2], Bo [1][2][3], C, D [9], [4]"), entailer)
    (pairs,) = entailer.calls
    assert len(pairs) == len(set(pairs))
    ada = [premise for premise, hypothesis in pairs if hypothesis == "Who? Ada"]
    assert ada == [shown(1, 2), shown(1), shown(2)]


@needs_punkt
def test_a_sentence_of_nothing_but_marks_is_not_supported_and_not_asked() -> None:
    entailer = together((1,))
    assert scores(Outcome("[1]", passages=P), entailer) == (0.0, 0.0)
    assert entailer.calls == []


def test_a_verdict_that_cannot_be_read_is_a_no_and_is_counted() -> None:
    entailer = Known(lambda premise, _: None if "text 1" in premise else True)
    outcome = asyncio.run(grade(listing("Ada [1], Bo [2]"), [CitationAssessor(entailer)]))
    assert BY_ID["alce_cite_recall"].score(outcome) == 0.5
    assert outcome.findings["alce_citations"] == Finding(
        {
            "sentences": [
                {"text": "Who? Ada", "marks": [1], "used": 1, "supported": False, "credited": 0},
                {"text": "Who? Bo", "marks": [2], "used": 1, "supported": True, "credited": 1},
            ],
            "unreadable": 1,
        },
        "known",
    )


def test_f1_of_a_question_and_of_a_set_differ() -> None:
    outcome = asyncio.run(grade(listing("Ada [1][2], Bo"), [CitationAssessor(together((1, 2)))]))
    assert BY_ID["alce_cite_f1"].score(outcome) == pytest.approx(2 * 0.5 * 1 / 1.5)
    combine = BY_ID["alce_cite_f1"].combine
    assert combine is not None
    assert combine(0.5473, 0.5473) == pytest.approx(0.5473)
    assert combine(0.3679, 0.3898) == pytest.approx(0.3785, abs=1e-4)  # GGatrieval's table prints 37.86
    assert combine(0, 0) == 0


CLAIMS = {"claims": ["It rains.", "It snows.", "It rains."]}


def test_claims_are_asked_of_the_first_line_without_citations() -> None:
    entailer = Known(lambda _, claim: claim == "It rains.")
    outcome = Outcome(" It rains [1]. \nIt snows.", extra=CLAIMS)
    graded_outcome = asyncio.run(grade(outcome, [ClaimAssessor(entailer)]))
    assert entailer.calls == [[("It rains.", "It rains."), ("It rains.", "It snows.")]]
    assert graded_outcome.findings["alce_claims"] == Finding({"claims": [True, False, True]}, "known")
    assert BY_ID["alce_claim_recall"].score(graded_outcome) == pytest.approx(2 / 3)


@pytest.mark.parametrize("prediction", [None, "", "[1]"])
def test_an_empty_answer_entails_no_claim_and_nobody_is_asked(prediction: str | None) -> None:
    entailer = Known(lambda *_: True)
    outcome = asyncio.run(grade(Outcome(prediction, extra=CLAIMS), [ClaimAssessor(entailer)]))
    assert BY_ID["alce_claim_recall"].score(outcome) == 0
    assert entailer.calls == []


def test_claims_do_not_apply_without_any_and_an_unreadable_verdict_stays_visible() -> None:
    without = asyncio.run(grade(Outcome("It rains."), [ClaimAssessor(Known(lambda *_: True))]))
    assert BY_ID["alce_claim_recall"].score(without) is None
    unread = asyncio.run(grade(Outcome("x", extra=CLAIMS), [ClaimAssessor(Known(lambda *_: None))]))
    assert unread.finding("alce_claims") == {"claims": [None, None, None]}
    assert BY_ID["alce_claim_recall"].score(unread) == 0


@pytest.mark.parametrize("id", BY_ID)
def test_a_metric_says_what_it_lacks(id: str) -> None:
    with pytest.raises(UsageError, match="need an assessor's finding"):
        BY_ID[id].score(Outcome("x"))
