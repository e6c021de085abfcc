"""No knob is decoration: each changes what is sent, searched or answered."""

from __future__ import annotations

import asyncio
import json
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from ragc import metrics
from ragc.errors import UsageError
from ragc.metrics.base import Scorer
from ragc.programs import METHODS, Method
from ragc.programs.knobs import Knob, Value
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Search
from ragc.records import Hit, Passage, Question
from ragc.signatures.answer import INVALID
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Reply, TokenLogprob
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget
from tests.support.knob_values import ends


def vary_reply(request: ChatRequest, salt: int = 0) -> Reply:
    """One answer to most prompts, another to some, which is graded better wherever it is graded.

    `salt` decides to which. The tokens of a reply are less and less likely.
    """
    text = request.messages[-1].content
    some, better = zlib.crc32(text.encode(), salt) % 4 == 0, "blue" in text
    fields = {
        "answer": "blue and white" if some else "red",
        "score": 99 if better else 60,
        "utility": 5 if better else 4,
        "need": 90,
        "confidence": 50,
        "action_input": f"thing {zlib.crc32(text.encode()) % 97}",
        "sentence": "Thing 3 is red and was made in a far town a long time ago.",
    }
    reply_text = SchemaReplies(fields=fields)(request).text
    parts = [reply_text[at : at + 3] for at in range(0, len(reply_text), 3)]
    base = -0.05 if some else -0.1
    tokens = tuple(TokenLogprob(part, base * (1 + at % 40)) for at, part in enumerate(parts))
    return Reply(reply_text, logprobs=tokens if request.logprobs else ())


QUESTION = "What is the colour of thing 3?"


def _long(i: int) -> str:
    """A sentence of more than 200 characters."""
    return f"The colour of thing {i} is as red as {'that of others is and ' * 9}was."


FOUND = [
    Passage(
        f"p{i}",
        f"Title {i}",
        "\n\n".join(
            [
                f"The colour of thing {i} is red. It was made in 19{i:02}. {'Text. ' * 20}{_long(i)}",
                "Blue?",
                "Thing.",
            ][: 1 + i % 3]
        ),
    )
    for i in range(30)
]
LABELS = [
    *([f"What colour thing 3 {word}?", "better"] for word in ("is", "was", "has")),
    *([f"Of what colour was the river that ran by the old {word}?", "worse"] for word in ("mill", "town")),
    *([f"Of what colour was the great house that stood by the {word}?", "worse"] for word in ("sea", "inn")),
    *([f"Who was {word}?", "worse"] for word in ("she", "he", "this", "that", "ada", "tom", "eve", "max")),
]
"""Train questions, half of them unlike the one that is asked."""

REPLIES: dict[str, Callable[[ChatRequest], Reply]] = {
    "plain": SchemaReplies(),
    "unsure": SchemaReplies(logprob=-3.0),
    "last": SchemaReplies(last=True),
    "last and full": SchemaReplies(last=True, full=True, logprob=-3.0),
    "words of the question": SchemaReplies(text="colour of thing 3"),
    "varied": vary_reply,
    "varied otherwise": partial(vary_reply, salt=1),
    "varied again": partial(vary_reply, salt=2),
    "web": SchemaReplies(fields={"action": "web", "answer": ""}),
    "later documents": SchemaReplies(fields={"ids": [[9]], "sufficient": "NO"}),
    "never done": SchemaReplies(fields={"answer": "", "sufficient": "NO", "known": "no", "confidence": 50}),
}


class QuerySource(ListSource):
    """Finds other passages for another query, and draws others with another seed."""

    embedder: Lengths | None = None

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        free = [p for p in self.passages if p.id not in exclude]
        return tuple(random.Random(seed).sample(free, min(n, len(free))))

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        shift = sum(map(ord, query)) % 7
        return tuple(Hit(p, 1.0 / (i + 1)) for i, p in enumerate(self.passages[shift : shift + k]))


class Lengths:
    """An embedder that finds texts of like length alike."""

    model, fingerprint, query_prefix, passage_prefix, dimensions = "lengths", "lengths", "", "", 2

    def embed(self, texts: Sequence[str]) -> Any:
        angles = np.array([len(text) % 13 for text in texts]) / 8
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


