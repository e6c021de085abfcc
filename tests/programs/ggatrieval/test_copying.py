"""What counts as a part of a question, and what as a copy of a passage."""

from __future__ import annotations

import pytest

from ragc.programs.ggatrieval.copying import is_copied, is_part, parts_in


@pytest.mark.parametrize(
    ("question", "part", "stands"),
    [
        ("When did the Titanic sink?", "did sink", True),
        ("When did the Titanic sink?", "sink did", False),
        ("Why didn't the Titanic sink?", "did not sink", True),
        ("What's the dog's name?", "is", True),
        ("Is Australia greater than Canada?", "Canada greater Australia", False),
        ("How much is 1,500 km?", "1500 km", True),
        ("the south-west wind", "South West wind", True),
        ("Wer schrieb das Buch über Zoë?", "Buch über Zoe", True),
        ("Когда затонул «Титаник»?", '"Титаник"', True),
        ("Who wrote C++?", "C#", False),
        ("Who wrote it?", "the", False),
        ("Who wrote the book?", "rot", False),
    ],
)
def test_is_part_wants_the_words_in_order(question: str, part: str, stands: bool) -> None:
    assert is_part(part, question) is stands


@pytest.mark.parametrize(
    ("part", "parts", "wrong"),
    [
        ("a red book, a blue one", ("a red book", "a blue one"), 0),
        ("a red book, a green one", ("a red book",), 1),
        ("Paris, France", ("Paris, France",), 0),
        ("for 1,300 years, in Paris", ("for 1,300 years", "in Paris"), 0),
        ("green", (), 1),
    ],
)
def test_parts_in_splits_at_commas_what_stands_in_pieces(
    part: str, parts: tuple[str, ...], wrong: int
) -> None:
    question = "Who wrote a blue one and a red book in Paris, France, for 1,300 years?"
    assert parts_in(part, question) == (parts, wrong)


PASSAGE = (
    "The Hallertau\n"
    "Anna Maria Lee (born 18 May 1950 in Bonn), a former mayor, was elected the 3rd president of the "
    "well-known Hop Growers' Union in 1990 and 1994, after the union had not paid its members more than "
    "1,500 marks. She didn't accept the first prize of the U.S. jury; her brother, Tom Lee, praised it."
)


@pytest.mark.parametrize(
    "segment",
    [
        "Anna Maria Lee, a former mayor",
        "elected 3rd president of the well known Hop Growers Union",
        "**elected** the third president",
        "born 18 May 1950 in Bonn",
        "more than 1500 marks",
        "did not accept first prize of the US jury",
        "The Hallertau",
    ],
)
def test_is_copied_allows_for_another_form(segment: str) -> None:
    assert is_copied(segment, PASSAGE)


@pytest.mark.parametrize(
    "segment",
    [
        "Anna Maria Lee, a mayor, was elected the 3rd president",
        "elected the 2nd president of the well-known Hop Growers' Union",
        "elected the president of the well-known Hop Growers' Union in 1994",
        "born 8 May 1950 in Bonn",
        "more than 1.5 marks",
        "paid its members more than 1,500 marks",
        "She did accept the first prize of the U.S. jury",
        "before the union had not paid its members",
        "",
        "the",
    ],
)
def test_is_copied_refuses_what_says_something_else(segment: str) -> None:
    assert not is_copied(segment, PASSAGE)
