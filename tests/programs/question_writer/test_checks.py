"""The checks of written questions that take no model, and which sentences are asked about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragc.programs.question_writer.checks import (
    CHECKS,
    Excerpt,
    WrittenQuestion,
    is_new,
    known_of,
    self_contained,
)
from ragc.programs.question_writer.writer import topics
from ragc.records import Passage

TEXT = "The Harbour Museum opened in 1974. It holds 312 model ships in Tarnsey. Entry is free on Sundays."
SHIPS = "It holds 312 model ships in Tarnsey."
OPENED = "The Harbour Museum opened in 1974."


def excerpt(title: str = "Harbour Museum", text: str = TEXT) -> Excerpt:
    return Excerpt(Passage(f"{title}.md", title, text), f"{title}.md", text, text)


def written(
    question: str, answer: str = "1974", quote: str = OPENED, kind: str = "single", *excerpts: Excerpt
) -> WrittenQuestion:
    return WrittenQuestion("w-1", kind, excerpts or (excerpt(),), question, answer, quote)


def failed(question: WrittenQuestion) -> str:
    return next((check.__name__ for check in CHECKS[question.kind] if not check(question)), "")


@pytest.mark.parametrize(
    ("question", "answer", "quote", "check"),
    [
        ("In which year was the museum at the harbour inaugurated?", "1974", OPENED, ""),
        ("How many vessels does the harbour museum in town comprise?", "312", SHIPS, ""),
        ("The museum was inaugurated in which year", "1974", OPENED, "well_formed"),
        ("When was it built? And who built it?", "1974", OPENED, "well_formed"),
        ("Year?", "1974", OPENED, "well_formed"),
        ("What year does the passage give for the inauguration?", "1974", OPENED, "self_contained"),
        ("What is the year mentioned in this article?", "1974", OPENED, "self_contained"),
        ("When and by whom was the Harbour Museum inaugurated?", "1974", OPENED, "self_contained"),
        ("In which year and city was the Harbour Museum inaugurated?", "1974", OPENED, "self_contained"),
        ("How many ships does it own in all?", "312", SHIPS, "self_contained"),
        ("Which year, 1974 or later, saw the Harbour Museum inaugurated?", "1974", OPENED, "hides_answer"),
        ("When was the Harbour Museum demolished?", "1988", OPENED, "stated"),
        ("When was the Harbour Museum built?", "", OPENED, "hides_answer"),
        ("When was the Harbour Museum demolished?", "1988", "It was demolished in 1988.", "stated"),
        ("When was the Harbour Museum built?", "1974", "1974", "stated"),
        ("Where does the Harbour Museum stand?", "model", SHIPS, "no_rival"),
        ("How many vessels did the Harbour Museum own in 1980?", "312", SHIPS, "one_fact"),
        ("The Harbour Museum opened when, on Sundays free?", "1974", OPENED, "own_words"),
    ],
)
def test_checks_reject_a_question_at_the_first_that_it_does_not_meet(
    question: str, answer: str, quote: str, check: str
) -> None:
    assert failed(written(question, answer, quote)) == check


def test_stated_takes_a_quote_that_is_broken_over_lines_or_miscopied_by_a_letter() -> None:
    broken = excerpt(text=TEXT.replace("holds 312 model", "holds\n312  model"))
    question = written(
        "How many vessels does the harbour museum in town comprise?", "312", SHIPS, "single", broken
    )
    assert not failed(question)
    assert not failed(replace(question, quote="It hold 312 model ships in Tarnsey."))


@pytest.mark.parametrize(
    ("question", "title", "names"),
    [
        ("What is the title of the book?", "Harbour Museum", False),
        ("which harbour museum holds the most model ships?", "Harbour Museum", True),
        ("How many ships does the museum hold?", "Harbour Museum", False),  # which one?
        ("Where do plugins go?", "Installing plugins", True),
        ("Which novel won the Brevik Prize?", "Harbour Museum", True),
        ("In which language was the 1920 film directed in Oslo?", "Harbour Museum", False),
        ("Who directed the film Heat?", "Harbour Museum", True),
        ("Who was the author of the novel Middlemarch?", "Harbour Museum", True),
        ("Did Ada Lovelace publish her notes?", "Harbour Museum", True),
        ("Where was the author born?", "Harbour Museum", False),
    ],
)
def test_self_contained_wants_a_name_or_words_of_the_title(question: str, title: str, names: bool) -> None:
    assert self_contained(written(question, "1974", OPENED, "single", excerpt(title))) == names


def test_stated_wants_a_linked_answer_in_the_second_passage_alone() -> None:
    text = "The old quay of Tarnsey was built in 1820. It is as long as the Harbour Museum since 1974."
    pair = (excerpt(), excerpt("Quay", text))
    question = "When was the place where the museum of the Harbour stands made?"
    linked = written(question, "1820", "The old quay of Tarnsey was built in 1820.", "two_passage", *pair)
    assert failed(linked) == ""
    also_first = replace(linked, answer="1974", quote="It is as long as the Harbour Museum since 1974.")
    assert failed(also_first) == "stated"


@pytest.mark.parametrize(("answer", "check"), [("yes", ""), ("Quay", ""), ("Oslo", "names_one")])
def test_names_one_takes_yes_no_and_words_of_a_passage_for_a_comparison(answer: str, check: str) -> None:
    pair = (excerpt(), excerpt("Quay", "The quay was built in 1820."))
    assert (
        failed(written("Is the Quay older than the Harbour Museum in age?", answer, "", "comparison", *pair))
        == check
    )


def test_is_new_compares_words_numbers_and_facts() -> None:
    known = [
        known_of("In which year did the Harbour Museum open?", ["1974"], ["museum.md"]),
        known_of("How many people came in 1974 to see the ships?", ["9"], ["a"]),
    ]
    assert not is_new(known_of("In what year did the Harbour Museum open?", ["then"], ["other.md"]), known)
    assert not is_new(known_of("When was the grand inauguration?", ["1974"], ["museum.md"]), known)
    assert is_new(known_of("When was the grand inauguration?", ["1974"], ["other.md"]), known)
    assert is_new(known_of("How many people came in 1975 to see the ships?", ["8"], ["b"]), known)


ROWS = [
    {"id": f"d{n}.md", "title": f"Report {n}", "text": f"# Report\n\nThe plant in Town{n} makes boats that "
     f"are sold in most\nharbours of the north.\n\n| a | b |\n\nIs it large? Founded by Ada in year 19{n}"}
    for n in range(10, 40)
]  # fmt: skip


def test_topics_are_whole_sentences() -> None:
    sentences = {topic.excerpts[0].sentence for topic in topics(lambda: ROWS, 90, ("single",))}
    whole = "The plant in Town{} makes boats that are sold in most harbours of the north."
    assert sentences == {whole.format(n) for n in range(10, 40)}


def test_topics_have_a_name_or_number_without_a_rival_or_none() -> None:
    sentences = (
        "The shelf by the door holds many old books.",
        "The shelf from 1890 holds 40 maps of all lands.",
        "The shelf was moved in 1930 and in 1950.",
    )
    rows = [{"id": "d.md", "title": "Shelves", "text": " ".join(sentences)}]
    chosen = {topic.excerpts[0].sentence for topic in topics(lambda: rows, 9, ("single",))}
    assert chosen == {*sentences[:2]}


def test_topics_take_turns_over_documents_and_do_not_depend_on_others() -> None:
    text = " ".join(f"The shelf number {n} holds many books." for n in range(99))
    long = {"id": "long", "title": "", "text": text}
    kinds = ("single", "unanswerable")
    chosen = topics(lambda: [long, *ROWS], 31, kinds)
    assert {topic.excerpts[0].document for topic in chosen} == {"long", *(row["id"] for row in ROWS)}
    assert {topic.kind for topic in chosen} == {*kinds}
    assert {topic.id for topic in topics(lambda: ROWS, 30, kinds)} < {topic.id for topic in chosen}
    assert topics(lambda: [long], 9, ("unanswerable",)) == []  # nothing says what it is about
