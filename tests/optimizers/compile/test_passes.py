"""What a compile says and keeps before it sends anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragc import recipe as recipes
from ragc.core import event_loop
from ragc.errors import (
    TargetUnavailable,
    UsageError,
)
from ragc.optimizers.compile import (
    Prepared,
    open_models,
    prepare,
)
from ragc.optimizers.search.storage import study_directory
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run
from tests.support.progress import Notes


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
    target, progress = ScriptedTarget([]), Notes()
    recipe = recipes.load(folder / "recipe.toml", sets)
    with prepare(recipe, folder / "out", targets={"main": target}, progress=progress) as prepared:
        event_loop.run(open_models(prepared))
    assert expected in progress.notes[0]
    assert not target.requests
