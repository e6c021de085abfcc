"""The recipes that come with the project: read, and every program that they name built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.optimizers.grids.settings import settings_of
from ragc.programs.runtime import Runtime
from ragc.recipe.load import parse
from ragc.records import Passage
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Reply, TokenLogprob
from ragc.task.base import prepare
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
SLIMPLM = parse((EXPERIMENTS / "slimplm.toml").read_text("utf-8"), files=False)
PAGES = [
    Passage(f"p{i}", f"Page {i}", " ".join(f"Fact {i} {j} about Paris." for j in range(24)))
    for i in range(60)
]
SHOWN = {"slimplm": 10, "vanilla": 20, "flare": 5, "self_eval": 20, "iter_retgen": 20, "skr": 20}
"""References that one search leads to: the ten pages of the one query of slimplm have one paragraph each."""
SAYS = {
    "heuristic_answer": "The Seine flows through Paris.", "known": "no", "claims": [], "questions": [],
    "need": True, "kind": "answer", "text": "Seine", "answer": "Seine", "reasoning": "It does.",
    "sentence": "The Seine flows through Paris.", "reason": "It may be wrong.",
}  # fmt: skip


def reply(request: ChatRequest) -> Reply:
    assert request.schema is not None
    text = json.dumps({name: SAYS[name] for name in request.schema["properties"]})
    return Reply(text, logprobs=(TokenLogprob(text, -3.0),) if request.logprobs else ())


GRIDS = {"pydocs": (48, 100), "hotpotqa_smollm2": (32, 80), "hotpotqa_qwen": (16, 40)}
"""Settings and questions of the recipes in `grids`."""


RECIPES = [
    path
    for path in sorted(EXPERIMENTS.rglob("*.toml"))
    if not {"tables", "training"} & set(path.relative_to(EXPERIMENTS).parts)
]
"""Tables of the papers and settings of trainings are no recipes; their own tests read them."""


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_can_be_read(path: Path) -> None:
    assert parse(path.read_text("utf-8"), files=False).methods


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("grids/*.toml")), ids=lambda path: path.stem)
def test_a_grid_has_the_settings_and_questions_that_it_promises(path: Path) -> None:
    """On questions of pydocs, because those of HotpotQA are not part of the project."""
    sets = [] if path.stem == "pydocs" else ["data.dataset=pydocs", "data.questions=pydocs.jsonl"]
    recipe = parse(path.read_text("utf-8"), sets, files=False)
    task = prepare(recipe, store=CallStore(None), targets={"main": ScriptedTarget([])})
    settings = settings_of(task)
    assert (len(settings), len(task.dev)) == GRIDS[path.stem]
    assert settings[0].demos == 0
    assert {one.demo_kind for one in settings if one.demos} == {"labelled"}
    assert {one.demo_set for one in settings if one.demos} > {0, 1}
    assert not task.test


@pytest.mark.parametrize("entry", SLIMPLM.methods, ids=lambda entry: entry.id)
def test_every_row_of_the_slimplm_table_runs_in_the_papers_setting(entry: Any) -> None:
    main, proxy = ScriptedTarget(reply), ScriptedTarget(reply)
    knobs = SLIMPLM.fixed(entry)
    program = entry.build(Runtime({"main": main, "proxy": proxy}, {"local": ListSource(PAGES)}), knobs)
    prediction = program(question="Which river flows through Paris?")
    assert "Seine" in prediction.answer
    assert knobs["temperature"] == 0.01
    assert knobs["top_p"] == 0.85
    assert all(request.sampling.temperature == 0.01 for request in (*main.requests, *proxy.requests))
    assert len(prediction.passages) == SHOWN.get(entry.id, 0)


def test_the_rows_are_those_of_the_paper() -> None:
    rows = "slimplm no_retrieval cot vanilla flare self_eval self_ask iter_retgen skr"
    assert [entry.id for entry in SLIMPLM.methods] == rows.split()


@pytest.mark.parametrize(("policy", "searched"), [("web", {"web"}), ("kg", {"kg"}), ("all", {"web", "kg"})])
def test_the_baseline_of_crag_answers_from_three_pieces_and_the_api_alone(
    policy: str, searched: set[str]
) -> None:
    recipe = parse((EXPERIMENTS / "crag.toml").read_text("utf-8"), files=False)
    knobs = {**recipe.fixed(recipe.method), "source_policy": policy}
    fields = {"domain": "movie", "entities": {"items": [{"text": "Heat", "kind": "movie"}]}, "answer": "1995"}
    target = ScriptedTarget(SchemaReplies(fields=fields))
    facts = [Passage("api/heat", "Heat: movie", "- release date: 1995-12-15")]
    sources = {"web": ListSource(PAGES), "kg": ListSource(facts)}
    prediction = recipe.method.build(Runtime({"main": target}, sources), knobs)(
        question="When was Heat made?"
    )
    assert (prediction.answer, prediction.counters["searches"]) == ("1995", len(searched))
    shown = [passage.id for passage in prediction.passages]
    assert ("api/heat" in shown) == ("kg" in searched)
    assert len(shown) == 3 * ("web" in searched) + ("kg" in searched)
    assert "passages alone" in target.requests[-1].messages[0].content
    assert sources["web"].cut == ((50, 0.0) if "web" in searched else None)
