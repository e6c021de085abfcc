"""Chunks reproduce their text, cover it, keep to their size and end where a reader would end them."""

from __future__ import annotations

import itertools
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.core.text import repair_surrogates
from ragc.corpora.chunking import chunk
from ragc.corpora.chunking.chunk import chunk_passage
from ragc.errors import UnknownName, UsageError
from ragc.records import Passage
from tests.examples import examples

PIECES = st.sampled_from(
    ["# One\n", "\n## Two\n", "Set\n===\n", "- item\n", "  - inner\n", "1. first\n", "| a | b |\n|---|---|\n",
     "| c | d |\n", "```py\n", "```\n", "    code\n", "> quote\n", "word ", "Sentence ends. ", "\n\n", "\r\n",
     "汉字也是文字。", "👩‍👩‍👧", "12345678", "\ud800", "<|endoftext|>", "---\n", "\t", "\x0c", "\u3000",
     "naïve", "' ", "....", "हिन्दी ", "key: v\n"]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=8), max_size=60).map("".join)
SENTENCE = "Some plain words stand here. "


def check_chunks(text: str, size: int, overlap: float, chunks: tuple[Passage, ...]) -> None:
    """Asserts what cutting promises of chunks, whatever the text; `text` has the id p and the title Title."""
    if chunk.count(text) <= size:
        assert chunks == (Passage("p", "Title", text),)
        return
    done = 0
    for n, part in enumerate(chunks):
        assert (part.id, part.parent) == (f"p#{n}", "p")
        assert text[part.start : part.start + len(part.text)] == part.text == part.text.strip()
        assert chunk.count(part.text) <= size or (len(part.text) == 1 and size < 4)
        assert not text[done : part.start].strip()
        if n:
            assert part.start > chunks[n - 1].start
            assert chunk.count(text[part.start : done]) <= overlap * size
        assert part.start + len(part.text) > done or not text.strip()
        done = part.start + len(part.text)
    assert not text[done:].strip()


def texts(text: str, size: int, overlap: float = 0.0, by: str = "markdown") -> list[str]:
    chunks = chunk_passage(Passage("p", "Title", text), size, overlap, by)
    check_chunks(text, size, overlap, chunks)
    return [part.text for part in chunks]


@settings(max_examples=examples(300), deadline=None)
@given(TEXTS, st.integers(1, 40), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 0.99]))
def test_chunks_are_faithful_complete_and_small(text: str, size: int, overlap: float) -> None:
    text = repair_surrogates(text)  # as every passage holds it
    cut = {by: texts(text, size, overlap, by) for by in ("text", "markdown", "sections")}
    assert cut["sections"] == cut["markdown"]


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
    assert texts(text, size, by="text")[0] == first


def test_words_stay_whole_and_long_ones_are_cut_between_characters() -> None:
    assert texts("alpha beta gamma delta", 2, by="text") == ["alpha beta", "gamma delta"]
    emoji = "👩🏽‍🚀" * 20
    assert "".join(texts(emoji, 7, by="text")) == emoji


def test_the_next_chunk_repeats_whole_words() -> None:
    text = " ".join(f"word{n % 10}" for n in range(200))
    chunks = chunk_passage(Passage("p", "", text), 40, 0.25)
    for before, after in itertools.pairwise(chunks):
        repeated = text[after.start : before.start + len(before.text)]
        assert repeated.startswith("word")
        assert 5 <= chunk.count(repeated) <= 10


def test_a_blank_text_too_long_to_keep_becomes_one_empty_chunk() -> None:
    text = "\n \t" * 400
    assert chunk_passage(Passage("p", "Title", text), 3) == (Passage("p#0", "Title", ""),)


def test_sections_stay_whole_and_begin_chunks() -> None:
    sections = [f"## Part {n}\n\n{SENTENCE * (3 + n % 3)}\n\n{SENTENCE * 2}".strip() for n in range(12)]
    largest = max(chunk.count(section) for section in sections)
    assert texts("\n\n".join(sections), largest) == sections


