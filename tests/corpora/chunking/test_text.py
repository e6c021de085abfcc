"""Chunks reproduce their text, cover it, keep to their size and end where a reader would end them."""

from __future__ import annotations

import itertools
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.core.text import repair_surrogates
from ragc.corpora.chunking import tokens
from ragc.corpora.chunking.chunk import chunk_passage
from ragc.errors import UsageError
from ragc.records import Passage
from tests.corpora.chunking.laws import check_chunks
from tests.examples import examples

PIECES = st.sampled_from(
    ["word ", "Sentence ends. ", "New\nline", "\n\n", "\n \n\t", "naïve", "汉字也是文字。", "👩‍👩‍👧",
     "12345678", "   ", "antidisestablishmentarianism", "#!?",
     "\ud800", "' ", "....", "हिन्दी ", "<|endoftext|>"]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=8), max_size=60).map("".join)


def cut(text: str, size: int, overlap: float = 0.0) -> tuple[Passage, ...]:
    return chunk_passage(Passage("p", "Title", text), size, overlap)


@settings(max_examples=examples(200), deadline=None)
@given(TEXTS, st.integers(1, 40), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 0.99]))
def test_chunks_are_faithful_complete_and_small(text: str, size: int, overlap: float) -> None:
    text = repair_surrogates(text)  # as every passage holds it
    chunks = cut(text, size, overlap)
    assert "".join(text.split()) == "" or all(c.text for c in chunks)
    assert all(part.title == "Title" for part in chunks)
    check_chunks(text, size, overlap, chunks)


def test_a_passage_that_fits_is_returned_as_it_is() -> None:
    passage = Passage("p#7", "Title", "  two words \n")
    assert chunk_passage(passage, 512) == (passage,)
    assert chunk_passage(passage, 512)[0].parent == "p#7"


@pytest.mark.parametrize(
    ("text", "size", "first"),
    [
        ("one two. three four\nfive six\n\nseven. eight\nnine ten", 14, "one two. three four\nfive six"),
        ("one two. three four\nfive. six seven eight nine ten", 9, "one two. three four"),
        ("one two three. four five six seven eight", 5, "one two three."),
        ("one two three four five six seven eight", 5, "one two three four five"),
        ("one. two three four five six seven eight", 6, "one. two three four five"),
    ],
    ids=["paragraph", "line", "sentence", "word", "not in the first half"],
)
def test_the_largest_boundary_in_the_second_half_wins(text: str, size: int, first: str) -> None:
    assert cut(text, size)[0].text == first


def test_words_stay_whole_and_long_ones_are_cut_between_characters() -> None:
    assert [c.text for c in cut("alpha beta gamma delta", 2)] == ["alpha beta", "gamma delta"]
    emoji = "👩🏽‍🚀" * 20
    assert "".join(c.text for c in cut(emoji, 7)) == emoji


def test_the_next_chunk_repeats_whole_words() -> None:
    text = " ".join(f"word{n % 10}" for n in range(200))
    chunks = cut(text, 40, 0.25)
    for before, after in itertools.pairwise(chunks):
        repeated = text[after.start : before.start + len(before.text)]
        assert repeated.startswith("word")
        assert 5 <= tokens.count(repeated) <= 10


def test_a_blank_text_too_long_to_keep_becomes_one_empty_chunk() -> None:
    text = "\n \t" * 400
    assert cut(text, 3) == (Passage("p#0", "Title", ""),)


def test_pathological_texts_take_no_time() -> None:
    for text in ("." * 50_000, " \n" * 50_000, "x" * 20_000, "。" * 20_000, "1" * 20_000):
        assert "".join(c.text for c in cut(text, 100)) == text.strip()


@pytest.mark.parametrize(
    ("size", "overlap"), [(0, 0.0), (-1, 0.0), (10, 1.0), (10, -0.1), (10, float("nan"))]
)
def test_impossible_sizes_are_refused(size: int, overlap: float) -> None:
    with pytest.raises(UsageError, match="got"):
        cut("text", size, overlap)


@pytest.mark.parametrize("name", ["C#", "a#b", "page#3", "page#12", "#4", "#0", "x#", "a#0#b", "a#²"])
def test_an_uncut_passage_is_its_own_parent_whatever_its_id(name: str) -> None:
    assert Passage(name, "", "text").parent == name
    chunks = chunk_passage(Passage(name, "", "one two three four " * 10), 8, 0.5)
    assert len(chunks) > 2
    assert {c.parent for c in chunks} == {name}


def test_markers_are_plain_text_and_loading_leaves_the_environment_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "/nowhere")
    tokens.encoding.cache_clear()
    assert tokens.count("<|endoftext|>") > 1
    assert os.environ["TIKTOKEN_CACHE_DIR"] == "/nowhere"


def test_a_missing_encoding_is_named_and_never_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens.encoding.cache_clear()
    monkeypatch.setattr(tokens, "_FILE", "absent")
    with pytest.raises(UsageError, match=r"cl100k_base.*litellm"):
        tokens.count("text")
