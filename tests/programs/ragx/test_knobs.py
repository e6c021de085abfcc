"""RAG-X's knobs: which of them matter under a policy, which hold together, and what they name."""

from __future__ import annotations

from typing import Any

import optuna
import pytest

from ragc.corpora import embed
from ragc.corpora.rerank import RerankedSource
from ragc.errors import UsageError
from ragc.optimizers.candidates.space import ProgramSpace, SearchSpace
from ragc.optimizers.search.parameters import suggest
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.ragx import EMBEDDERS, RagXKnobs
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note
from ragc.records import Passage
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget

RAGX = method("ragx")
QUESTION = "Who sang Hello with Adele in London?"


def passages(n: int) -> list[Passage]:
    return [Passage(f"w{i}", f"title {i}", f"text {i}.") for i in range(n)]


def build_program(target: ScriptedTarget, web: Any, **knobs: Any) -> RagProgram:
    return RAGX.build(Runtime({"main": target}, {"web": web}), knobs)


def test_a_search_of_all_knobs_reads_no_gold_label_and_needs_no_other_model_or_source() -> None:
    needing = {"gold_domain", "router_role", "dense_share", "embedder", "rerank_by"}
    assert not needing & {knob.name for knob in RagXKnobs.list_knobs() if knob.searched}


@pytest.mark.parametrize("values", [{"pool": 3, "top_n": 4}, {"pool": 10, "top_n": 20}])
def test_a_pool_smaller_than_what_is_kept_of_it_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="raise pool or lower top_n"):
        RagXKnobs.of({"rerank": True, **values})
    assert RagXKnobs.of(values).rerank is False
    assert RagXKnobs.of({"rerank": True, "pool": "all", "top_n": 20}).pool == "all"


@pytest.mark.parametrize(
    ("names", "fixed"),
    [
        (("rerank", "pool", "top_n"), {}),
        (("rerank", "pool"), {"top_n": 7}),
        (("rerank", "top_n"), {"pool": 3}),
    ],
)
def test_a_study_draws_no_pool_that_is_too_small(names: tuple[str, ...], fixed: dict[str, Any]) -> None:
    knobs = tuple(RagXKnobs.knob(name) for name in names)
    part = ProgramSpace(knobs, RagXKnobs, fixed=fixed, demos=1)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    drawn = [suggest(SearchSpace((part,)), study.ask()).knobs for _ in range(80)]
    for values in (*drawn, *(candidate.knobs for candidate in part.screening())):
        RagXKnobs.of(values)
        assert {name: values[name] for name in fixed} == fixed
    assert {values["rerank"] for values in drawn} == {True, False}


def test_a_pool_can_be_every_chunk_and_be_ordered_by_the_reranker_of_the_source() -> None:
    class Backwards:
        """Scores later passages higher."""

        name = fingerprint = "backwards"

        async def scores(self, query: str, passages: Any) -> list[float]:
            return [float(p.id[1:]) for p in passages]

    web = RerankedSource(ListSource(passages(30)), Backwards(), pool=2)
    knobs: dict[str, Any] = {"rerank": True, "rerank_by": "source", "top_n": 2}
    for pool, expected in (("all", ["w29", "w28"]), (5, ["w4", "w3"])):
        target = ScriptedTarget(SchemaReplies())
        prediction = build_program(target, web, **knobs, pool=pool)(question=QUESTION)
        assert [p.id for p in prediction.passages] == expected
        assert len(target.requests) == 1
    with pytest.raises(UsageError, match=r"Knob rerank_by = 'source' .* names none"):
        build_program(ScriptedTarget([]), ListSource([]), **knobs)


def test_a_reranker_that_fails_leaves_the_order_and_is_noted() -> None:
    class Broken:
        name = fingerprint = "broken"

        async def scores(self, query: str, passages: Any) -> list[float]:
            from ragc.errors import SourceError

            raise SourceError("no weights")

    web = RerankedSource(ListSource(passages(9)), Broken())
    program = build_program(ScriptedTarget(SchemaReplies()), web, rerank=True, rerank_by="source")
    prediction = program(question=QUESTION)
    assert [p.id for p in prediction.passages] == ["w0", "w1", "w2"]
    assert any(isinstance(e, Note) and e.about == "rerank" for e in prediction.trace)


@pytest.mark.parametrize("name", [*EMBEDDERS])
def test_the_embedder_is_that_of_the_paper(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dense(ListSource):
        kind = "dense"

        def with_embedder(self, embedder: Any) -> ListSource:
            return ListSource([Passage("e", "", f"found with {embedder}")])

    monkeypatch.setattr(embed, "make", lambda model: model)
    target = ScriptedTarget(SchemaReplies())
    (passage,) = build_program(target, Dense(passages(3)), embedder=name)(question=QUESTION).passages
    assert passage.text == f"found with {EMBEDDERS[name]}"
    both = {"web": ListSource(passages(3)), "dense": Dense(passages(3))}
    program = RAGX.build(Runtime({"main": target}, both), {"embedder": name, "dense_share": 1.0})
    assert [p.id for p in program(question=QUESTION).passages] == ["e"]
    with pytest.raises(UsageError, match=f"Knob embedder = '{name}' needs a source of kind 'dense'"):
        build_program(target, ListSource(passages(3)), embedder=name)
