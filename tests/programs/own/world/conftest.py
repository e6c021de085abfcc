"""A model without a network: a server on this machine that answers OpenAI's chat requests from a function.

Most models here know every second capital by themselves, and all of them once they see a worked example.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
import pytest

import ragc
from tests.support.server import MODEL, Answer, Asked, Script, ScriptedServer, completion, serving, streaming

Fields = dict[str, Any]

CAPITALS = {
    "France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Norway": "Oslo", "Peru": "Lima", "Cuba": "Havana",
    "Japan": "Tokyo", "Kenya": "Nairobi", "Egypt": "Cairo", "Chile": "Santiago",
    "Latvia": "Riga", "Mali": "Bamako",
}  # fmt: skip
CORPUS = [f"{country} | {city} is the capital of {country}." for country, city in CAPITALS.items()]


class Prompt:
    """A request as a model reads it."""

    def __init__(self, body: Fields) -> None:
        self.body = body
        self.messages: list[tuple[str, str]] = []
        for message in self.body["messages"]:
            content = message.get("content") or ""
            parts = [{"text": content}] if isinstance(content, str) else content
            self.messages.append((message["role"], "".join(part.get("text", "") for part in parts)))
        self.last = self.messages[-1][1]
        replies = [text for role, text in self.messages if role == "assistant"]
        self.demos = len(replies)  # earlier turns count too
        self.full_demos = sum("Not supplied" not in text for text in replies)
        self.fields = re.findall(r"`[\[#< ]*(\w+)[\]#> ]*`", self.last[self.last.rfind("Respond with ") :])

    def reads(self, name: str) -> str:
        """The value of an input in the last message."""
        form = rf"(?s)(?:\[\[ ## {name} ## \]\]|<{name}>)\n(.*?)\n*(?:\n\[\[ ##|\nRespond|</|\Z)"
        value = re.search(form, self.last)
        return value[1] if value else ""

    def written(self, reply: Fields) -> str:
        """`reply` in the form that the adapter asks for; what it lacks is "So."."""
        values = {name: reply.get(name, "So.") for name in self.fields if name != "completed"}
        if "JSON object" in self.last:
            return json.dumps(values)
        form = "<{0}>\n{1}\n</{0}>" if "XML tags" in self.last else "[[ ## {0} ## ]]\n{1}\n"
        texts = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()
        }
        return "\n".join(form.format(name, text) for name, text in texts.items())


Think = Callable[[Prompt], Fields | str]


def script(think: Think) -> Script:
    """How a server answers for a model that answers by `think`."""

    def answer(asked: Asked) -> Answer:
        prompt = Prompt(asked.body)
        reply = think(prompt)
        if isinstance(reply, dict) and "tool_calls" in reply:
            return completion({"content": None, "tool_calls": reply["tool_calls"]})
        text = reply if isinstance(reply, str) else prompt.written(reply)
        if not asked.body.get("stream"):
            return completion({"content": text})
        parts = [{"delta": {"content": part}} for part in re.findall(r"\s*\S+\s*", text)]
        return streaming(*parts, {"delta": {}, "finish_reason": "stop"})

    return answer


@dataclass
class Model:
    """A model at `server`; `sent` holds the bodies of requests."""

    server: ScriptedServer

    @property
    def sent(self) -> list[str]:
        return [json.dumps(body) for body in self.server.bodies]

    @property
    def prompts(self) -> list[Prompt]:
        return [Prompt(body) for body in self.server.bodies]

    def lm(self, **settings: Any) -> Any:
        settings = {"cache": False, **settings}
        return dspy.LM(f"openai/{MODEL}", api_base=self.server.url, api_key="none", **settings)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of this test; unlike elsewhere, what `dspy.configure` says holds."""
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))


@pytest.fixture
def serve() -> Iterator[Callable[..., Model]]:
    """`serve(think, adapter=...)` starts a model for DSPy; further settings are the LM's."""
    with ExitStack() as stack:

        def start(think: Think, adapter: Any = None, **settings: Any) -> Model:
            model = Model(stack.enter_context(serving(script(think))))
            dspy.configure(lm=model.lm(**settings), adapter=adapter)
            return model

        yield start


def country_in(text: str) -> str:
    """The country that is named last."""
    return max(CAPITALS, key=text.rfind)


def knows(prompt: Prompt, country: str = "") -> bool:
    """Whether the model gets the question about `country`, or about the one named last, right."""
    return prompt.demos > 0 or list(CAPITALS).index(country or country_in(prompt.last)) % 2 == 0


def capital(prompt: Prompt) -> str:
    return CAPITALS[country_in(prompt.last)] if knows(prompt) else "Atlantis is it"


def capital_only(prompt: Prompt) -> Fields:
    return {"answer": capital(prompt)}


def examples(make: Callable[[str, str], Fields], *inputs: str) -> tuple[list[Any], list[Any]]:
    """Six train and six dev examples."""
    rows = [dspy.Example(**make(*pair)).with_inputs(*inputs) for pair in CAPITALS.items()]
    return rows[:6], rows[6:]


def questions(output: str = "answer") -> tuple[list[Any], list[Any]]:
    return examples(lambda country, city: {"question": f"Capital of {country}?", output: city}, "question")


def exact(example: Any, pred: Any, trace: Any = None) -> bool:
    return bool(example.answer == pred.answer)


def ask(program: Any, example: Any) -> Any:
    """The prediction of plain DSPy."""
    if hasattr(type(program), "forward"):
        return program(**example.inputs())
    return asyncio.run(program.acall(**example.inputs()))


@pytest.fixture
def compile_better(tmp_path: Path) -> Callable[..., Any]:
    """Compiles what `make` returns, and checks what every user may expect of the result, which it returns.

    It has the user's class, is better by `judge` (else the metric) than before, and once saved sends in
    plain DSPy, word by word, what was measured.
    """

    def run(model: Model, make: Any, metric: Any, sets: Any, judge: Any = None, **options: Any) -> Any:
        trainset, valset = sets

        def score(program: Any) -> float:
            return sum(float((judge or metric)(example, ask(program, example))) for example in valset)

        student = make()
        before = score(student)
        start = len(model.sent)
        settings: Fields = {"trials": 3, "demos": 2, "budget": {"lm_calls": 600}, **options}
        compiled = ragc.Compile(metric=metric, **settings).compile(student, trainset=trainset, valset=valset)
        measured = set(model.sent[start:])
        assert type(compiled) is type(student)
        assert score(compiled) > before
        compiled.save(tmp_path / "program.json")
        plain = make()
        plain.load(tmp_path / "program.json")
        start = len(model.sent)
        score(plain)
        assert set(model.sent[start:]) <= measured
        return compiled

    return run
