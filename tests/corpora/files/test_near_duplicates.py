"""Near duplicates: respellings and left-out words are noticed, other numbers are other questions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.files.splits import THRESHOLD, near_duplicates, trigrams
from ragc.records import Question


def question(id: str, text: str) -> Question:
    return Question(id, text, ())


def test_the_most_similar_respelling_is_named() -> None:
    others = [
        question("a", "Which architect built the old lighthouse of Bergen?"),
        question("b", "Which architects built the old lighthouse at Bergen?"),
        question("c", "Who painted the wooden bridge of Osaka in spring?"),
    ]
    respelled = question("x", "Wich architect built the old lighthouse of Bergen")
    assert near_duplicates([respelled], others) == {"x": "a"}
    assert near_duplicates([question("y", "Who wrote the anthem of Quito?")], others) == {}
    assert near_duplicates([], others) == {}
    assert near_duplicates([respelled], []) == {}


def test_other_numbers_are_other_questions() -> None:
    other = question("a", "Who won the national basketball league in 2010?")
    assert near_duplicates([question("x", "Who won the national basketball league in 2011?")], [other]) == {}
    assert near_duplicates([question("x", "Who wins the national basketball league in 2010?")], [other])


TEXTS = st.lists(st.text(alphabet="abcd ", min_size=1, max_size=12), max_size=12)


@given(TEXTS, TEXTS)
def test_no_pair_is_overlooked(texts: list[str], other_texts: list[str]) -> None:
    questions = [question(str(number), text) for number, text in enumerate(texts)]
    others = [question(str(number), text) for number, text in enumerate(other_texts)]
    every = {
        one.id
        for one in questions
        for other in others
        if len(trigrams(one.question) & trigrams(other.question))
        >= THRESHOLD * len(trigrams(one.question) | trigrams(other.question))
    }
    assert near_duplicates(questions, others).keys() == every
