"""A folder with a recipe, its data and a user's module beside it, and a scripted model."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragc.targets.base import ChatRequest
from tests.support.recipes import recipe_toml, write_files

HEAD = """
import asyncio

import dspy

import ragc

"""

MODULE = '''"""A program as a user writes one: it plans, searches as often as it is set to, and answers."""

import pathlib

import dspy

import ragc

pathlib.Path(__file__).with_name("loaded").touch()


class Plan(dspy.Signature):
    """Write a search query for what the notes do not say yet."""

    question: str = dspy.InputField()
    notes: list[str] = dspy.InputField(desc="what was found so far")
    query: str = dspy.OutputField(desc="a few words")


class TwoHops(dspy.Module):
    """Searches in hops, then answers."""

    hops = ragc.number(1, 1, 3, "searches")
    share = ragc.number(0.5, 0.0, 1.0, "a share that nothing reads")
    shout = ragc.switch(False, "answer in capital letters")
    tone = ragc.choice("plain", ("plain", "polite"), "how the answer sounds")

    def __init__(self):
        super().__init__()
        self.plan = dspy.Predict(Plan)
        self.answer = dspy.ChainOfThought("question, notes: list[str] -> answer")
        self.find = dspy.Retrieve(k=2)

    def most_calls(self):
        return self.hops + 1

    def forward(self, question):
        notes = []
        for _ in range(self.hops):
            query = self.plan(question=question, notes=notes).query
            notes += self.find(query).passages
        answer = self.answer(question=question, notes=notes).answer
        if self.tone == "polite":
            answer = f"You may find that it is {answer}."
        return dspy.Prediction(answer=answer.upper() if self.shout else answer, passages=notes)
'''

RECIPE = recipe_toml(
    "my_package.my_module:TwoHops",
    search={"knobs": ["hops", "shout"], "trials": 4, "demos": 1},
    data={"train": 4, "dev": 6, "test": 2},
    metrics=["em"],
)


def write_folder(at: Path, n: int = 12) -> Path:
    """The folder `at` with `n` questions, a corpus that answers them, the recipe and the module."""
    (at / "my_package").mkdir(parents=True)
    (at / "my_package" / "__init__.py").write_text("", "utf-8")
    (at / "my_package" / "my_module.py").write_text(MODULE, "utf-8")
    rows = [
        {"id": f"q{k}", "question": f"What is number {k}?", "answers": [f"a{k}"], "gold_ids": [f"p{k}"]}
        for k in range(n)
    ]
    passages = [{"id": f"p{k}", "title": "", "text": f"Number {k} is a{k}."} for k in range(n)]
    return write_files(at, recipe=RECIPE, questions=rows, corpus=passages)


def number_in(text: str) -> str:
    """The number that the question in `text` is about."""
    return str(re.findall(r"number (\d+)", text)[-1])


def script(request: ChatRequest) -> dict[str, Any] | str:
    """A model that is right where an example was shown, and on every third question; else it says `no`."""
    number = number_in(request.messages[-1].content)
    right = len(request.messages) > 2 or int(number) % 3 == 0
    values = {
        "query": f"number {number}",
        "reasoning": "The notes say so.",
        "answer": f"a{number}" if right else "no",
    }
    return fit(request, values)


def fit(request: ChatRequest, values: Mapping[str, Any]) -> dict[str, Any] | str:
    """Those of `values` that the reply needs as JSON; all as ChatAdapter reads them without a schema."""
    if request.schema is not None:
        return {name: values[name] for name in request.schema["properties"]}
    texts = {name: v if isinstance(v, str) else json.dumps(v) for name, v in values.items()}
    return "".join(f"[[ ## {name} ## ]]\n{text}\n\n" for name, text in texts.items())


def drop_package() -> None:
    """Forgets what was imported of a user's package, so that the next use imports it anew."""
    for name in [name for name in sys.modules if name.startswith("my_package")]:
        del sys.modules[name]
