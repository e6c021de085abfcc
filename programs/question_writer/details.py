"""Details that a passage may leave open, for unanswerable questions: what is so of everything of a kind.

A model that is free to choose asks for what does not exist ("Who built the city?"), or for what the passage
tells. Here the kind of the subject is what the passage calls it ("is a British film by ..."), or what the
model says where that noun is not known here. The model then chooses a detail of this kind among those of
which the passage has no word, so that the question has an answer, elsewhere, and its question must have a
word of the detail. The words are English; in another language no such question is written.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ragc.programs.sentences import all_sentences


@dataclass(frozen=True, slots=True)
class Detail:
    """What a question may ask for: expressions for words of passages that may tell it, `telling`, and of
    questions that want it, `wanting`.
    """

    telling: str
    wanting: str


PERSON = "a real person"
PLACE = "a town, country, building or other place"
ORGANISATION = "a company, school, club or other organisation"
WORK = "a film, book, song, show or game"
EVENT = "a war, match, concert or other event"
PRODUCT = "a product, tool or program"
RULE = "a rule, service or procedure"
SPECIES = "an animal or plant"
OTHER = ""

DETAILS: Mapping[str, Mapping[str, Detail]] = {
    PERSON: {
        "the year of birth": Detail(
            r"born|birth|\(\d{4}|\d{4}\s?[\u2013-]\s?\d{2,4}",
            r"(?:when|year|date)\b.*\b(?:born|birth)|birth\w*\b.*\b(?:year|date)",
        ),
        "the place of birth": Detail(
            r"born|birth|native|hometown|from",
            r"(?:where|place|city|town|country)\b.*\b(?:born|birth)|birthplace|hometown",
        ),
        "the school or university": Detail(
            r"school|universit|college|educat|stud(?:y|ied|ies)|graduat|degree",
            r"school|universit|college|educat|stud(?:y|ied)|degree",
        ),
        "the names of the parents": Detail(
            r"sons?\b|daughter|child|father|mother|parent", r"parents?\b|mother|father"
        ),
        "the height": Detail(r"tall|height|feet|metres|cm\b", r"tall\b|height"),
    },
    PLACE: {
        "the area": Detail(r"area|square|acre|hectare|km", r"area|size|how (?:large|big)|square"),
        "the distance to the nearest airport": Detail(r"airport|miles|km", r"airport"),
    },
    ORGANISATION: {
        "the number of people who work there": Detail(
            r"employ|staff|workers|people|personnel", r"employ|staff|work(?:s|ing|ers|force)?\b|personnel"
        ),
        "the income in a year": Detail(
            r"revenue|income|turnover|budget|profit|million", r"revenue|income|turnover|budget|profit|earn"
        ),
        "the street address": Detail(r"street|avenue|road|address", r"street|address"),
    },
    WORK: {
        "what it cost to make": Detail(r"budget|cost|million", r"budget|cost|spent"),
        "how long it took to make": Detail(
            r"took|months|weeks|began|years",
            r"(?:how long|how many|time)\b.*\b(?:take|took|make|making|film|produc|record|writ|develop)",
        ),
        "the number of people who worked on it": Detail(
            r"crew|team|people|cast|staff", r"how many\b.*\b(?:work|involved|make|made)|crew|number of people"
        ),
    },
    EVENT: {
        "what it cost": Detail(r"cost|budget|million|fund", r"cost|budget|spent"),
        "the weather at the time": Detail(
            r"weather|rain|snow|sun|cold|hot\b|wind|storm|temperature", r"weather|rain|temperature"
        ),
    },
    PRODUCT: {
        "the price": Detail(r"price|cost|free\b|fee\b", r"price|cost|how much"),
        "the weight or size": Detail(
            r"weigh|size|kg\b|gram|pound|[mg]b\b", r"weigh|heavy|size|large|big\b|dimension"
        ),
        "the number of people who use it": Detail(r"users|used by|people|customers", r"use|customers"),
    },
    RULE: {
        "the person to ask about it": Detail(r"contact|ask|responsib|owner|manager", r"who\b|contact|person"),
        "the day of its last change": Detail(
            r"updat|revis|chang|amend|version|since", r"updat|revis|chang|amend"
        ),
    },
    SPECIES: {
        "how long it lives": Detail(
            r"lifespan|live[sd]? |years|annual|perennial", r"how long|lifespan|lives?\b|age\b|how old"
        ),
        "the weight": Detail(r"weigh|kg\b|gram|pound", r"weigh|heavy"),
    },
}
"""The details of each kind."""

_NOUNS: Mapping[str, str] = {
    PERSON: "person man woman artist musician singer author actress king queen prince",
    PLACE: """
        town city village hamlet municipality commune township borough suburb neighborhood
        neighbourhood county country state province region island lake park reserve forest house
        hall castle palace church temple mosque cathedral abbey museum hotel airport station stadium
        arena theatre theater cemetery settlement community district parish building library mall
    """,
    ORGANISATION: """
        company firm corporation business manufacturer retailer bank brewery airline publisher
        imprint studio network agency organisation organization institute institution foundation
        charity society association union club school college university academy hospital library
        museum newspaper station department bureau ministry council hotel restaurant store chain
    """,
    WORK: """
        film movie documentary series show sitcom episode album song single novel book memoir play
        musical opera game comic manga anime soundtrack ep drama
    """,
    EVENT: """
        match race tournament championship festival concert tour ceremony conference competition
        battle
    """,
    PRODUCT: """
        product tool program software application app device machine camera phone smartphone tablet
        computer laptop console car motorcycle bicycle rifle pistol engine vehicle printer toy
        processor
    """,
    RULE: """
        rule law act regulation policy service procedure process standard protocol agreement form
        permit licence license
    """,
    SPECIES: """
        animal species breed plant tree shrub bird fish mammal reptile insect beetle moth butterfly
        spider snake lizard frog dog cat horse flower
    """,
    OTHER: "character prize award season team band group list term concept mountain river bridge war",
}
"""The words by which passages call a thing of each kind; under `OTHER` those of other things."""

_KIND_OF_NOUN = {noun: [kind for kind, nouns in _NOUNS.items() if noun in nouns.split()]
                 for nouns in _NOUNS.values() for noun in nouns.split()}  # fmt: skip
_PERSONAL = re.compile(r"\w+(?:er|or|ist|ian|man|woman)")
_PRONOUN = re.compile(r"\b(?:he|she|his|her|him|born)\b", re.IGNORECASE)
"""A word that a text about a person has; small models take bands and albums for one."""
_DEFINED = re.compile(r"\b(?:is|are|was|were)\s+(?:an?|the|one\s+of\s+the)\s+(?P<what>[^.,;:()]+)")
_DEFINED_UNTIL = re.compile(
    r"\b(?:of|in|by|for|from|on|at|with|to|that|which|who|whose|where|and|or|based|located|about|between)\b"
)
_DEFINED_WITHIN = 3

NO_KIND = "something else"
KINDS_OF_SUBJECT = (*DETAILS, NO_KIND)

OFFERED = 2
"""The details that a question may be about; others for each question, so that not all ask for the same."""


def open_details(kind: str, text: str, name: str = "") -> tuple[str, ...]:
    """Returns details of a subject of `kind` of which `text` has no word, `OFFERED` at most, drawn by `name`;
    none for another kind, or if the text does not call its subject something of that kind.
    """
    if not _is_of_kind(kind, text):
        return ()
    open_ones = [
        detail
        for detail, words in DETAILS.get(kind, {}).items()
        if not re.search(rf"(?<!\w)(?:{words.telling})", text, re.IGNORECASE)
    ]
    order = sorted(open_ones, key=lambda detail: hashlib.sha256(f"{name}\n{detail}".encode()).digest())
    return tuple(order[:OFFERED])


def kind_said(text: str) -> str:
    """Returns the kind of which `text` calls its subject by a noun known here, if it leaves a detail open;
    "" otherwise.
    """
    return next((kind for kind in _kinds_said(text) or () if open_details(kind, text)), "")


def may_leave_open(text: str) -> bool:
    """Returns whether `text` may be about something of a kind of which it leaves a detail open."""
    return any(open_details(kind, text) for kind in DETAILS)


def asks_for(detail: str, question: str) -> bool:
    """Returns whether a question has words of `detail`; True for a detail that is not listed here."""
    known = next((details[detail] for details in DETAILS.values() if detail in details), None)
    return known is None or re.search(rf"(?<!\w)(?:{known.wanting})", question, re.IGNORECASE) is not None


def _is_of_kind(kind: str, text: str) -> bool:
    """Returns whether `text` calls its subject something of `kind`; where it does not say what its subject
    is, its first lines need one of the kind's words.
    """
    if kind == PERSON and not _PRONOUN.search(text):
        return False
    kinds = _kinds_said(text)
    if kinds is not None:
        return kind in kinds if kinds else kind == PERSON
    words = re.findall(r"[a-z]+", " ".join(_first_lines(text)[:2]).casefold())
    return kind == PERSON or any(_noun(word) in _NOUNS.get(kind, "").split() for word in words)


def _first_lines(text: str) -> list[str]:
    """Returns the title and the first sentences of `text`, without headings."""
    return [one for one in all_sentences(text) if not one.startswith("#")][: _DEFINED_WITHIN + 1]


def _kinds_said(text: str) -> list[str] | None:
    """Returns the kinds of the last known noun in "is a British war film ..."; [] for others, which may be
    those of a person, and None where nothing is said of this form.
    """
    definition = next(filter(None, map(_DEFINED.search, _first_lines(text))), None)
    if definition is None:
        return None
    what = _DEFINED_UNTIL.split(definition["what"])[0]
    for word in reversed(re.findall(r"[^\W\d_]+", what)):
        if (noun := _noun(word.casefold())) in _KIND_OF_NOUN:
            return _KIND_OF_NOUN[noun]
        if _PERSONAL.fullmatch(word):
            return []
    return []


def _noun(word: str) -> str:
    """Returns a noun without the ending of a plural."""
    for ending, singular in (("ies", "y"), ("s", "")):
        if word not in _KIND_OF_NOUN and word.endswith(ending):
            word = word.removesuffix(ending) + singular
    return word