def test_a_higher_heading_goes_before_a_lower_one() -> None:
    low = f"## Low\n\n{SENTENCE * 2}".strip()
    first = f"# A\n\n{SENTENCE * 2}\n\n{low}"
    second = f"# B\n\n{low}\n\n{low}\n\n{low}"
    size = chunk.count(f"{first}\n\n# B\n\n{low}\n\n{low}")
    assert texts(f"{first}\n\n{second}", size)[0] == first


def test_without_headings_blocks_stay_whole() -> None:
    paragraphs = [f"Paragraph {n}. {SENTENCE * (2 + n % 4)}".strip() for n in range(20)]
    code = "```py\n" + "\n\n".join(f"value_{n} = {n}" for n in range(8)) + "\n```"
    blocks = [*paragraphs[:7], code, *paragraphs[7:]]
    chunks = texts("\n\n".join(blocks), 80)
    assert all(sum(block in part for part in chunks) == 1 for block in blocks)


def test_a_list_is_cut_between_its_outer_items() -> None:
    items = [f"- item {n} {SENTENCE}\n  - inner {SENTENCE}\n  - inner {SENTENCE}".strip() for n in range(20)]
    for part in texts("\n".join(items), 90):
        assert part.startswith("- item")
        assert part.count("- inner") == 2 * part.count("- item")


def test_table_rows_stay_whole_and_a_table_that_fits_is_one_chunk() -> None:
    rows = [f"| row {n} | {SENTENCE}|" for n in range(30)]
    head = "| a | b |\n|---|---|"
    long = "\n".join([head, *rows])
    chunks = texts(long, 60)
    assert len(chunks) > 3
    assert "\n".join(chunks) == long
    short = "\n".join([head, *rows[:4]])
    size = chunk.count(short) + 4
    assert short in texts(f"{SENTENCE}\n\n{short}\n\n{SENTENCE * 20}", size)


@pytest.mark.parametrize("overlap", [0.0, 0.3])
def test_code_that_fits_is_never_cut_even_for_what_could_be_repeated(overlap: float) -> None:
    code = "```py\n" + "\n".join(f"value_{n} = compute({n})\n" for n in range(9)) + "```"
    size = chunk.count(code) + 4
    text = "\n\n".join([SENTENCE.strip() * 2, code, SENTENCE.strip(), code, code, SENTENCE * 3])
    chunks = texts(text, size, overlap)
    assert sum(part.count(code) for part in chunks) == 3
    assert all(part.count("```") == 2 * part.count(code) for part in chunks)


def test_code_too_long_is_cut_between_lines_at_best_blank_ones() -> None:
    functions = [f"def name_{n}(value):\n    wanted = value + {n}\n    return wanted" for n in range(30)]
    chunks = texts("```py\n" + "\n\n".join(functions) + "\n```", 80)
    assert len(chunks) > 4
    assert all(part.startswith(("```py\ndef", "def")) for part in chunks)
    assert all(part.endswith(("return wanted", "return wanted\n```")) for part in chunks)


def test_a_block_too_long_is_cut_as_plain_text_is() -> None:
    long = SENTENCE * 40
    chunks = texts(f"# Head\n\n{long}\n\n# Next\n\n{SENTENCE}", 50)
    assert chunks[0].startswith("# Head\n\nSome plain")
    assert all(part.endswith("here.") for part in chunks)
    assert chunks[-1].endswith(f"# Next\n\n{SENTENCE.strip()}")


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(1, 12), min_size=2, max_size=20), st.data())
def test_a_heading_never_ends_a_chunk(lengths: list[int], data: st.DataObject) -> None:
    parts: list[str] = []
    for n, length in enumerate(lengths):
        levels = data.draw(st.lists(st.integers(1, 3), max_size=2))
        parts += [f"{'#' * level} Heading {n}" for level in levels]
        parts.append(SENTENCE * length)
    text = "\n\n".join(parts)
    for part in texts(text, data.draw(st.integers(30, 90)), data.draw(st.sampled_from([0.0, 0.25]))):
        assert not part.splitlines()[-1].startswith("#")


