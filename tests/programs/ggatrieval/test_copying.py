"""What counts as a part of a question, and what as a copy of a passage: the rules one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.programs.ggatrieval.copying import find_run, is_copied, is_part, key_of, parts_in, typed


@pytest.mark.parametrize(
    ("question", "part", "stands"),
    [
        ("When did the Titanic sink?", "did sink", True),
        ("When did the Titanic sink?", "sink did", False),
        ("When did the Titanic not sink?", "did sink", False),
        ("Why didn't the Titanic sink?", "did sink", False),
        ("Why didn't the Titanic sink?", "did not sink", True),
        ("When was the song first released?", "was released", True),
        ("Where do polar bears live and grow up?", "do live", True),
        ("Who has never won?", "has won", False),
        ("Who is not in Now You Don't Say?", "is in", False),
        ("Which role in Now You Don't Say did she play?", "role did play", True),
        ("What's the dog's name?", "is", True),
        ("What's the dog's name?", "the name", True),
        ("Who looked the word up?", "looked up", True),
        ("Who won the 1950 cup and the 1960 race?", "the 1950 race", False),
        ("Who won the 1950 cup and the race of 1960?", "won the race", True),
        ("Is Elko Regional Airport near Ford International Airport?", "Elko International Airport", False),
        ("Is Elko Regional Airport near Ford International Airport?", "Is near Ford", True),
        ("Are the Irish and English Setters dogs?", "Irish Setters", True),
        ("Did Anna (a poet) Lee write?", "Anna Lee", True),
        ("How much is 1,500 km?", "1500 km", True),
        ("who won the superbowl", "the Super Bowl", True),
        ("who won the super bowl", "Superbowl", True),
        ("Wer schrieb das Buch über Zoë?", "Buch über Zoe", True),
        ("Wann geht die Sonne auf?", "geht auf", True),
        ("Wann geht die Sonne nicht auf?", "geht auf", False),
        ("泰坦尼克号什么时候沉没的?", "什么时候", True),
        ("Когда затонул «Титаник»?", '"Титаник"', True),
        ("किताब किसने लिखी?", "किताब लिखी", True),
        ("किताब किसने लिखी?", "कताब लिखी", False),
        ("Who wrote C++?", "C++", True),
        ("Who wrote C++?", "C#", False),
        ("Who wrote it?", "the", False),
        ("Who wrote it?", "?", False),
        ("Who wrote the book?", "rot", False),
        ("Who votes for it?", "voted", True),
        ("Who is dying?", "dy", False),
        ("Is Canada greater than Australia?", "Canada greater Australia", False),
        ("Is Australia or Canada greater than Brazil?", "Canada greater", True),
        ("Is Canada smaller and Australia greater?", "Canada greater", False),
        ("Is Canada smaller and Australia greater?", "Australia greater", True),
        ("Did Anna of Rome and Bonn write?", "Did Anna write", True),
        ("Is Australia greater than Canada?", "is greater than", True),
        ("Which No. 1 hit lasted from 1952 to 2022?", "number 1 hit", True),
        ("Which No. 1 hit lasted from 1952 to 2022?", "from 1952-2022", True),
    ],
)
def test_the_words_of_a_part_stand_in_order(question: str, part: str, stands: bool) -> None:
    assert is_part(part, question) is stands


@pytest.mark.parametrize(
    ("part", "parts", "wrong"),
    [
        ("a red book, a blue one", ("a red book", "a blue one"), 0),
        ("a red book, a green one", ("a red book",), 1),
        ("Paris, France", ("Paris, France",), 0),
        ("France, Paris", ("France", "Paris"), 0),
        ("for 1,300 years, in Paris", ("for 1,300 years", "in Paris"), 0),
        ("green, yellow", (), 2),
        ("green", (), 1),
        ("a red book,", ("a red book,",), 0),
    ],
)
def test_a_part_with_commas_that_stands_in_pieces_is_several(
    part: str, parts: tuple[str, ...], wrong: int
) -> None:
    question = "Who wrote a blue one and a red book in Paris, France, for 1,300 years?"
    assert parts_in(part, question) == (parts, wrong)


PASSAGE = (
    "The Hallertau\n"
    "Anna Maria Lee (born 18 May 1950 in Bonn), a former mayor, was elected the 3rd president of the "
    "well-known Hop Growers' Union in 1990 and 1994, after the union had not paid its members more than "
    "1,500 marks. She didn't accept the first prize of the U.S. jury; her brother, Tom Lee, praised "
    "Anna's organization."
)


@pytest.mark.parametrize(
    "segment",
    [
        "Anna Maria Lee, a former mayor",
        "elected 3rd president of the well known Hop Growers Union",
        "elected the third president",
        "**elected** the 3rd president of _the_ well-known hop growers' union",
        "born May 18, 1950 in Bonn",
        "born 18 May 1950",
        "more than 1500 marks",
        "did not accept first prize of the US jury",
        "She didn’t accept the first prize",
        "her brother Tom Lee praised Anna’s organisation",
        "Anna Lee, a former mayor, was elected the 3rd president of the well-known Hop Growers' Union",
        "which was elected the 3rd president",
        "The Hallertau",
        "…the union had not paid its members…",
    ],
)
def test_a_copy_may_differ_in_form(segment: str) -> None:
    assert is_copied(segment, PASSAGE)


SUMMIT = (
    "Almost all members climbed 8,848.86 metres in 1952–2022; no. 4 of them, former mayor Tom Lee, reached "
    "No. 1 on the chart. Nearly 30,000,000 fans (not 1.5 million readers) were not in the theatre. The vice-"
    "president was not elected; half the town cheered him. Is it so? No. Anna left. He was acting mayor."
)


@pytest.mark.parametrize(
    "segment",
    [
        "8848.86 metres",
        "climbed 8,848.86 meters",
        "almost all members",
        "in 1952-2022",
        "in 1952 to 2022",
        "reached number 1 on the chart",
        "reached #1 on the chart",
        "Number 4 of them",
        "reached No. 1 on the chart",
        "nearly 30 million fans",
        "Nearly 30 million fans",
        "not 1,500,000 readers",
        "in the theater",
        "former mayor Tom Lee",
        "Tom Lee",
        "Anna left",
        "vice president",
        "half the town",
        "cheered him",
    ],
)
def test_numbers_and_spellings_may_be_written_in_other_ways(segment: str) -> None:
    assert is_copied(segment, SUMMIT)


@pytest.mark.parametrize(
    "segment",
    [
        "8848 metres",
        "8,848",
        "all members",
        "all members climbed 8848.86 metres",
        "mayor Tom Lee",
        "elected",
        "president was not elected",
        "in the theatre in 1952",
        "the town cheered him",
        "30 fans",
        "30,000",
        "30 billion fans",
        "1.5 readers",
        "1.5 million readers",
        "1 million readers",
        "in 1952 to 2021",
    ],
)
def test_what_is_cut_in_front_or_in_a_number_is_no_copy(segment: str) -> None:
    assert not is_copied(segment, SUMMIT)


@pytest.mark.parametrize(
    "segment",
    [
        "Anna Lee was elected",
        "Anna Lee, a former mayor",  # too short for a word less
        "Anna Maria Lee, a mayor, was elected the 3rd president of the well-known Hop Growers' Union",
        "elected the 2nd president of the well-known Hop Growers' Union in 1990",
        "elected the second president",
        "elected the president of the well-known Hop Growers' Union in 1990 and 1994",
        "the 3rd president of the well-known Hop Growers' Union in 1994, after the union had not paid",
        "born 8 May 1950 in Bonn",
        "born 18 May 1951 in Bonn",
        "more than 15,000 marks",
        "more than 1.5 marks",
        "less than 1,500 marks",
        "after the union had paid its members more than 1,500 marks",
        "She did accept the first prize of the U.S. jury",
        "She accepted the second prize",
        "Anna's brother, Tom Lee, praised her organization",
        "before the union had not paid its members",
        "who was the mayor of Bonn",
        "the well-known Growers' Hop Union in 1990",
        "",
        "  ?",
        "the",
    ],
)
def test_what_says_something_else_is_no_copy(segment: str) -> None:
    assert not is_copied(segment, PASSAGE)


def test_a_long_copy_may_lack_a_word_and_no_more() -> None:
    text = "it takes a slow train and then an old bus to reach that small quiet village"
    assert is_copied("it takes a train and then an old bus to reach that small quiet village", text)
    assert is_copied("it takes a train and then a bus to reach that small quiet village", text)
    assert not is_copied("it takes a train and then a bus to reach that village", text)
    assert not is_copied("it takes a fast train and then an old bus to reach that small quiet village", text)


@given(st.text(max_size=60))
def test_every_text_with_words_is_a_copy_of_itself_and_nothing_raises(text: str) -> None:
    assert is_copied(text, text) is bool(key_of(text))
    assert is_copied(text, f"before {text} after") in (True, False)
    assert is_part(text, text) is bool(key_of(text))
    parts_in(text, "Who is it?")


WORDS = ("Anna", "wrote", "the", "red", "book", "in", "1950", "not", "(or", "so),", "May", "18")


@given(st.lists(st.sampled_from(WORDS), min_size=1))
def test_a_run_of_words_is_a_copy_and_a_part_of_what_it_is_taken_from(words: list[str]) -> None:
    piece = " ".join(words)
    text = f"Then {piece} again."
    assert is_copied(piece, text) is is_part(piece, text) is bool(key_of(piece))
    if key_of(piece):
        run = find_run(piece, text)
        assert run is not None
        assert key_of(typed(text)[slice(*run)]) == key_of(piece)
