"""A question is recognised in other spellings of signs, and behind labels; other questions are not it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.files.splits import normalise
from ragc.store.used_questions import question_digest

PLAIN = "What colour is thing number3?"

SAME = [
    "Q: What colour is thing number3?",
    "q:What colour is thing number3",
    "Question 3: What colour is thing number3?",
    "Question no. 7) What colour is thing number3?",
    "3. What colour is thing number3?",
    "3.What colour is thing number3?",
    "3) What colour is thing number3?",
    "(3) What colour is thing number3?",
    "3 - What colour is thing number3?",
    "#3 What colour is thing number3?",
    "#3: What colour is thing number3?",
    "1.2. What colour is thing number3?",
    "a) What colour is thing number3?",
    "- 3. Q: What colour is thing number3?",
    "• What colour is thing number3?",
    "**3.** What colour is thing number3?",
    "> “What colour is thing number3?”",
    "WHAT  colour\tis\u00a0thing number3 ?!",
    "What colour is the thing number 3",
    "What colo\u200bur is th\u00ading number3?",
    "\ufeff\u202eWhat colour is thing number3\u202c?",
    "What colour\ufe0f is thing\u2060 number3?",
    "Ｗｈａｔ colour is thing number３?",
    "Q.1. What colour is thing number3?",
    "Q-3: What colour is thing number3?",
    "Question-3) What colour is thing number3?",
    "Example 4: What colour is thing number3?",
    "Example #4 - What colour is thing number3?",
    "Ex. 3: What colour is thing number3?",
    "ex 3) What colour is thing number3?",
    "Question 3 of 10: What colour is thing number3?",
    "Question 3/10. What colour is thing number3?",
    "### Question 3\nWhat colour is thing number3?",
    "**Question 3**\r\n\r\nWhat colour is thing number3?",
    "## Question\nWhat colour is thing number3?",
    "Example 3\u2028What colour is thing number3?",
    "### Question 3: What colour is thing number3?",
    "# What colour is thing number3?",
    "3. Example 4: What colour is thing number3?",
    "What colour is thing number3?\nAnswer:",
    "What colour is thing number3?\n\n### Answer\n",
    "What colour is thing number3\n**Answer:** ",
    "Q: What colour is thing number3? A:",
    "Question: What colour is thing number3?\nFinal answer:",
]

OTHER = [
    ("Example 4 of X is what?", "Example 5 of X is what?"),
    ("Example 4 of X is what?", "X is what?"),
    ("Example 4 of X: what is it?", "X: what is it?"),
    ("Ex machina: who directed it?", "machina: who directed it?"),
    ("Ex-wife of whom?", "wife of whom?"),
    ("Examples: 3 is one, what else?", "3 is one, what else?"),
    ("III. Reich: who led it?", "Reich: who led it?"),
    ("III. Reich: who led it?", "II. Reich: who led it?"),
    ("3. III. Reich?", "2. III. Reich?"),
    ("V. The Final Battle: who directed it?", "The Final Battle: who directed it?"),
    ("Henry III. of England died when?", "Henry II. of England died when?"),
    ("Henry III. Who was he?", "Henry II. Who was he?"),
    ("Q.1 revenue of Apple", "Q.2 revenue of Apple"),
    ("Ex 3 - 5 = ?", "Ex 2 - 5 = ?"),
    ("Question 3/10 of the exam", "Question 4/10 of the exam"),
    ("What is the answer?", "What is?"),
    ("What is question?\nAnswer: 3", "What is question?\nAnswer: 4"),
    ("Who sang Answer", "Who sang"),
    ("Item 1\nItem 2", "Item 1\nItem 3"),
    ("C# is what?", "C is what?"),
    ("2. Bundesliga: who won in 2010?", "3. Bundesliga: who won in 2010?"),
    ("#1 song of 1999?", "#2 song of 1999?"),
    ("24. James Bond film?", "23. James Bond film?"),
    ("What is 17-5?", "What is 175?"),
    ("What is 17-5?", "What is 17/5?"),
    ("Is -5 more than 3?", "Is 5 more than 3?"),
    ("What is C?", "What is C#?"),
    ("What is C?", "What is C++?"),
    ("What is new in Python 3.11?", "What is new in Python 31.1?"),
    ("Is it 1 12?", "Is it 11 2?"),
    ("Q1 2023 revenue of Apple", "Q2 2023 revenue of Apple"),
    ("Question 3 of the exam asks what?", "Question 4 of the exam asks what?"),
    ("A. Lincoln was born where?", "B. Lincoln was born where?"),
    ("1.2 million people live where?", "3.4 million people live where?"),
    ("12:30 train to where?", "11:30 train to where?"),
    ("3.", "4."),
    ("???", "!!!"),
    ("这是什么", "那是什么"),
]


def same(recorded: str, sought: str) -> bool:
    return question_digest(recorded) == question_digest(sought)


@pytest.mark.parametrize("edited", SAME)
def test_spelling_and_labels_make_no_other_question(edited: str) -> None:
    assert same(PLAIN, edited)
    assert same(edited, PLAIN)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_other_numbers_signs_and_words_are_other_questions(one: str, other: str) -> None:
    assert not same(one, other)
    assert not same(other, one)


@given(st.text())
def test_any_text_has_a_digest_and_is_itself(text: str) -> None:
    assert same(text, text)
    assert len(question_digest(text)) == 16


@given(st.text(alphabet="abc XYZ.,;?!'\"", min_size=1))
def test_what_splits_take_for_one_question_is_one_here(text: str) -> None:
    spelled = normalise(text)
    if any(character.isalpha() for character in spelled.replace(" ", "")) and "a" not in spelled.split():
        assert same(spelled, text) or len(spelled.split()[0]) == 1
