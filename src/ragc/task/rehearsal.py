"""Rehearsals: a program is run on replies made from its schemas, to count its calls before anything is sent.

No target is asked and no source is searched. Several rehearsals take different ways through a program: first
and last options, short and long lists, sure and unsure tokens, and a model that says it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import Context
from dataclasses import dataclass, replace
from itertools import count
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import dspy

from ragc.core import counters, event_loop
from ragc.core.counters import Counters
from ragc.corpora.models import Bm25Reranker
from ragc.corpora.rerank import RerankedSource
from ragc.corpora.sources.base import Source
from ragc.errors import RagcError
from ragc.programs.base import RagProgram
from ragc.programs.method import Method
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call, recording
from ragc.records import Hit, Passage, Question
from ragc.targets.base import ChatRequest, Reply, Target
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget

WORD = "word"
"""The question, and what every reply and passage is about, so that nothing in them counts as invented."""

WAYS = (
    SchemaReplies(full=True),
    SchemaReplies(last=True, full=True, logprob=-3.0),
    SchemaReplies(fields={"answer": "I don't know"}, logprob=-3.0),
)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """One run: the number of LM calls, and the answering calls (those with an output `answer`) in order."""

    calls: int
    answering: tuple[str, ...]


class _AnySource(ListSource):
    """A source that finds other passages at every search."""

    def __init__(self) -> None:
        super().__init__([])
        self._numbers = count()

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns `k` new passages."""
        numbers = (next(self._numbers) for _ in range(k))
        return tuple(Hit(Passage(f"{number}", WORD, f"{WORD} {number}"), 1.0) for number in numbers)

    def with_embedder(self, embedder: object) -> _AnySource:
        """Returns the source itself."""
        return self


def _source_like(source: Source) -> Any:
    reranked = isinstance(source, RerankedSource)
    return RerankedSource(_AnySource(), Bm25Reranker()) if reranked else _AnySource()


def _target_like(target: Target, way: SchemaReplies) -> ScriptedTarget:
    numbers = count()

    def reply(request: ChatRequest) -> Reply:
        return replace(way, text=f"{WORD} {next(numbers)}")(request)

    return ScriptedTarget(
        reply, capabilities=sorted(target.capabilities), context_tokens=target.context_tokens
    )


def _build(method: Method, runtime: Runtime, knobs: Mapping[str, Any], way: SchemaReplies) -> RagProgram:
    targets: dict[str, Any] = {name: _target_like(target, way) for name, target in runtime.targets.items()}
    sources = {name: _source_like(source) for name, source in runtime.sources.items()}
    program = method.build(Runtime(targets, sources).with_targets(runtime.target_names), dict(knobs))
    for name, predictor in program.named_predictors():
        predictor.name = name
    return program


async def _run(program: RagProgram) -> Rehearsal:
    quiet = dspy.context(callbacks=[], disable_history=True, track_usage=False)
    with quiet, recording() as run, counters.counting(Counters()) as cost:
        await program.aforward(question=WORD)
    answering = (event for event in run.events if isinstance(event, Call) and "answer" in event.outputs)
    return Rehearsal(cost.lm_calls, tuple(event.name for event in answering))


def rehearse(method: Method, runtime: Runtime, knobs: Mapping[str, Any]) -> list[Rehearsal]:
    """Returns the rehearsals of `method` with `knobs`, those that end in an answer. Off the process's loop.

    None for a user's own program, whose code is not run before it is meant to. Raises what building raises.
    """
    rehearsals = []
    for way in () if method.code else WAYS:
        program = _build(method, runtime, knobs, way)
        try:
            rehearsals.append(Context().run(event_loop.run, _run(program)))
        except RagcError:
            continue
    return rehearsals


def calls_about(method: Method, runtime: Runtime, knobs: Mapping[str, Any]) -> int:
    """Returns about how many LM calls a question takes, rather too many: the most of all rehearsals.

    A user's own program says it by `most_calls`, or it is one call for each predictor.
    """
    program: Any = method.build(runtime, dict(knobs))
    calls = [rehearsal.calls for rehearsal in rehearse(method, runtime, knobs)]
    most = program.most_calls() if method.code else max(calls, default=1)
    return int(most + program.rewrites)


def learns(method: Method) -> bool:
    """Returns whether programs of `method` learn from train questions beside their demonstrations."""
    learn: object = resolve_name(method.program).fit
    return learn is not RagProgram.fit


def fit_calls_about(method: Method, runtime: Runtime, knobs: Mapping[str, Any]) -> int:
    """Returns about how many LM calls learning from one train question takes; 0 if nothing is learned."""
    if not learns(method):
        return 0
    program = _build(method, runtime, knobs, WAYS[0])
    metric = SimpleNamespace(id="", higher_is_better=True)

    async def score(outcome: object) -> Any:
        return SimpleNamespace(scores={"": 0.0})

    async def fit() -> int:
        scorer: Any = SimpleNamespace(metrics=(metric,), score=score)
        with counters.counting(Counters()) as cost:
            await program.fit([Question("", WORD, (WORD,))], scorer)
        return cost.lm_calls

    return Context().run(event_loop.run, fit())


def writers_of(program: RagProgram) -> tuple[str, ...]:
    """Returns the predictors whose output `answer` is the program's answer, and not a draft of it.

    In every rehearsal such a predictor is called at most once, and no other one answers after it. Of a user's
    own program it is the only one.
    """
    if program.method.code:
        return tuple(name for name, _ in program.named_predictors() if len(program.predictors()) == 1)
    rehearsals = rehearse(program.method, program.runtime, program.knobs.to_json())
    names = dict.fromkeys(name for rehearsal in rehearsals for name in rehearsal.answering)
    return tuple(
        name for name in names if all(name not in rehearsal.answering[:-1] for rehearsal in rehearsals)
    )
