"""The checks of written questions that take no model, and which sentences are asked about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ragc.programs.question_writer import checks
from ragc.programs.question_writer.base import DraftQuestion, Excerpt, Topic
from ragc.programs.question_writer.checks import CHECKS, KnownQuestions, overlap_of, same_answer
from ragc.programs.question_writer.choose import candidates, digest_of, nearest
from ragc.programs.question_writer.details import (
    DETAILS,
    NO_KIND,
    OFFERED,
    ORGANISATION,
    PERSON,
    WORK,
    asks_for,
    open_details,
)
from ragc.programs.question_writer.spans import sole_spans, spans

TEXT = "The Harbour Museum opened in 1974. It holds 312 model ships. Entry is free on Sundays."


def excerpt(name: str = "museum.md", text: str = TEXT, sentence: str = "") -> Excerpt:
    return Excerpt(name, name, "Harbour Museum", text, sentence or text, text, digest_of("", text))


def draft(question: str, answer: str = "1974", kind: str = "single", *excerpts: Excerpt) -> DraftQuestion:
    return DraftQuestion(Topic("w-1", kind, excerpts or (excerpt(),)), question, answer)


def failed(one: DraftQuestion) -> str:
    return next((name for name, check in CHECKS.items() if not check(one)), "")


@pytest.mark.parametrize(
    ("question", "answer", "kind", "check"),
    [
        ("In which year was the museum at the harbour inaugurated?", "1974", "single", ""),
        ("How many vessels does the collection in Tarnsey comprise?", "312", "single", ""),
        ("Who designed the Harbour Museum?", "", "unanswerable", ""),
        ("The museum was inaugurated in which year", "1974", "single", "well_formed"),
        ("When was it built? And who built it?", "1974", "single", "well_formed"),
        ("Year?", "1974", "single", "well_formed"),
        ("When was the museum at the harbour inaugurated?", "", "single", "well_formed"),
        ("What year does the passage give for the inauguration?", "1974", "single", "self_contained"),
        ("What is the year mentioned in this article?", "1974", "single", "self_contained"),
        ("How many ships does it own in all?", "312", "single", "self_contained"),
        ("Which year, 1974 or later, saw the Harbour Museum inaugurated?", "1974", "single", "hides_answer"),
        ("Which museum at a harbour holds 312 vessels?", "Harbour Museum", "single", "hides_answer"),
        ("When was the Harbour Museum demolished?", "1988", "single", "stated"),
        ("In which year was the museum at the harbour inaugurated?", "Sundays", "single", "fits_answer"),
        ("How many vessels does the Harbour Museum own?", "free on Sundays", "single", "fits_answer"),
        ("Who inaugurated the museum at the harbour?", "1974", "single", "fits_answer"),
        ("How many vessels did the Harbour Museum own in 1980?", "312", "single", "one_fact"),
        ("The Harbour Museum opened in what, on Sundays free?", "1974", "single", "own_words"),
    ],
)
def test_a_question_fails_the_first_check_that_it_does_not_meet(
    question: str, answer: str, kind: str, check: str
) -> None:
    assert failed(draft(question, answer, kind)) == check


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("What year was Lena Orbeck born?", "March 26, 1953", "1953"),
        ("In which year did it open?", "1974", "1974"),
        ("When was Lena Orbeck born?", "March 26, 1953", "March 26, 1953"),
        ("In which years did it close?", "1974 and 1981", "1974 and 1981"),
    ],
)
def test_who_asks_for_a_year_gets_the_year_of_a_date(question: str, answer: str, expected: str) -> None:
    assert checks.answer_to(question, answer) == expected


def test_the_author_of_a_named_book_is_no_pointer_to_the_passage() -> None:
    assert checks.self_contained(draft("Who was the author of the novel Middlemarch?"))
    assert not checks.self_contained(draft("Where was the author born?"))
    assert checks.self_contained(draft("Did Ada Lovelace publish her notes?"))


def test_a_question_names_its_subject() -> None:
    assert not checks.self_contained(draft("What is the title of the book?"))
    assert checks.self_contained(draft("which harbour museum holds the most model ships?"))
    assert not checks.self_contained(draft("How many ships does the museum hold?"))  # which one?
    manual = Excerpt("m.md", "m.md", "Installing plugins", TEXT, TEXT, TEXT, digest_of("", TEXT))
    assert checks.self_contained(draft("Where do plugins go?", "1974", "single", manual))
    assert checks.self_contained(draft("Which novel won the Brevik Prize?"))
    assert not checks.self_contained(draft("Which novel won the prize in 1974?"))
    assert not checks.self_contained(draft("In which language was the 1920 film directed in Oslo?"))
    assert checks.self_contained(draft("Who directed the film Heat?"))
    assert not checks.self_contained(draft("On which day did the ships reach Bergen?"))
    flood = Excerpt("f.md", "f.md", "1953 North Sea flood disaster", TEXT, TEXT, TEXT, digest_of("", TEXT))
    assert not checks.self_contained(draft("How many died in the flood disaster?", "312", "single", flood))
    assert checks.self_contained(draft("How many died in the North Sea flood?", "312", "single", flood))


def test_an_unanswerable_question_has_the_whole_title() -> None:
    assert checks.self_contained(draft("How many people does the Harbour Museum employ?", "", "unanswerable"))
    assert not checks.self_contained(draft("When was the Museum's Lena Orbeck born?", "", "unanswerable"))


def test_an_abbreviation_of_the_title_is_no_answer() -> None:
    named = "The Prize for Arctic Fiction (PAF) is given in spring."
    prize = Excerpt("p.md", "p.md", "Prize for Arctic Fiction", named, named, named, digest_of("", named))
    assert not checks.hides_answer(
        draft("What is the Prize for Arctic Fiction called?", "PAF", "single", prize)
    )
    assert spans(named, "Prize for Arctic Fiction") == ()


def test_an_unanswerable_question_asks_for_its_detail() -> None:
    questions = {
        "the height": "How tall is Lena Orbeck?",
        "the names of the parents": "What are the names of Lena Orbeck's parents?",
        "the number of people who work there": "How many staff does the Harbour Museum have?",
        "how long it took to make": "How many months did it take to film Heat?",
        "the person to ask about it": "Who answers questions on leave?",
    }
    for detail, question in questions.items():
        assert all(asks_for(other, question) == (other == detail) for other in questions)


def test_a_question_asks_one_thing() -> None:
    assert failed(draft("When and by whom was the Harbour Museum inaugurated?")) == "well_formed"
    assert failed(draft("In what year did the Harbour Museum and what else open?")) == "well_formed"
    assert failed(draft("In which year and city was the Harbour Museum inaugurated?")) == "well_formed"
    assert failed(draft("In which year was the museum of rock and roll at the harbour inaugurated?")) == ""


def test_an_unanswerable_question_has_no_names_of_its_own() -> None:
    assert not failed(draft("Who paid for the Harbour Museum?", "", "unanswerable"))
    assert (
        failed(draft("Who paid for the Orbeck wing of the Harbour Museum?", "", "unanswerable"))
        == "knows_names"
    )


def test_a_linked_answer_stands_in_the_second_passage_alone() -> None:
    other = excerpt("quay.md", "The old quay of Tarnsey was built in 1820.")
    assert checks.stated(draft("When was it built?", "1820", "two_passage", excerpt(), other))
    assert not checks.stated(draft("When was it built?", "1974", "two_passage", excerpt(), other))
    assert checks.stated(draft("Is it older?", "yes", "comparison", excerpt(), other))


def test_the_share_of_shared_words_is_that_of_content_words() -> None:
    assert overlap_of(draft("What is the museum of ships?")) == 1.0
    assert overlap_of(draft("Where is the museum in Paris?")) == 0.5


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("in 1974", "1974", True),
        ("1974", "1975", False),
        ("", "1974", False),
        ("a model ship", "Model ship", True),
    ],
)
def test_answers_are_compared_by_their_words(one: str, other: str, same: bool) -> None:
    assert same_answer(one, other) == same


def test_a_question_is_known_by_its_words_its_fact_or_its_vector() -> None:
    known = KnownQuestions()
    known.add("In which year did the Harbour Museum open?", ["1974"], ["museum.md"], [1.0, 0.0])
    assert known.has("In what year did the Harbour Museum open?", ["then"], ["other.md"])
    assert known.has("When was the grand inauguration?", ["1974"], ["museum.md"])
    assert known.has("When was the grand inauguration?", ["x"], ["y"], [0.95, 0.3])
    assert not known.has("When was the grand inauguration?", ["x"], ["y"], [0.3, 0.95])
    known.add("How many people came in 1974 to see the ships?", ["9"], ["a"])
    assert not known.has("How many people came in 1975 to see the ships?", ["8"], ["b"])


def test_possible_answers_are_names_numbers_and_titles_of_the_sentence() -> None:
    sentence = 'In 2008 the band from New York sold 1,200 copies of "Late Light" for 3.50 euros.'
    assert spans(sentence) == ("2008", "New York", "1,200 copies", "Late Light", "3.50 euros")
    assert spans(sentence, "New York") == ("2008", "1,200 copies", "Late Light", "3.50 euros")
    assert spans("it rains a lot here") == ()
    assert spans("On the bill were Pink Floyd, Roy Harper and Jethro Tull.") == ()  # one of several
    assert spans("Carole Gray was born in Bulawayo, Rhodesia.") == ("Carole Gray", "Bulawayo", "Rhodesia")
    assert spans("It features Kanye West and Roscoe Dash.") == ()
    assert spans("Participating in it were Guiteau's men, on 23 April 1420.") == ("Guiteau", "23 April 1420")
    assert spans("It ran from 1881, until 1883.") == ("1881", "1883")
    assert spans("He was 13th on the list, in Arthur Hailey's 1968 novel, in the late 1990s.") == (
        "13th", "Arthur Hailey", "1968"
    )  # fmt: skip
    assert spans("From 1990 to 1995 he won in Paris, before that in 1938 and 1946.") == ("Paris",)
    assert spans("Margaret Roper (1505\u201344) was a writer of the 16th century.") == (
        "Margaret Roper", "16th century"
    )  # fmt: skip
    assert spans("It holds 20 fluid ounces and 312 large wooden model ships, 5 km away.") == (
        "20 fluid ounces", "312", "5 km"
    )  # fmt: skip
    assert spans("A 2008 television film of 90 minutes.") == ("2008", "90 minutes")  # a year has no unit
    assert spans("The PEN American Center in New York City.") == ("PEN American Center", "New York City")


ROWS = [
    {"id": f"d{n}.md", "title": f"Report {n}", "text": f"# Report\nThe plant in Town{n} makes {n}0 boats a "
     f"year. | a | b |\nIs it large? It was founded by Ada{n} in 19{n}4 after the war."}
    for n in range(10, 40)
]  # fmt: skip


def rows() -> Iterable[Mapping[str, Any]]:
    return ROWS


def test_possible_answers_with_a_rival_are_none() -> None:
    assert sole_spans("In 2008 the band from Oslo sold 1,200 copies.") == ("2008", "Oslo", "1,200 copies")
    assert sole_spans("He won in Paris in 1938 with Ada Lund and in 1946 at the age of 30.") == ("30",)
    assert sole_spans("It was founded by Edda 'Doc' Lund and Ada Berg in 1990.") == ("1990",)
    assert sole_spans("It opened in May 1990, and it ran from 1995 to 1999.") == ()
    around = "The mill was built in 1810. It has 4 wheels, and in 1840 it burnt down."
    assert sole_spans("The mill was built in 1810.", "", around) == ()
    assert sole_spans("The mill was built in 1810.", "", around.replace("1840", "spring")) == ("1810",)


def test_sentences_with_the_only_name_or_number_are_asked_about_first() -> None:
    sentences = (
        "The shelf by the door holds many old books.",
        "The shelf holds 40 maps.",
        "The shelf was made in 1890 after the fire.",
        "The shelf was moved in 1930 and in 1950.",
        "The shelf is from Oslo, where it stood for long.",
        "The shelf was mended in 1960 by two men.",
    )
    only = [{"id": "d.md", "title": "Shelves", "text": " ".join(sentences)}]
    chosen = [one.excerpts[0].sentence for one in candidates(lambda: only, 9, ("single",))]
    assert {*chosen[:2]} == {sentences[1], sentences[4]}  # the only number of maps, and the only name
    assert {*chosen[2:4]} == {sentences[2], sentences[5]}  # the only year of its sentence
    assert chosen[4:] == [sentences[0]]


def test_details_to_ask_for_are_those_of_which_the_passage_has_no_word() -> None:
    assert set(DETAILS[PERSON]) > set(open_details(PERSON, "She was born in Oslo.")) != set()
    for name in map(str, range(20)):
        offered = open_details(PERSON, "He was born in Oslo, the son of a teacher.", name)
        assert len(offered) == OFFERED
        assert not {"the place of birth", "the year of birth", "the names of the parents"} & {*offered}
    assert open_details(NO_KIND, "A list.") == ()
    assert open_details(PERSON, "In Deep is an album of 1994.") == ()  # no person is in sight
    everything = "he was born at a school, son of a tall mother"
    assert open_details(PERSON, everything) == ()


@pytest.mark.parametrize(
    ("passage", "kind"),
    [
        ("Night Tide is a 1961 Norwegian pop song recorded by Lena Orbeck, who was born in Oslo.", WORK),
        ("Lena Orbeck is a Norwegian film director and she lives in Oslo.", PERSON),
        ("The Tarnsey Mills were the largest paper companies of their time.", ORGANISATION),
        ("The Brevik Prize is an annual art prize for painters.", ""),
        ("Ask your manager first. The company pays for all of it.", ORGANISATION),
    ],
)
def test_a_detail_is_of_the_kind_that_the_passage_says(passage: str, kind: str) -> None:
    assert [one for one in (PERSON, ORGANISATION, WORK) if open_details(one, passage)] == (
        [kind] if kind else []
    )


@pytest.mark.parametrize(("what", "kinds"), [("ice", {"single"}), ("a film", {"single", "unanswerable"})])
def test_a_passage_about_nothing_known_gets_no_unanswerable_question(what: str, kinds: set[str]) -> None:
    text = "{} is {}. Much of it is from the time before the war. In many places it has another name."
    hail = [{"id": f"{n}.md", "title": "Hail", "text": text.format(f"Hail{n}", what)} for n in range(20)]
    chosen = candidates(lambda: hail, 40, ("single", "unanswerable"))
    assert {one.kind for one in chosen} == kinds
    assert bool(candidates(lambda: hail, 40, ("unanswerable",))) == ("unanswerable" in kinds)


def test_documents_take_turns_and_the_choice_does_not_depend_on_others() -> None:
    long = {
        "id": "long",
        "title": "",
        "text": " ".join(f"The shelf number {n} holds many books." for n in range(99)),
    }
    chosen = candidates(lambda: [long, *ROWS], 31, ("single", "unanswerable"))
    assert {one.excerpts[0].document for one in chosen} == {"long", *(row["id"] for row in ROWS)}
    assert {one.kind for one in chosen} == {"single", "unanswerable"}
    assert all(one.excerpts[0].sentence.startswith(("The", "It was")) for one in chosen)
    names = {one.id for one in chosen}
    assert {one.id for one in candidates(rows, 30, ("single", "unanswerable"))} < names | {"long"}


def test_the_nearest_passages_are_those_with_the_rare_words() -> None:
    hits = nearest(rows, {"q": "Which boats does Town17 make?"}, 2)
    assert hits["q"][0].passage == "d17.md"
    without = nearest(rows, {"q": "Which boats does Town17 make?"}, 2, {"q": "d17.md"})
    assert "d17.md" not in {one.passage for one in without["q"]}
    assert len(without["q"]) == 2
