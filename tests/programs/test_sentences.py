"""The sentences of a text, in real language."""

from __future__ import annotations

import gzip
import json

import pytest

from ragc.programs.sentences import all_sentences, first_sentence
from tests.paths import SHARED_DATA

PARAGRAPHS = SHARED_DATA / "hotpotqa" / "orig" / "hipporag_hotpotqa_train100.json.gz"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Ann sang. Bob danced. Eve slept.", "Ann sang."),
        ("Dr. J. K. Rowling lives in St. Louis. She writes.", "Dr. J. K. Rowling lives in St. Louis."),
        ("It cost $3.5 million, i.e. a lot. Nobody paid.", "It cost $3.5 million, i.e. a lot."),
        ("It stands at No. 5 Main Street. It is old.", "It stands at No. 5 Main Street."),
        ("Was it a dog? The answer is no. It was a cat.", "Was it a dog?"),
        ("The answer is no. It was a cat.", "The answer is no."),
        ('He said "I sank." Then he left.', 'He said "I sank."'),
        ("The U.S. Senate voted in Sept. 1912. It passed.", "The U.S. Senate voted in Sept. 1912."),
        ("Films by M. R. C. Movies came first. Others followed.", "Films by M. R. C. Movies came first."),
        ("1. Paris is the capital. 2. Rome is another.", "1. Paris is the capital."),
        ("Well... it sank! Nobody knew.", "Well... it sank!"),
        ("The first line\nThe second line", "The first line"),
        ("東京は日本の首都です。人口は多い。", "東京は日本の首都です。"),
    ],
)
def test_the_first_sentence_ends_where_a_reader_ends_it(text: str, first: str) -> None:
    assert first_sentence(f"  {text} ") == (first, True)


@pytest.mark.parametrize("text", ["", "Ann was born in War", "She lived with Dr.", "It was sold in the U.S."])
def test_a_sentence_without_its_end_is_called_so(text: str) -> None:
    assert first_sentence(text) == (text, False)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (" A title\nAnn sang.  Dr. Lee danced! ", ["A title", "Ann sang.", "Dr. Lee danced!"]),
        ("It was sold in the U.S.", ["It was sold in the U.S."]),
        (" \n ", []),
    ],
)
def test_a_text_is_cut_into_its_sentences(text: str, sentences: list[str]) -> None:
    assert all_sentences(text) == sentences


WRAPPED = """\
# Opening hours of the library in the old town hall
The library of Tarnsey, which was founded by a widow,
Edda Lund, in 1911 lends books to all who are
readers of it.

- Monday is for members
- on Sunday all may come

Oslo
Bergen
"""


def test_a_line_s_end_within_prose_ends_no_sentence() -> None:
    assert all_sentences(WRAPPED) == [
        "# Opening hours of the library in the old town hall",
        WRAPPED.partition("\n")[2].partition("\n\n")[0].replace("\n", " "),
        "- Monday is for members",
        "- on Sunday all may come",
        "Oslo",
        "Bergen",
    ]


@pytest.mark.skipif(not PARAGRAPHS.exists(), reason="HotpotQA's paragraphs are not beside the repository")
def test_the_first_sentence_of_real_paragraphs_is_that_of_their_editors() -> None:
    with gzip.open(PARAGRAPHS, "rt", encoding="utf-8") as file:
        context = [sentences for question in json.load(file) for _, sentences in question["context"]]
    paragraphs = [[s.strip() for s in sentences if s.strip()] for sentences in context]
    paragraphs = [sentences for sentences in paragraphs if len(sentences) > 1]
    agreed = sum(first_sentence(" ".join(sentences))[0] == sentences[0] for sentences in paragraphs)
    assert len(paragraphs) > 900
    assert agreed / len(paragraphs) > 0.98