TRAIN = [
    Question(f"t{at}", f"What is thing {at}?", answers)
    for at, answers in enumerate([("e", "no such text"), ("e",), ("no such text",)] * 9)
]
"""Train questions whose gold answers stand half, wholly or not at all in a draft."""


def behaviour(
    entry: Method, knobs: Mapping[str, Value], reply: Callable[[ChatRequest], Reply], *, knob: Knob
) -> str:
    """All that a question leads to: requests, searches, answer and passages.

    Labels, lessons and embedders are there for the knobs that they are for.
    """
    target = ScriptedTarget(reply, context_tokens=9000)
    names = {"local", "web", *entry.sources, *entry.optional_sources}
    roles: Any = {role: ScriptedTarget(reply, context_tokens=9000) for role in ("proxy", "judge", "teacher")}
    sources = {
        name: QuerySource([Passage(f"{name}{p.id}", p.title, p.text) for p in FOUND]) for name in names
    }
    if knob.name == "encoder":
        for source in sources.values():
            source.embedder = Lengths()
    program = entry.build(Runtime({"main": target, **roles}, sources, store=CallStore(None)), dict(knobs))
    for predictor in program.predictors():
        demo = dict.fromkeys(predictor.signature.fields, "x")
        demo |= {"domain": "finance"} if "domain" in demo else {}  # as the first of all options is
        last = demo | {"answer": INVALID} if "answer" in demo else demo
        predictor.demos = [*[demo] * 16, last]
    if entry.id == "skr" and knob.name.startswith(("skr_", "encoder")):
        alike = [[f"Name that one: {n:02}".ljust(len(QUESTION), "."), "better"] for n in range(12)]
        program.learned = {"labels": LABELS + (alike if knob.name == "encoder" else [])}
    if knob.name in ("judge_demos", "known_theta"):
        asyncio.run(program.fit(TRAIN, Scorer.of(metrics.get("f1"))))
    turns = [{"role": "user", "content": "Which things are red?"}]
    context = {"sub_questions": ["Which thing is red?"], "domain": "movie", "history": turns}
    prediction = program(question=QUESTION, **context)
    requests = [[role, repr(r)] for role, t in {"main": target, **roles}.items() for r in t.requests]
    searches = [[e.source, e.query, e.k] for e in prediction.trace if isinstance(e, Search)]
    cuts = [[source.cut, source.titles] for source in sources.values()]
    return json.dumps(
        [sorted(requests), searches, prediction.answer, [p.id for p in prediction.passages], cuts]
    )


PREPARED = ("encoder", "judge_demos", "known_theta")
"""Knobs for which `behaviour` prepares the program, as for those of SKR."""

UNCHANGED: dict[str, str] = {}


def unchanged(entry: Method, knobs: Mapping[str, Value], name: str, knob: Knob) -> str:
    """`behaviour` under the reply `name`, run once for all knobs for which nothing is prepared."""
    prepared = knob.name if knob.name in PREPARED or knob.name.startswith("skr_") else ""
    key = json.dumps([entry.id, dict(knobs), name, prepared])
    if key not in UNCHANGED:
        UNCHANGED[key] = behaviour(entry, knobs, REPLIES[name], knob=knob)
    return UNCHANGED[key]


def effective(entry: Method, knob: Knob) -> bool:
    """Whether some value of `knob` changes what happens under some replies."""
    needed: dict[str, Value] = {}
    condition = knob.when
    while condition:
        parent = entry.knobs.knob(condition.knob)
        needed[parent.name] = (
            condition.values[0] if condition.values else parent.check(type(parent.default)(parent.high or 1))
        )
        condition = parent.when
    for name, reply in REPLIES.items():
        try:
            plain = unchanged(entry, needed, name, knob)
        except UsageError:
            continue
        for value in ends(knob):
            try:
                if behaviour(entry, {**needed, knob.name: value}, reply, knob=knob) != plain:
                    return True
            except UsageError as error:
                if knob.name in str(error):
                    return True
    return False


CASES = [(entry, knob) for entry in METHODS for knob in entry.knobs.list_knobs()]


@pytest.mark.parametrize(("entry", "knob"), CASES, ids=lambda value: getattr(value, "id", "") or value.name)
def test_every_knob_changes_something(entry: Method, knob: Knob) -> None:
    assert effective(entry, knob)
