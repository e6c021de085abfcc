"""Text, Markdown and tables in text files: their encodings, titles and cells; and what is no text at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragc.corpora.documents import text
from ragc.corpora.documents.base import UnreadableDocument, cleaned, real_title
from ragc.corpora.documents.reading import read_content


@pytest.mark.parametrize(
    "title",
    ["untitled", "Untitled Document", "Microsoft Word - terms.docx", "(anonymous)", "PowerPoint Presentation",
     "tmp8x2k1.html", "report-final.indd", "Document1", " "],
)  # fmt: skip
def test_titles_that_programs_write_are_none(title: str) -> None:
    assert real_title(title) == ""
    assert real_title("Terms of use") == "Terms of use"


@pytest.mark.parametrize(
    ("words", "encoding"),
    [
        ("Срок возврата товара составляет четырнадцать дней.", "cp1251"),
        ("The “returns” period – it’s €20 for you", "cp1252"),
        ("A inscrição não é paga até amanhã; opções à direita.", "cp1252"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy.", "cp1250"),
        ("İstanbul, Türkiye'nin en kalabalık, iktisadi ve kültürel açıdan en önemli şehri.", "cp1254"),
        ("返品は14日以内です。", "cp932"),
    ],
)
def test_text_of_unknown_encoding_is_read_and_told(words: str, encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(words.encode(encoding))
    document = text.read(tmp_path / "a.txt")
    assert document.pages[0].text == words
    assert document.notes[0].startswith("its encoding is not said; it was read as ")


def test_a_wrong_byte_spoils_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Rückgabefrist beträgt vierzehn Tage, schöne Grüße".encode() + b"\xff")
    document = text.read(tmp_path / "a.txt")
    assert document.pages[0].text.startswith("Rückgabefrist beträgt")
    assert document.notes == ("bytes that are not utf-8 were replaced: 1",)


def test_pictures_in_base64_and_endless_blanks_are_no_text() -> None:
    picture = "data:image/png;base64," + "iVBORw0KGgo" * 500
    pictures = f"See ![the plant]({picture}) here.\n\n[img]: <{picture}>"
    assert cleaned(pictures) == "See the plant here.\n\n[img]: "
    assert cleaned(f"a{' ' * 1_000_000}b") == "a b"
    assert cleaned("Kranken\xadversicherung be\u200btragen") == "Krankenversicherung betragen"


def test_markdown_stands_and_lines_of_text_are_escaped(tmp_path: Path) -> None:
    markdown = "```bash\n# install it\n```\n\nSet it up\n=========\n\n## First\n\n- one\n"
    (tmp_path / "a.md").write_text(markdown, "utf-8")
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe" + "# a comment\n| no table\nKöln".encode("utf-16-le"))
    assert text.read(tmp_path / "a.md").title == "Set it up"
    assert text.read(tmp_path / "a.md").pages[0].text == markdown
    assert text.read(tmp_path / "b.txt").pages[0].text == "\\# a comment\n\\| no table\nKöln"


def test_a_lone_quote_swallows_no_rows_and_a_backslash_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('name\tsize\n"large\t3\nC:\\data\t1\n', "utf-8")
    (page,) = text.read_table(tmp_path / "a.tsv").pages
    assert page.text.splitlines()[2:] == ['| "large | 3 |', "| C:\\data | 1 |"]


def test_a_file_that_becomes_a_pipe_or_a_link_is_not_waited_for_or_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regular = tmp_path / "a.txt"
    regular.write_text("secret")
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "link.txt").symlink_to(regular)
    state = regular.lstat()
    monkeypatch.setattr(Path, "lstat", lambda _: state)  # as it was when it was looked at
    with pytest.raises(UnreadableDocument, match="is empty"):
        read_content(tmp_path / "pipe.txt")
    with pytest.raises(UnreadableDocument, match="symbolic link"):
        read_content(tmp_path / "link.txt")
