"""The passes of a compile: each run alone on a scripted target, and `compile` as their composition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.core import event_loop
from ragc.core.progress import Progress
from ragc.errors import (
    RecipeError,
    TargetUnavailable,
    UsageError,
)
from ragc.optimizers.compile import (
    Prepared,
    baseline,
    open_models,
    prepare,
    search,
    select,
    verify,
)
from ragc.optimizers.compile.searches import open_search
from ragc.optimizers.compile.searches.base import Baseline, Searched, Selected
from ragc.optimizers.search.storage import study_directory
from ragc.store.calls import CallStore
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, needs_demos


@dataclass
class Watched(Progress):
    """A progress that notes what it hears."""

    phases: list[str]
    notes: list[str]
    closed: int = 0

    def phase(self, name: str, total: int | None, unit: str = "questions") -> None:
        self.phases.append(name)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def close(self) -> None:
        self.closed += 1


@contextmanager
def prepared_in(
    folder: Path, target: ScriptedTarget, *sets: str, out: str = "out", resume: bool = False
) -> Iterator[Prepared]:
    recipe = recipes.load(folder / "recipe.toml", ("search.trials=4", *sets))
    with prepare(
        recipe,
        folder / out,
        resume=resume,
        store=CallStore(None),
        targets={"main": target},
        progress=Watched([], []),
    ) as prepared:
        yield prepared


def watched(prepared: Prepared) -> Watched:
    assert isinstance(prepared.progress, Watched)
    return prepared.progress


async def first_passes(prepared: Prepared) -> tuple[Baseline, Searched, Selected]:
    opened = open_search(prepared.task, prepared.directory, prepared.limit, prepared.progress)
    async with opened as dev_search:
        first = await baseline(dev_search)
        searched = await search(dev_search, first)
    return first, searched, await select(dev_search, searched)


# prepare


def state_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_a_compile_that_is_refused_leaves_the_earlier_study_as_it_was(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(sets=("search.trials=3",))
    directory = study_directory(folder / "out")
    before = state_of(directory)
    assert "charges.sqlite3" in before
    assert "recipe.toml" in before

    with pytest.raises(UsageError, match=r"data\.dev"):
        run(sets=("search.trials=3", "data.dev=0"))
    assert state_of(directory) == before

    async def unreachable(prepared: Prepared) -> None:
        raise TargetUnavailable("No model answers.")

    monkeypatch.setattr(Prepared, "open", unreachable)
    with pytest.raises(TargetUnavailable, match="No model answers"):
        run(sets=("search.trials=2",))
    assert state_of(directory) == before


# open_models


def test_open_models_builds_each_program_before_a_model_is_loaded(folder: Path) -> None:
    class Opening(ScriptedTarget):
        opened = 0

        async def open(self, progress: Any = None) -> None:
            self.opened += 1

    target = Opening(needs_demos)
    (folder / "answer.json").write_text('{"no": "prompt"}', "utf-8")
    with (
        prepared_in(folder, target, "prompts.answer='answer.json'") as prepared,
        pytest.raises(RecipeError, match=r"prompts\.answer = 'answer\.json'"),
    ):
        event_loop.run(open_models(prepared))
    assert target.opened == 0
    with prepared_in(folder, target) as prepared:
        event_loop.run(open_models(prepared))
        assert watched(prepared).phases == ["opening the model"]
    assert [target.opened, len(target.requests)] == [1, 0]


# baseline


def test_baseline_reserves_so_many_calls_that_the_search_cannot_spend_them(folder: Path) -> None:
    target = ScriptedTarget(needs_demos)
    with prepared_in(folder, target, "budget.lm_calls=75") as prepared:
        _, searched, selected = event_loop.run(first_passes(prepared))
        assert "lm_calls" in searched.budget or "LM calls" in searched.budget
        verified = event_loop.run(verify(prepared, selected))
    assert len(verified.rows["winner"]) == 25
    assert len(target.requests) <= 75


# search and select


# verify


# write


# compile


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (("search.demos=0", "search.knobs=[]"), "The recipe searches nothing, so its program is compiled"),
        (("data.dev=4", "data.test=8"), "4 dev questions cannot show anything: 6 must get better"),
        (("data.dev=4", "data.test=8"), "8 test questions show no gain in exact match with 80% probability"),
    ],
)
def test_what_a_study_cannot_show_is_noted_before_anything_is_sent(
    folder: Path, sets: tuple[str, ...], expected: str
) -> None:
    target = ScriptedTarget([])
    with prepared_in(folder, target, *sets) as prepared:
        event_loop.run(open_models(prepared))
        assert isinstance(prepared.progress, Watched)
        assert expected in prepared.progress.notes[0]
    assert not target.requests
