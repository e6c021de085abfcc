"""What holds for chunks, however they are cut."""

from __future__ import annotations

from ragc.corpora.chunking import tokens
from ragc.records import Passage


def check_chunks(text: str, size: int, overlap: float, chunks: tuple[Passage, ...]) -> None:
    """Asserts what cutting promises of chunks, whatever the text; `text` has the id p and the title Title."""
    if tokens.count(text) <= size:
        assert chunks == (Passage("p", "Title", text),)
        return
    done = 0
    for n, part in enumerate(chunks):
        assert (part.id, part.parent) == (f"p#{n}", "p")
        assert text[part.start : part.start + len(part.text)] == part.text == part.text.strip()
        assert tokens.count(part.text) <= size or (len(part.text) == 1 and size < 4)
        assert not text[done : part.start].strip()
        if n:
            assert part.start > chunks[n - 1].start
            assert tokens.count(text[part.start : done]) <= overlap * size
        assert part.start + len(part.text) > done or not text.strip()
        done = part.start + len(part.text)
    assert not text[done:].strip()
