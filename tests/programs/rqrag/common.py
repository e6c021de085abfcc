"""RQ-RAG on scripted targets: what its tests share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.records import Passage
from ragc.signatures import wording
from ragc.signatures.query import (
    AnswerPath,
    DecomposeQuery,
    RewriteQuery,
)
from ragc.targets.base import ChatRequest, Reply, TokenLogprob
from ragc.testing import ListSource, ScriptedTarget
from tests.support.requests import inputs_of

BOTH = {"query": "q", "answer": "a"}
FORK = {"max_depth": 1, "width": "rewrite+decompose"}


def passages(n: int) -> list[Passage]:
    return [Passage(f"p{i}", f"Title {i}", f"text {i}") for i in range(n)]


def build_program(target: ScriptedTarget, source: Any = None, judge: Any = None, **knobs: Any) -> RagProgram:
    targets: Any = {"main": target} | ({"judge": judge} if judge else {})
    runtime = Runtime(targets, {"local": source or ListSource(passages(40))})
    return method("rqrag").build(runtime, {"wording": "brief", **knobs})


def is_for(request: ChatRequest, signature: Any) -> bool:
    return request.messages[0].content.startswith(wording.worded(signature, "brief").instructions)


def select_requests(target: ScriptedTarget, *signatures: Any) -> list[ChatRequest]:
    return [r for r in target.requests if any(is_for(r, s) for s in signatures)]


def fresh(request: ChatRequest) -> dict[str, Any]:
    """Replies to all calls, with another query after each search of a path."""
    searched = len(re.findall(r"^\[\d+\] ", inputs_of(request), re.MULTILINE))
    return {**BOTH, "query": f"q{searched}"}


def classify_path(request: ChatRequest) -> str:
    """Which of the three paths of FORK `request` is about."""
    return next((kind for kind in ("rewrite", "decompose") if f"[1] {kind}: " in inputs_of(request)), "root")


def last_answer(target: ScriptedTarget) -> str:
    return max((inputs_of(r) for r in select_requests(target, AnswerPath)), key=len)


def worded(field: str, value: str, *logprobs: float, **more: Any) -> Reply:
    """A JSON reply whose value is one token for each of `logprobs`; all around it is very unlikely."""
    before, after = f'{{"{field}": "', '"' + "".join(f', "{k}": {v}' for k, v in more.items()) + "}"
    step = math.ceil(len(value) / len(logprobs))
    parts = [value[i * step : (i + 1) * step] for i in range(len(logprobs))]
    tokens = [TokenLogprob(before, -9.0), *map(TokenLogprob, parts, logprobs), TokenLogprob(after, -9.0)]
    return Reply(before + value + after, logprobs=tuple(tokens))


def fork(**by_place: Any) -> Callable[[ChatRequest], Any]:
    """Answers by path, each a reply or a function of the request; every query is `q`."""

    def reply(request: ChatRequest) -> Any:
        if is_for(request, RewriteQuery) or is_for(request, DecomposeQuery):
            return worded("query", "q", 0.0)
        answer = by_place[classify_path(request)]
        return answer(request) if callable(answer) else answer

    return reply