def test_the_next_chunk_repeats_blocks_or_words_and_nothing_before_a_heading() -> None:
    items = "\n".join(f"- item {n} of many" for n in range(60))
    text = f"# A\n\n{items}\n\n# B\n\n{items}"
    chunks = chunk_passage(Passage("p", "", text), 60, 0.3, "markdown")
    repeated = [
        text[after.start : before.start + len(before.text)] for before, after in itertools.pairwise(chunks)
    ]
    assert sum(part.startswith("- item") for part in repeated) > 8
    (new,) = (part for part in chunks if "# B" in part.text)
    assert new.text.startswith("# B")
    paragraph = SENTENCE * 60
    for part in texts(paragraph, 60, 0.3)[1:]:
        assert part[0].isalpha()


def test_titles_name_the_section() -> None:
    def titles(title: str, text: str) -> list[str]:
        return [part.title for part in chunk_passage(Passage("p", title, text), 40, by="sections")]

    body = (SENTENCE * 5).strip()
    text = f"{body}\n\n# Install\n\n{body}\n\n## *Linux*\n\n{body}\n\n# Use\n\n{body}"
    assert titles("Guide", text) == ["Guide", "Guide: Install", "Guide: Install > Linux", "Guide: Use"]
    assert titles("", text) == ["", "Install", "Install > Linux", "Use"]
    assert titles("install", text) == ["install", "install", "install: Linux", "install: Use"]
    assert chunk_passage(Passage("p", "Guide", "# A\n\nb"), 40, by="sections") == (
        Passage("p", "Guide", "# A\n\nb"),
    )


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, "# a\n" * 5_000, "- a\n" * 5_000, "> " * 50_000, "```\n" + "x\n" * 20_000,
     "| a |\n|-|\n" + "| b |\n" * 5_000, "|" * 100_000 + "\n" + "|-" * 100_000 + "\n" + "|" * 100_000,
     "- " * 20_000 + "x", "\n" * 100_000, "#" * 100_000, "| " * 50_000, "> ```\na\n" * 5_000,
     "".join(f"{'  ' * n}- a\n" for n in range(300)), "<!-- \n" * 5_000, "[a\n" * 5_000,
     " " * 1_000_000 + "x",
     "---\nkey: value\n" * 2_000, "A" * 300_000, "." * 50_000,
     "。" * 20_000, "A long line of words. " * 70_000],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_hostile_texts_are_cut_as_all_others(text: str) -> None:
    texts(text, 100, 0.2)
    texts(text, 100, 0.2, "text")


def test_methods_are_told_by_name() -> None:
    settings = [chunk.settings(40, 0.0, by) for by in chunk.METHODS]
    assert settings[0] == [40, 0.0, chunk.VERSION]
    assert len(set(map(tuple, settings))) == len(chunk.METHODS)
    with pytest.raises(UnknownName, match="Did you mean 'markdown'"):
        chunk_passage(Passage("p", "", "text"), 40, by="markdwn")


@pytest.mark.parametrize(("size", "overlap"), [(0, 0.0), (10, 1.0), (10, float("nan"))])
@pytest.mark.parametrize("by", chunk.METHODS)
def test_impossible_sizes_are_refused(size: int, overlap: float, by: str) -> None:
    with pytest.raises(UsageError, match="got"):
        chunk_passage(Passage("p", "", "text"), size, overlap, by)


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
    chunk.encoding.cache_clear()
    assert chunk.count("<|endoftext|>") > 1
    assert os.environ["TIKTOKEN_CACHE_DIR"] == "/nowhere"


def test_a_missing_encoding_is_named_and_never_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    chunk.encoding.cache_clear()
    monkeypatch.setattr(chunk, "_FILE", "absent")
    with pytest.raises(UsageError, match=r"cl100k_base.*litellm"):
        chunk.count("text")
