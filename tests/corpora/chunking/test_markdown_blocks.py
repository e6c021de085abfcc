"""The blocks of any text are exact, cover it and nest; headings lead to every place in it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora.chunking import markdown_blocks
from ragc.corpora.chunking.markdown_blocks import Block, Outline, blocks
from tests.examples import examples, thorough

PIECES = st.sampled_from(
    ["# One\n", "### Three\n", "Set\n===\n", "- item\n", "  - inner\n", "1. first\n", "| a | b |\n",
     "|---|---|\n", "```py\n", "```\n", "~~~\n", "> quote\n", "    code\n", "---\n", "<div>\n", "<!-- ",
     "text ", "\n", "\r\n", "\r", "\t", "[a]: b\n", "\x00", "\ud800", "\x0c\n", "\u3000\n", "\u2028",
     "key: v\n", "-\n", "***", "|"]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=6), max_size=50).map("".join)

PAGE = """---
title: Guide
---

# The *Guide* to `x`

Intro
goes on.

- a
  - inner

    more
- b

| k | v |
|---|---|
| 1 | 2 |
| 3 | 4 |

> said
so on

```py
# no heading

y = 1
```

Set [up](http://example.org)
====

<div>
# no heading
</div>

    indented

[ref]: http://example.org
"""


@settings(max_examples=examples(200), deadline=None)
@given(TEXTS)
def test_blocks_of_any_text_are_exact_nested_and_complete(text: str) -> None:
    all_blocks = blocks(text)
    assert [block.start for block in all_blocks] == sorted(block.start for block in all_blocks)
    open_: list[Block] = []
    done = 0
    for block in all_blocks:
        held = text[block.start : block.end]
        assert held
        assert held == held.strip()
        assert not text[max(text.rfind(end, 0, block.start) for end in "\r\n") + 1 : block.start].strip() or (
            block.depth
        )
        del open_[block.depth :]
        assert len(open_) == block.depth
        assert all(outer.start <= block.start and block.end <= outer.end for outer in open_)
        open_.append(block)
        if not block.depth:
            assert not text[done : block.start].strip()
            assert block.start >= done
            done = block.end
    assert not text[done:].strip()


def test_every_kind_is_found_where_it_stands() -> None:
    outline = [
        (block.kind, block.depth, PAGE[block.start : block.end].partition("\n")[0]) for block in blocks(PAGE)
    ]
    assert outline == [
        ("front", 0, "---"),
        ("heading", 0, "# The *Guide* to `x`"),
        ("paragraph", 0, "Intro"),
        ("list", 0, "- a"),
        ("item", 1, "- a"),
        ("paragraph", 2, "- a"),
        ("list", 2, "- inner"),
        ("item", 3, "- inner"),
        ("paragraph", 4, "- inner"),
        ("paragraph", 4, "more"),
        ("item", 1, "- b"),
        ("paragraph", 2, "- b"),
        ("table", 0, "| k | v |"),
        ("row", 1, "| k | v |"),
        ("row", 1, "| 1 | 2 |"),
        ("row", 1, "| 3 | 4 |"),
        ("quote", 0, "> said"),
        ("fence", 0, "```py"),
        ("heading", 0, "Set [up](http://example.org)"),
        ("html", 0, "<div>"),
        ("code", 0, "indented"),
        ("paragraph", 0, "[ref]: http://example.org"),
    ]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("", []),
        (" \n\t\n", []),
        ("---\n\ntext\n\n---\n", ["rule", "paragraph", "rule"]),
        ("---\nkey: value\n", ["rule", "paragraph"]),
        ("> a\n\nb", ["quote", "paragraph"]),
        ("> a\n# B", ["quote", "heading"]),
        ("| a |\n|---|\n| b |\n# C", ["table", "row", "row", "heading"]),
        ("| a | b |\n|---|\n", ["paragraph"]),
        ("#no heading", ["paragraph"]),
        ("```\nnever closed\n\n# inside", ["fence"]),
        ("a\r\n\r\n# b\r\n", ["paragraph", "heading"]),
        ("a\r\r# b\r", ["paragraph", "heading"]),
    ],
)
def test_edges(text: str, kinds: list[str]) -> None:
    assert [block.kind for block in blocks(text)] == kinds


def test_the_path_leads_through_the_sections() -> None:
    text = "intro\n\n# A\n\n### A3 **bold** [link](u) `code`\n\nx\n\n## A2 ##\n\n> # quoted\n\n- # listed\n\n"
    text += "B\n===\n\ny\n\n#\n\nz"
    outline = Outline(text)
    deep = ("A", "A3 bold link code")
    expected = {
        "intro": (), "# A": ("A",), "### A3": deep, "x\n": deep, "## A2": ("A", "A2"), "quoted": ("A", "A2"),
        "listed": ("A", "A2"), "B\n": ("B",), "y": ("B",), "z": (),
    }  # fmt: skip
    for name, path in expected.items():
        assert outline.path(text.index(name)) == path
    assert outline.path(-1) == ()
    assert outline.path(10**9) == ()


def test_a_heading_of_many_lines_or_characters_is_one_short_line() -> None:
    assert Outline("one\ntwo  \nthree\n===\n").path(9) == ("one two three",)
    assert Outline(f"# {'[' * 100_000}").path(0) == ("[" * (markdown_blocks.MAX_HEADING_CHARS - 2),)


@thorough
@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "[" * 300_000 + "](" * 300_000,
        ">" * 1_000_000,
        "- " * 50_000 + "x",
        "> ```\na\n" * 10_000,
        "> " * 50 + "\n> a\n" * 10_000,
        "".join(f"{'  ' * n}- a\n" for n in range(600)),
        "<!-- \n" * 10_000,
        "<a" + " b" * 100_000,
        "`" * 500_000,
        "|" * 200_000 + "\n" + "|-" * 200_000 + "\n" + "|" * 200_000,
        "|a|\n|-|\n" + "|\n" * 10_000,
        "[a\n" * 20_000,
        "---\nkey: value\n" * 4_000,
        "1. a\n" * 4_000,
        "\n" * 200_000,
        " " * 1_000_000 + "x",
        "*_" * 300_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_texts_take_time_with_their_length_only(text: str) -> None:
    top_blocks = [block for block in blocks(text) if not block.depth]
    assert sum(len(text[block.start : block.end].split()) for block in top_blocks) == len(text.split())
    assert len(Outline(text).path(len(text))) <= 6


def test_many_threads_may_be_first() -> None:
    markdown_blocks._parser.cache_clear()
    markdown_blocks._inline.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: (blocks(PAGE), Outline(PAGE).path(len(PAGE))), range(16)))
    assert all(result == results[0] for result in results)
    assert results[0][1] == ("Set up",)
