"""Kinds of demonstrations: each is what it says, and one that is named alone is the only one searched."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc import recipe as recipes
from ragc.compiled.base import load
from ragc.compiled.evaluate import score
from ragc.compiled.opened import open_program
from ragc.core import event_loop
from ragc.core.progress import Silent
from ragc.errors import DataError, RecipeError, UsageError
from ragc.exports.derive import derive_export
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.demos.pool import Demonstration, DemoPool, balance_labels
from ragc.optimizers.search.storage import InMemoryAttributes
from ragc.prompts.model import NotExpressible
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.task.base import prepare
from ragc.testing import ScriptedTarget
from tests.examples import examples
from tests.optimizers.colours import Run, colour_of, needs_demos, write_data
from tests.support.colours import COLOURS


def judging(request: ChatRequest) -> dict[str, Any]:
    """Right about half of the things; needs no passages for a few of them, and says so."""
    prompt = request.messages[-1].content
    assert request.schema is not None
    if "need" in request.schema["properties"]:
        return {"need": "number3" not in prompt}
    if "Passages" not in prompt:
        return {"answer": COLOURS[3]}
    return {"answer": colour_of(request) if "number1" in prompt else "no idea"}


def builder_of(folder: Path, *sets: str, target: ScriptedTarget | None = None) -> ProgramBuilder:
    wanted = ("search.knobs=[]", "search.demos=2", *sets)
    recipe = recipes.load(folder / "recipe.toml", wanted)
    task = prepare(recipe, store=CallStore(None), targets={"main": target or ScriptedTarget(judging)})
    return ProgramBuilder(task, InMemoryAttributes(), asyncio.Semaphore(8), Silent())


def shown(builder: ProgramBuilder, **more: Any) -> dict[str, list[dict[str, Any]]]:
    candidate = replace(builder.space.first.baseline_with_demos(), **more)
    program = event_loop.run(builder.program(candidate))
    return {name: [dict(demo) for demo in call.demos] for name, call in program.named_predictors()}


def pool_of(builder: ProgramBuilder) -> DemoPool:
    (name,) = (name for name in builder._attributes.names() if name.startswith("pool:"))
    text = json.dumps(builder._attributes.get(name))
    assert json.dumps(DemoPool.of(json.loads(text)).to_json()) == text
    return DemoPool.of(json.loads(text))


def kinds(*names: str) -> str:
    return f"search.demo_kinds={json.dumps(names)}"


def test_bootstrapped_labelled_and_filled_are_what_they_say(folder: Path) -> None:
    builder = builder_of(folder, kinds("filled", "bootstrapped", "labelled"), "knobs.top_k=1")
    by_kind = {kind: shown(builder, demo_kind=kind, demos=8)["answer"] for kind in ("filled", "bootstrapped")}
    labelled_demos = shown(builder, demo_kind="labelled", demos=8)["answer"]
    pool = pool_of(builder)
    n = len(pool.scores)
    assert 0 < n < 8
    assert len(by_kind["filled"]) == 8
    assert by_kind["bootstrapped"] == by_kind["filled"][:n] == list(pool.demos["answer"][:n])
    assert labelled_demos == [dict(one.values) for one in pool.labelled_demos["answer"][:8]]
    assert all(one.score is None for one in pool.labelled_demos["answer"])
    earned = {demo["question"] for demo in by_kind["bootstrapped"]}
    assert {demo["question"] for demo in labelled_demos} & earned, (
        "a question that earned one may be labelled too"
    )


def test_judgement_calls_are_shown_balanced_by_what_they_decided(folder: Path) -> None:
    def knows_some(request: ChatRequest) -> dict[str, Any]:
        number = request.messages[-1].content.rpartition("thing number")[2].split("?")[0]
        need = "need" in (request.schema or {})["properties"]
        return {"need": int(number) % 5 > 0} if need else {"answer": COLOURS[int(number) % 5]}

    sets = ('program="self_eval"', kinds("balanced"), "search.demos=4")
    builder = builder_of(folder, *sets, target=ScriptedTarget(knows_some))
    seen = shown(builder, demos=4)["gate"]
    assert Counter(demo["need"] for demo in seen) == {True: 2, False: 2}
    labels = Counter(one.label for one in pool_of(builder).by_label["gate"])
    assert labels == {"true": 12, "false": 3}
    assert shown(builder, demos=4, demo_set=1)["gate"] != seen
    assert len(shown(builder, demos=4)["answer"]) == 4, "what gives no label shows as many as ever"


DRAWN = st.lists(st.sampled_from("abc"), max_size=14)


@settings(max_examples=examples(60))
@given(DRAWN, st.integers(0, 3), st.integers(0, 9))
def test_labels_differ_by_one_at_most_unless_one_ran_out(labels: list[str], number: int, size: int) -> None:
    pool = [Demonstration({"n": n}, 1.0, label) for n, label in enumerate(labels)]
    chosen = balance_labels(pool, number, size, seed=1)
    assert chosen == balance_labels(pool, number, size, seed=1)
    assert len(chosen) == min(size, len(pool)) == len({one.values["n"] for one in chosen})
    held, taken = Counter(labels), Counter(one.label for one in chosen)
    assert all(
        taken[label] == held[label] or taken[label] >= max(taken.values(), default=0) - 1 for label in held
    )


def test_a_program_without_judgement_calls_is_not_balanced(folder: Path) -> None:
    assert builder_of(folder, kinds("balanced", "nearest")).space.first.demo_kinds == ("nearest",)
    with pytest.raises(UsageError, match="'vanilla' has none whose output is one of a few labels"):
        builder_of(folder, kinds("balanced"))


def test_the_nearest_are_chosen_by_each_question_of_the_compiled_program(run: Run, folder: Path) -> None:
    sets = ("search.knobs=[]", "search.trials=2", kinds("nearest"))
    run(sets=sets)
    state = load(folder / "out").state.predictors["answer"]
    assert 0 < state.nearest < len(state.demos) == 8
    target = ScriptedTarget(needs_demos)
    opened = open_program(folder / "out", store=CallStore(None), targets={"main": target})
    score(opened, "test")
    for request in target.requests:
        users = [m.content for m in request.messages if m.role == "user"]
        assert len(users) == state.nearest + 1
    for demo in state.demos:
        opened.program(question=demo["question"])
        last = [m for m in target.requests[-1].messages if m.role == "user"][-2]
        assert demo["question"] in last.content
    with pytest.raises(NotExpressible, match="demo_kinds"):
        derive_export(load(folder / "out"))


def test_nearest_and_all_others_compile_to_the_same_bytes_twice(run: Run, folder: Path) -> None:
    sets = ('program="self_eval"', "search.trials=8", kinds("filled", "bootstrapped", "nearest", "balanced"))
    run("one", sets=sets, target=ScriptedTarget(judging), store=CallStore(None))
    run("two", sets=(*sets, "concurrency=1"), target=ScriptedTarget(judging), store=CallStore(None))
    for name in ("program.json", "provenance.json"):
        assert (folder / "one" / name).read_bytes() == (folder / "two" / name).read_bytes()


@pytest.fixture
def other(folder: Path) -> Path:
    """A question file and its corpus, of another domain."""
    home = folder / "other"
    home.mkdir()
    write_data(home, 12)
    for name in ("questions", "corpus"):
        text = (home / f"{name}.jsonl").read_text("utf-8")
        for old, new in (("colour is thing", "paint has wall"), ("Thing", "Wall"), ('"id": "', '"id": "w')):
            text = text.replace(old, new)
        (home / f"{name}.jsonl").write_text(text.replace('["d', '["wd'), "utf-8")
    return home


CROSSED = ('data.cross_domain="other/questions.jsonl"', 'data.cross_domain_corpus="other/corpus.jsonl"')


def test_demonstrations_of_another_domain_come_from_its_own_file_and_corpus(
    folder: Path, other: Path
) -> None:
    target = ScriptedTarget(lambda request: {"answer": "no idea"})
    builder = builder_of(folder, kinds("filled", "cross-domain"), *CROSSED, target=target)
    crossed = shown(builder, demo_kind="cross-domain", demos=2)["answer"]
    own = shown(builder, demo_kind="filled", demos=2)["answer"]
    assert all("wall" in demo["question"] and "Wall" in demo["passages"][0] for demo in crossed)
    assert all("thing" in demo["question"] and "Thing" in demo["passages"][0] for demo in own)
    assert len(builder.costs()) == 2
    assert builder.task.facts["data"]["cross_domain"]["n"] == 12


def test_a_study_of_cross_domain_ones_alone_needs_no_train_questions(
    run: Run, folder: Path, other: Path
) -> None:
    def needs_any(request: ChatRequest) -> dict[str, Any]:
        prompt = request.messages[-1].content
        return {"answer": "no idea"} if "wall number" in prompt else needs_demos(request)

    sets = ("search.knobs=[]", "search.trials=3", kinds("cross-domain"), *CROSSED, "data.train=0")
    run(sets=sets, target=ScriptedTarget(needs_any))
    demos = load(folder / "out").state.predictors["answer"].demos
    assert demos
    assert all("wall" in demo["question"] for demo in demos)


def test_another_domain_shares_no_question_with_this_one(folder: Path) -> None:
    with pytest.raises(DataError, match="share"):
        builder_of(folder, kinds("cross-domain"), 'data.cross_domain="questions.jsonl"')


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (kinds("nearby"), "Did you mean 'nearest'"),
        (kinds("cross-domain"), r"data\.cross_domain"),
        ('data.cross_domain="gone.jsonl"', "gone.jsonl"),
    ],
)
def test_what_cannot_be_searched_is_told_by_its_line(folder: Path, setting: str, says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        recipes.load(folder / "recipe.toml", (setting,))
