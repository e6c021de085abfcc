"""A study whose files were damaged: a sentence or the same result, never a traceback or a budget too low."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ragc.cli import main
from ragc.compiled.base import load
from ragc.errors import RagcError, StoreError
from ragc.optimizers.search.storage import study_directory
from ragc.optimizers.status import status
from ragc.recipe import Budget
from ragc.task.budget import FileLedger
from ragc.testing import ScriptedTarget
from tests.examples import THOROUGH, thorough
from tests.optimizers.colours import Killed, begun, dying, identical, needs_demos, written

SEED = 20_261_122
MUTATIONS = 100 if THOROUGH else 25
SETS = ('search.knobs=["top_k"]', "search.demos=1", "search.trials=3", "budget.lm_calls=500", "data.dev=8")

Mutation = Callable[[bytes, random.Random], bytes]


def flipped(content: bytes, pick: random.Random) -> bytes:
    changed = bytearray(content or b"\0")
    changed[pick.randrange(len(changed))] ^= 1 << pick.randrange(8)
    return bytes(changed)


def cut(content: bytes, pick: random.Random) -> bytes:
    return content[: pick.randrange(len(content) + 1)]


def without_a_line(content: bytes, pick: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(lines[:at] + lines[at + 1 :]) if (at := pick.randrange(len(lines) or 1)) >= 0 else content


def another_number(content: bytes, pick: random.Random) -> bytes:
    numbers = list(re.finditer(rb"\d+", content))
    if not numbers:
        return content + b"1"
    chosen = pick.choice(numbers)
    return content[: chosen.start()] + str(pick.randrange(100)).encode() + content[chosen.end() :]


def another_value(content: bytes, pick: random.Random) -> bytes:
    values = list(re.finditer(rb'"[^"]*"|\btrue\b|\bfalse\b|\bnull\b', content))
    if not values:
        return b"[" * 100_000
    chosen = pick.choice(values)
    other = pick.choice([b"null", b"[]", b"{}", b"-1", b'"\\ud800"', b'"\\u001b[31m"', b"[" * 5_000])
    return content[: chosen.start()] + other + content[chosen.end() :]


def garbage(content: bytes, pick: random.Random) -> bytes:
    return pick.randbytes(pick.randrange(300))


MUTATE: tuple[Mutation, ...] = (
    *(flipped, flipped, flipped, cut, without_a_line, another_number, another_number, another_value, garbage),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and recipe, and the store of all that was answered."""
    return written(tmp_path_factory.mktemp("damaged"))


@pytest.fixture(scope="module")
def study(home: Path) -> tuple[Path, Path, float]:
    """The directory of a study that was cut off, a copy of it, and what its resuming spends in all."""
    run = begun(home)
    with pytest.raises((Killed, RagcError)):
        run("out", target=dying(needs_demos, 50), sets=SETS)
    directory = study_directory(home / "out")
    copy = home / "copy"
    shutil.copytree(directory, copy, symlinks=True)
    run("whole", sets=SETS)
    run("out", sets=SETS, resume=True)
    assert identical(home / "whole", home / "out")
    return directory, copy, float(status(home / "out").budget["lm_calls"]["spent"] or 0)


def restored(directory: Path, copy: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(copy, directory, symlinks=True)


def one_sentence(text: str) -> None:
    assert "Traceback" not in text
    assert "\x1b" not in text


@thorough
def test_mutated_files_of_a_study(
    home: Path, study: tuple[Path, Path, float], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, copy, spent = study
    pick, seen, anew = random.Random(SEED), Counter[str](), Counter[str]()
    files = sorted(path for path in copy.rglob("*") if path.is_file() and path.suffix != ".lock")
    assert {"charges.jsonl", "recipe.toml", "study.journal", "study.json", "study.log"} <= {
        path.name for path in files
    }
    for _ in range(MUTATIONS):
        restored(directory, copy)
        name = pick.choice(files).relative_to(copy)
        harmed = pick.choice(MUTATE)((copy / name).read_bytes(), pick)
        (directory / name).write_bytes(harmed)
        code = main.main(["study", "status", str(home / "out")])
        shown = capsys.readouterr()
        assert code in (0, 1, 2)
        one_sentence(shown.out + shown.err)
        shutil.rmtree(home / "out", ignore_errors=True)
        try:
            begun(home)("out", sets=SETS, resume=True, target=ScriptedTarget(needs_demos))
        except RagcError as error:
            one_sentence(str(error))
            seen[f"{name.name}: refused"] += 1
            if anew[name.name] < 2:
                begun(home)("out", sets=SETS)
                assert identical(home / "whole", home / "out"), f"begun anew it is another: {name}"
                anew[name.name] += 1
            continue
        assert identical(home / "whole", home / "out"), f"another result in silence: {name}"
        now = float(status(home / "out").budget["lm_calls"]["spent"] or 0)
        assert now >= spent or name.name == "charges.jsonl", f"too little was counted: {name}"
        if name.name == "charges.jsonl":
            lost = harmed.count(b"\n") < (copy / name).read_bytes().count(b"\n")
            assert now >= spent or lost, "too little was counted in silence"
        seen[f"{name.name}: same result"] += 1
    print(f"seed {SEED}", dict(seen))
    assert sum(count for name, count in seen.items() if "refused" in name) >= MUTATIONS / 10


def charged(path: Path, n: int = 20) -> None:
    ledger = FileLedger(path, Budget())
    for number in range(n):
        ledger.replay(f"key{number}", 10, 0.5)
    ledger.close()


def test_a_flipped_bit_never_lowers_what_was_spent(tmp_path: Path) -> None:
    path, pick, seen = tmp_path / "charges.jsonl", random.Random(SEED), Counter[str]()
    charged(path)
    whole = path.read_bytes()
    for _ in range(400):
        path.write_bytes(flipped(whole, pick))
        try:
            ledger = FileLedger(path, Budget())
        except StoreError as error:
            seen["refused" if re.search(r"damaged in line \d+.*--resume", str(error)) else "said else"] += 1
            continue
        assert (ledger.calls, ledger.tokens, ledger.usd) == (20, 200, 10.0)
        seen["right"] += 1
    print(dict(seen))
    assert seen["refused"] + seen["right"] == 400


@pytest.mark.parametrize("text", ["[]", "3", "[" * 100_000, '"' + "x" * 9, "{" + '"a":{' * 60_000])
@pytest.mark.parametrize("name", ["run.json", "provenance.json", "program.json"])
def test_a_compiled_program_with_a_file_of_another_shape(
    home: Path, study: tuple[Path, Path, float], tmp_path: Path, text: str, name: str
) -> None:
    shutil.copytree(home / "whole", tmp_path / "c")
    (tmp_path / "c" / name).write_text(text)
    with pytest.raises(RagcError, match=r"c") as caught:
        load(tmp_path / "c")
    assert "Traceback" not in str(caught.value)
    assert len(str(caught.value)) < 1000
