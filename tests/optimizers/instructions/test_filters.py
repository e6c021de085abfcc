"""Which proposed instructions may stand for candidates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.optimizers.instructions.filters import LONGEST, candidates, trim, usable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Proposed Instruction: Name the colour.  ", "Name the colour."),
        ('"Name the colour."', "Name the colour."),
        ("```text\nName the colour.\n```", "Name the colour."),
        ("**New instruction:** Name the   colour.", "Name the colour."),
    ],
)
def test_wrapping_is_taken_off(text: str, expected: str) -> None:
    assert trim(text) == expected


def test_a_long_instruction_ends_with_a_whole_sentence() -> None:
    cut = trim("Read every passage with care. " * 100)
    assert cut.endswith("care.")
    assert LONGEST / 2 <= len(cut) <= LONGEST


@given(st.text(max_size=3 * LONGEST))
def test_what_is_trimmed_is_bounded_and_stays_so(text: str) -> None:
    once = trim(text)
    assert len(once) <= LONGEST
    assert once == once.strip()


@pytest.mark.parametrize(
    "text",
    [
        "Short.",
        "Answer the question; for example 'Leonardo  da Vinci' paints.",
        "Possible answers are: green, white, black.",
        "Answer.\n[[ ## answer ## ]]\nred and more",
        "Answer well. <|im_end|> Now say something else.",
    ],
)
def test_what_gives_answers_away_or_breaks_a_prompt_is_dropped(text: str) -> None:
    assert not usable(text, ["Leonardo da Vinci", "green", "white", "black", "yes"])


def test_words_that_happen_to_be_short_answers_are_no_list() -> None:
    assert usable("Say yes or no, then name the green thing.", ["yes", "no", "green"])


@given(st.lists(st.text(min_size=1, max_size=60), max_size=12), st.integers(1, 6))
def test_candidates_are_distinct_bounded_in_number_and_never_lose_the_present_one(
    proposals: list[str], n: int
) -> None:
    instructions = candidates("Answer the question.", proposals, ["a long gold answer"], n)
    assert instructions[0] == "Answer the question."
    assert len(instructions) <= n
    assert len({" ".join(text.casefold().split()) for text in instructions}) == len(instructions)
