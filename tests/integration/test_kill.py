"""kill -9 of a study at twenty moments drawn with a seed, and 1 against 64 requests in flight.

Each run is a process of its own, forked from one that has imported everything.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from ragc import recipe as recipes
from ragc.compiled.base import load
from ragc.optimizers import compile as compiling
from tests.processes import PATH
from tests.support.loopback import TABLES, Loopback
from tests.support.loopback_world import write_data

pytestmark = pytest.mark.integration

LATENCY_S = 0.01
RECIPE = (
    """
program = "vanilla"
seed = 5
concurrency = 8
[search]
knobs = ["top_k", "query_pos"]
demos = 2
trials = 7
batch = 3
objectives = %s
[metrics]
report = ["em", "f1"]
"""
    + TABLES
)
SEARCHES = ('["em"]', '["em", "-tokens"]', '["em"]\ninstructions = 2\ninstruction_rounds = 3')
"""One objective, two, and instructions that evolve in rounds."""
RNG = random.Random(20)
MOMENTS = [(number, RNG.random(), RNG.uniform(0, 0.06)) for number in range(30)]
"""The number of a kill, the share of all requests that are answered before it, and seconds to wait then."""


def compiled(folder: str) -> None:
    """What a process does: compile the recipe of `folder`, or go on with that."""
    os.environ["RAGC_HOME"] = f"{folder}/home"
    compiling.compile(recipes.load(Path(folder) / "recipe.toml"), Path(folder) / "out", resume=True)


Start = Callable[[Path], BaseProcess]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """Starts a process that compiles in a folder."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ragc.optimizers.compile", "tests.support.loopback"])

    def go(folder: Path) -> BaseProcess:
        process = context.Process(target=compiled, args=(str(folder),))
        process.start()
        return process

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", PATH)
        yield go


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with Loopback(latency_s=LATENCY_S) as loopback:
        yield loopback


@pytest.fixture(scope="module")
def whole(
    server: Loopback, start: Start, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Path, list[str]]]:
    """The folder of the unbroken run for some search, and the requests that it sent."""
    runs: dict[str, tuple[Path, list[str]]] = {}

    def of(search: str) -> tuple[Path, list[str]]:
        if search not in runs:
            folder = prepare(tmp_path_factory.mktemp("whole"), server, search)
            before = server.log.requests
            join_process(start(folder))
            runs[search] = folder, [call.key for call in server.log.calls[before:]]
        return runs[search]

    return of


def prepare(folder: Path, server: Loopback, search: str = SEARCHES[0]) -> Path:
    write_data(folder, 10, 14, 8)
    (folder / "recipe.toml").write_text(RECIPE % (search, server.url), "utf-8")
    return folder


def join_process(process: BaseProcess) -> None:
    process.join(120)
    assert process.exitcode == 0


def stored_replies(folder: Path) -> int:
    """How many replies of the model the call store of `folder` has on disk."""
    path = folder / "home/store/cache.db"
    if not path.exists():
        return 0
    with sqlite3.connect(path) as rows:
        if not rows.execute("SELECT 1 FROM sqlite_master WHERE name = 'Cache'").fetchall():
            return 0
        texts = rows.execute("SELECT value FROM Cache").fetchall()
    values = (json.loads(text) for (text,) in texts)
    return sum(isinstance(value, dict) and {"text", "finish", "usage"} <= value.keys() for value in values)


def files(out: Path) -> dict[str, bytes]:
    """All files of a compiled program but `run.json`."""
    contents = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    del contents["run.json"]
    return contents


@pytest.mark.parametrize(("number", "share", "wait"), MOMENTS)
def test_killed_at_any_moment_it_ends_as_if_it_had_not_been(
    number: int,
    share: float,
    wait: float,
    server: Loopback,
    start: Start,
    whole: Callable[[str], tuple[Path, list[str]]],
    tmp_path: Path,
) -> None:
    search = SEARCHES[number % 3]
    unbroken, expected = whole(search)
    folder = prepare(tmp_path, server, search)
    before, answered = server.log.requests, server.answer_count
    process = start(folder)
    goal = answered + round(share * len(expected))
    while server.answer_count < goal and process.is_alive():
        time.sleep(0.002)
    time.sleep(wait)
    process.kill()
    process.join()
    time.sleep(10 * LATENCY_S)  # requests on their way reach the server
    stored, cut = stored_replies(folder), server.log.requests
    for best in (folder / "home/studies").glob("*/best"):
        assert load(best).state.method == "vanilla"
    join_process(start(folder))
    sent = [call.key for call in server.log.calls[before:]]
    rest = sent[cut - before :]
    assert sorted({*sent}) == sorted(expected)
    assert len(rest) == len(set(rest)) == len(expected) - stored
    assert files(folder / "out") == files(unbroken / "out")
    (mine,), (theirs,) = ((at / "home/studies").glob("*/best") for at in (folder, unbroken))
    assert files(mine) == files(theirs)


def test_an_unbroken_study_sends_every_request_once(
    whole: Callable[[str], tuple[Path, list[str]]],
) -> None:
    for search in SEARCHES:
        folder, sent = whole(search)
        assert len(sent) == len(set(sent)) == stored_replies(folder) > 50


@pytest.mark.parametrize("search", SEARCHES)
def test_with_1_or_64_in_flight_the_compiled_program_is_byte_identical(
    search: str, server: Loopback, start: Start, tmp_path: Path
) -> None:
    contents = {}
    for in_flight in (1, 64):
        folder = tmp_path / str(in_flight)
        folder.mkdir()
        path = prepare(folder, server, search) / "recipe.toml"
        lines = f"concurrency = {in_flight}\n"
        path.write_text(path.read_text("utf-8").replace("concurrency = 8\n", lines), "utf-8")
        server.reset()
        join_process(start(folder))
        assert server.log.repeats == 0
        assert (server.log.peak == 1) == (in_flight == 1)
        contents[in_flight] = files(folder / "out")
        text = contents[in_flight]["recipe.toml"].decode()
        assert lines in text
        contents[in_flight]["recipe.toml"] = text.replace(lines, "").encode()
    assert contents[1] == contents[64]
