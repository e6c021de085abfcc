"""The settings files of trainings that come with the project, and the rows that their commands make."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ragc.testing import ScriptedTarget
from tests.paths import ROOT
from tests.training.data import test_prefrag, test_rqrag, test_slimplm
from tests.training.data.common import Answering, maker, targets, write_data

FILES = sorted((ROOT / "experiments/training").glob("*.toml"))
ROWS = "# Rows: ragc data "

MODELS: Mapping[str, Mapping[str, Answering]] = {
    "prefrag-dpo": {"main": test_prefrag.small(), "teacher": test_prefrag.teacher()},
    "rqrag-sft": {"main": test_prefrag.small(), "teacher": test_rqrag.teacher()},
    "slimplm-judge": {"main": test_prefrag.small(), "proxy": test_slimplm.proxy},
}
"""By kind of rows what the scripted models say."""


@dataclass(frozen=True, slots=True)
class RowsCommand:
    """The command in the head of a settings file: the kind of rows, their file, overrides of the recipe."""

    kind: str
    out: str
    sets: tuple[str, ...]

    @classmethod
    def of(cls, file: Path) -> RowsCommand:
        """The command in `file`, which must have one."""
        lines = [line for line in file.read_text("utf-8").splitlines() if line.startswith(ROWS)]
        assert len(lines) == 1, f"{file.name} has no line {ROWS!r} with the command for its rows"
        kind, recipe, *options = shlex.split(lines[0].removeprefix(ROWS))
        assert recipe == "RECIPE"
        named = list(zip(options[::2], options[1::2], strict=True))
        assert {option for option, _ in named} <= {"--set", "--out"}
        (out,) = (value for option, value in named if option == "--out")
        return cls(kind, out, tuple(value for option, value in named if option == "--set"))


def models_of(kind: str) -> dict[str, ScriptedTarget]:
    """Scripted models that give rows of `kind`."""
    return targets(**MODELS[kind])


def make_rows(file: Path, folder: Path, *sets: str, n: int = 8) -> Path:
    """Makes the rows of `file` in `folder` from `n` questions, as its command says; copies the file there.

    `sets` are overrides of the recipe beside those of the command.
    """
    command = RowsCommand.of(file)
    write_data(folder, command.kind.partition("-")[0], n=n)
    maker(folder, command.kind)(models_of(command.kind), command.out, sets=(*command.sets, *sets))
    return Path(shutil.copy(file, folder / file.name))
