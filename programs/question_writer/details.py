"""Details that a passage may leave open, for unanswerable questions: what is so of everything of a kind.

A model that is free to choose asks for what does not exist ("Who built the city?"), or for what the passage
tells. Here it names the kind of the subject, then a detail of that kind among those of which the passage has
no word, so that the question has an answer, elsewhere. The words are English; in another language nothing is
left out here, and the checks that ask the model stand alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

PERSON = "a real person"

DETAILS: Mapping[str, Mapping[str, str]] = {
    PERSON: {
        "the year of birth": r"born|birth|\(\d{4}|\d{4}\s?[\u2013-]\s?\d{2,4}",
        "the place of birth": r"born|birth|native|hometown|from",
        "the school or university": r"school|universit|college|educat|stud(?:y|ied|ies)|graduat|degree",
        "the names of the parents": r"sons?\b|daughter|child|father|mother|parent",
        "the height": r"tall|height|feet|metres|cm\b",
    },
    "a town, country, building or other place": {
        "the area": r"area|square|acre|hectare|km",
        "the distance to the nearest airport": r"airport|miles|km",
    },
    "a company, school, club or other organisation": {
        "the number of people who work there": r"employ|staff|workers|people|personnel",
        "the income in a year": r"revenue|income|turnover|budget|profit|million",
        "the street address": r"street|avenue|road|address",
    },
    "a film, book, song, show or game": {
        "what it cost to make": r"budget|cost|million",
        "how long it took to make": r"took|months|weeks|began|years",
        "the number of people who worked on it": r"crew|team|people|cast|staff",
    },
    "a war, match, concert or other event": {
        "what it cost": r"cost|budget|million|fund",
        "the weather at the time": r"weather|rain|snow|sun|cold|hot\b|wind|storm|temperature",
    },
    "a product, tool or program": {
        "the price": r"price|cost|free\b|fee\b",
        "the weight or size": r"weigh|size|kg\b|gram|pound|[mg]b\b",
        "the number of people who use it": r"users|used by|people|customers",
    },
    "a rule, service or procedure": {
        "the person to ask about it": r"contact|ask|responsib|owner|manager",
        "the day of its last change": r"updat|revis|chang|amend|version|since",
    },
    "an animal or plant": {
        "how long it lives": r"lifespan|live[sd]? |years|annual|perennial",
        "the weight": r"weigh|kg\b|gram|pound",
    },
}
"""The details of each kind, each with an expression for words of passages that may tell it."""

_PERSON = re.compile(r"\b(?:he|she|his|her|him|born)\b", re.IGNORECASE)
"""A word that a text about a person has; small models take bands and albums for one."""

NO_KIND = "something else"
KINDS_OF_SUBJECT = (*DETAILS, NO_KIND)


OFFERED = 2
"""The details that a question may be about; others for each question, so that not all ask for the same."""


def open_details(kind: str, text: str, name: str = "") -> tuple[str, ...]:
    """Returns details of a subject of `kind` of which `text` has no word, `OFFERED` at most, drawn by `name`;
    none for another kind.
    """
    if kind == PERSON and not _PERSON.search(text):
        return ()
    open_ones = [
        detail
        for detail, words in DETAILS.get(kind, {}).items()
        if not re.search(rf"(?<!\w)(?:{words})", text, re.IGNORECASE)
    ]
    order = sorted(open_ones, key=lambda detail: hashlib.sha256(f"{name}\n{detail}".encode()).digest())
    return tuple(order[:OFFERED])
