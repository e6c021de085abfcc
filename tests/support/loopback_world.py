"""A small world for the loopback server: coloured things, questions about them, and a model that knows it.

Everything follows from the text of the prompt and from digests, so that the same request always has the same
reply. The model reads the colour of a thing off the passages, when they say it; it reads better when it is
shown demonstrations, when few passages that do not help stand beside, and when it is sampled from a smaller
nucleus. Passages that speak of a thing without its colour rank before the one that has it, so that the
number of passages matters, for each question another. Of some things it knows the colour without any.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

COLOURS = ("red", "green", "blue", "black", "white", "teal", "pink", "grey")
DETOURS = 6
"""Fewer than so many passages speak of a thing without its colour."""

_QUESTION_WORDS = re.compile(r"thing (number\d+)\?")
_THING = re.compile(r"number\d+")
_NUMBERED = re.compile(r"\[\d+\] ")
_MARKED = re.compile(r"\[\[ ## (\w+) ## \]\]")


@lru_cache(maxsize=4096)
def luck(*of: str) -> float:
    """A number in 0..1 that only depends on the words `of`."""
    return int.from_bytes(hashlib.sha256("\n".join(of).encode()).digest()[:6]) / 2**48


def colour(thing: str) -> str:
    """The colour of a thing such as `number17`."""
    return COLOURS[int(luck("colour", thing) * len(COLOURS))]


def write_data(folder: Path, train: int, dev: int, test: int = 0) -> None:
    """`questions.jsonl` and `corpus.jsonl` in `folder`, one question a thing, in named splits."""
    corpus, questions = [], []
    for i in range(train + dev + test):
        thing = f"number{i}"
        statement = f"Thing {thing} is {colour(thing)}. It was made in {1500 + i}."
        corpus.append({"id": f"d{i}", "title": f"Thing {i}", "text": statement})
        for detour in range(int(luck("detours", thing) * DETOURS)):
            text = f"Thing {thing} and thing {thing}a. Thing {thing} was moved in {1700 + detour}."
            corpus.append({"id": f"d{i}.{detour}", "title": f"Thing {i}", "text": text})
        split = "train" if i < train else "dev" if i < train + dev else "test"
        question = f"What colour is thing {thing}?"
        questions.append(
            {
                "id": f"q{i}",
                "question": question,
                "answers": [colour(thing)],
                "gold_ids": [f"d{i}"],
                "split": split,
            }
        )
    for name, rows in (("corpus", corpus), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def reply(body: Mapping[str, Any]) -> str:
    """What the model says to the body of a chat completion.

    A JSON object where `response_format` has a schema, DSPy's marked fields where the prompt asks for
    those, else a text that ends in a block of instructions.
    """
    scene = _Scene(body)
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        schema = form["json_schema"]["schema"]
        return json.dumps(scene.fits("", schema, schema.get("$defs") or {}))
    fields = _MARKED.findall(scene.prompt.rpartition("Respond with")[2])
    outputs = [name for name in fields if name != "completed"]
    if form.get("type") == "json_object":
        outputs = re.findall(r"`(\w+)`", scene.prompt.rpartition("Respond with")[2])
        return json.dumps({name: scene.text(name) for name in outputs})
    if outputs:
        parts = [f"[[ ## {name} ## ]]\n{scene.text(name)}\n" for name in outputs]
        return "\n".join([*parts, "[[ ## completed ## ]]"])
    return f"```\n{scene.text('instruction')}\n```"


class _Scene:
    """What a prompt asks and shows."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        messages = body["messages"]
        self.prompt = str(messages[-1]["content"])
        self.mark = hashlib.sha256(json.dumps([messages, body.get("seed")]).encode()).hexdigest()
        things = _QUESTION_WORDS.findall(self.prompt) or _THING.findall(self.prompt)
        self.thing = things[-1] if things else ""
        self.colour = colour(self.thing)
        self.shown = len(_NUMBERED.findall(self.prompt))
        self.shows_fact = f"{self.thing} is {self.colour}" in self.prompt
        self.knows = luck("knows", self.thing) < 0.3
        share = 0.6 + 0.25 * (len(messages) > 2) - 0.02 * self.shown
        if body.get("temperature"):
            share -= 0.4 * (float(body.get("top_p", 1.0)) - 0.6)
        drawn = 0.85 * luck("question", self.thing) + 0.15 * luck("prompt", self.mark)
        self.right = drawn < share if self.shows_fact else self.knows

    def pick(self, options: list[Any]) -> Any:
        """One of `options`, by the digest of the prompt."""
        return options[int(luck("pick", self.mark) * len(options))]

    def text(self, name: str) -> str:
        """The value of the text field `name`."""
        guess = self.colour if self.right else COLOURS[(COLOURS.index(self.colour) + 1) % len(COLOURS)]
        known = self.colour if self.knows else "grey or so"
        match name:
            case "answer":
                return guess
            case "subject" | "wording":
                return f"thing {self.thing}"
            case "predicate":
                return "is"
            case "object" | "predicative":
                return "What colour" if name == "object" else ""
            case "attributive" | "adverbial" | "complement" | "apposition":
                return ""
            case "segment":
                return f"thing {self.thing}"
            case "query" | "question":
                return f"What colour is thing {self.thing}?"
            case "heuristic_answer" | "claim" | "passage":
                return f"Thing {self.thing} is {known}."
            case _:
                return f"Say the colour of the thing in one word. ({self.mark[:6]})"

    def confidence(self) -> float:
        """In 0..1; greater for things that are known, with overlap."""
        return 0.45 * self.knows + 0.55 * luck("sure", self.mark)

    def ids(self) -> list[int]:
        """The numbered documents: those that name the thing with its colour first, three at most."""
        parts = re.split(r"\[(\d+)\] ", self.prompt)
        pairs = sorted(
            (f"{self.thing} is {self.colour}" not in text, int(number))
            for number, text in zip(parts[1::2], parts[2::2], strict=True)
        )
        return [number for _, number in pairs][:3]

    def fits(self, name: str, schema: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
        """A value of the field `name` that fits `schema`."""
        if "$ref" in schema:
            return self.fits(name, named[schema["$ref"].rsplit("/", 1)[-1]], named)
        if options := schema.get("enum"):
            return self._option(name, list(options))
        if "const" in schema:
            return schema["const"]
        if any_of := schema.get("anyOf") or schema.get("allOf"):
            return self.fits(name, any_of[0], named)
        match schema.get("type"):
            case "object":
                return {
                    key: self.fits(key, part, named) for key, part in schema.get("properties", {}).items()
                }
            case "array":
                return self._list(name, schema, named)
            case "string":
                return self.text(name)[: schema.get("maxLength", 10_000)]
            case "boolean":
                return self.right
            case "integer":
                low, high = schema.get("minimum", 0), schema.get("maximum", 10)
                return 1 if name == "component" else low + int(luck("whole", self.mark) * (high - low + 1))
            case "number":
                low, high = schema.get("minimum", 0.0), schema.get("maximum", 1.0)
                return round(low + luck("number", self.mark) * (high - low), 3)
            case _:
                return None

    def _option(self, name: str, options: list[Any]) -> Any:
        if name == "confidence":
            return options[round(self.confidence() * (len(options) - 1))]
        if name == "known":
            return "yes" if self.knows else "no"
        if name == "sufficient":
            return "YES" if self.shows_fact else "NO"
        return options[0] if name == "need_search" else self.pick(options)

    def _list(self, name: str, schema: Mapping[str, Any], named: Mapping[str, Any]) -> list[Any]:
        most = schema.get("maxItems", 10)
        if name == "ids":
            return self.ids()[:most]
        if name == "aligned":
            matches = (
                [{"component": 1, "segment": f"thing {self.thing}", "same": True}]
                if self.thing in self.prompt
                else []
            )
            colour_match = {"component": 3, "segment": f"is {self.colour}", "same": True}
            return [*matches, colour_match] if self.shows_fact else matches
        return [self.fits(name, schema["items"], named)][:most]
