"""The commands that faults are tried on: what lies there before, what is run, and what must come out.

Every run of a command works in the same folder, which is laid out anew before it, so that equal runs give
equal bytes. The replies come from a loopback server that counts.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from ragc.compiled import base as compiled
from ragc.core import outputs
from ragc.errors import RagcError
from ragc.store.call_store import CallStore
from tests.faults.injector import Ended, Fault, ragc
from tests.support.loopback import MODEL, Loopback
from tests.support.loopback_world import write_data
from tests.support.recipes import recipe_toml, vllm

NOISE = (
    "Traceback", "Unclosed", "Task was destroyed", "never retrieved", "never awaited", "Exception ignored",
    "Fatal Python", "error in ragc",
)  # fmt: skip
"""What a user never sees on stderr."""

RECIPE = recipe_toml(
    seed=5,
    concurrency=4,
    search={"knobs": ["top_k"], "trials": 2, "batch": 2, "objectives": ["em"]},
    grid={"settings": [{"top_k": 1}, {"top_k": 2}]},
    targets={"main": vllm("%s", MODEL)},
    metrics=["em", "f1"],
)
OTHER = ("--set", "seed=7", "--set", "knobs.cot=true", "--set", "search.trials=1")
"""Settings that give another compiled program."""

PUTS = """
from ragc.store.call_store import open_store
store = open_store()
for number in range(30):
    store.put(f"key {number}", f'"reply {number}"' + " " * 700)
    print(number, flush=True)
"""
"""A script that puts rows into the call store, and prints the number of each that is stored."""

STUDY = """
import optuna, ragc
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(
    study_name="mine", direction="maximize", storage="sqlite:///mine.db", load_if_exists=True
)
objective = ragc.objective("recipe.toml", name="mine")
while (finished := sum(trial.state.is_finished() for trial in study.trials)) < 3:
    study.sampler = optuna.samplers.RandomSampler(seed=finished)
    study.optimize(objective, n_trials=1)
objective.save(study.best_trial, "out")
"""
"""A script with a study of the user's own in SQLite, which goes on when it is run again."""

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Command:
    """A command, the one that goes on after a fault, and where its result lies.

    `before` are commands that are run first, undisturbed. `result` is the output, a file or folder below the
    working folder. `read` gives what must be the same after every way to the end, None for nothing, and
    raises RagcError for what is not whole. `finishes` stands in the refusal of a half-finished result.
    With `parts` the result is a set of parts, each of which is whole or absent.
    """

    name: str
    run: tuple[str, ...]
    again: tuple[str, ...]
    read: Callable[[Path], Files | None]
    before: tuple[tuple[str, ...], ...] = ()
    finishes: str = ""
    parts: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)


def read_compiled(out: Path) -> Files | None:
    """The files of the compiled program `out` but `run.json`, as a reader opens it; None without a folder."""
    if not out.exists() or not any(out.iterdir()):
        return None
    compiled.load(out)
    listed = outputs.own_files(out, compiled.RUN)
    return {name: (out / name).read_bytes() for name in sorted(listed) if name != compiled.RUN}


def read_winner(out: Path) -> Files | None:
    """The `program.json` of a compiled program: provenance has the numbers of trials, of dead ones too."""
    contents = read_compiled(out)
    return None if contents is None else {"program.json": contents["program.json"]}


def read_store(out: Path) -> Files | None:
    """The rows of the call store in `out` that the script `PUTS` puts."""
    if not (out / "cache.db").exists():
        return None
    copy = out.parent.parent.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(out, copy, ignore=shutil.ignore_patterns("*-shm"))
    with closing(CallStore(copy)) as store:
        rows = {f"key {number}": store.get(f"key {number}") for number in range(30)}
    return {key: text.encode() for key, text in rows.items() if text is not None}


def read_export(out: Path) -> Files | None:
    """The files of the export `out` that its `graph.json` lists."""
    if not out.exists():
        return None
    if out.is_file():
        return {"": out.read_bytes()}
    if (pending := getattr(outputs, "unfinished", None)) and (why := pending(out, "ragc export")):
        raise RagcError(why)
    listed = outputs.own_files(out, "graph.json")
    if not listed:
        raise RagcError(f"{out} has no graph.json")
    for name, digest in listed.items():
        if name != "graph.json" and outputs.sha256((out / name).read_bytes()) != digest:
            raise RagcError(f"{out / name} is of another export")
    return {name: (out / name).read_bytes() for name in sorted(listed)}


def read_grid(out: Path) -> Files | None:
    """What a grid says beside seconds and dates."""
    from ragc.optimizers.grids.files import read_files

    if not out.exists() or not any(out.iterdir()):
        return None
    files = read_files(out)
    texts = {"settings": json.dumps([files.candidates, files.questions, files.metrics]).encode()}
    for number, rows in files.rows.items():
        texts[str(number)] = json.dumps([row.model_dump() for row in rows]).encode()
    return texts


def read_rows(out: Path) -> Files | None:
    """The rows of an evaluation without seconds."""
    if not out.exists():
        return None
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    comparable = [{name: row.get(name) for name in ("id", "question", "outputs", "scores")} for row in rows]
    return {"rows": json.dumps(comparable, sort_keys=True).encode()}


def read_indexes(out: Path) -> Files | None:
    """The files of all finished indexes below `out`; an unfinished one has another name."""
    contents: dict[str, bytes] = {}
    for folder in sorted(out.glob("*/*")) if out.exists() else ():
        if not folder.is_dir() or folder.name.endswith(".building"):
            continue
        if problem := _index_damage(folder):
            raise RagcError(f"{folder} would be searched though {problem}")
        files = (path for path in sorted(folder.rglob("*")) if path.is_file())
        contents |= {str(path.relative_to(out)): path.read_bytes() for path in files}
    return contents or None


def _index_damage(folder: Path) -> str:
    from ragc.corpora.storage import index_cache

    damage = index_cache.damage(folder, lambda n: None)
    # Opening a damaged index builds it anew; only one that passes for whole must be whole.
    return "" if not damage or index_cache._read_manifest(folder) is None else damage


COMPILE = ("compile", "recipe.toml", "--out", "out")
EXPORT = ("export", "out", "--to", "all", "--out", "exported")
ONE_FILE = ("export", "out", "--to", "python", "--out", "x.py")
COMMANDS = {
    command.name: command
    for command in (
        Command("compile", COMPILE, (*COMPILE, "--resume"), read_compiled, finishes="compile"),
        Command(
            "compile over an older program", (*COMPILE, *OTHER), (*COMPILE, *OTHER, "--resume"),
            read_compiled, (COMPILE,), "compile",
        ),
        Command("export", EXPORT, EXPORT, read_export, (COMPILE,), "export"),
        Command(
            "export over an older export", (*EXPORT, "--force"), (*EXPORT, "--force"), read_export,
            ((*COMPILE, *OTHER), EXPORT, COMPILE), "export",
        ),
        Command(
            "export of one file over another", (*ONE_FILE, "--force"), (*ONE_FILE, "--force"), read_export,
            ((*COMPILE, *OTHER), ONE_FILE, COMPILE), "export",
        ),
        Command(
            "index", ("index", "recipe.toml", "--set", "knobs.chunk_size=50"),
            ("index", "recipe.toml", "--set", "knobs.chunk_size=50"), read_indexes,
            parts=True, variables={"FAULTS_STORED": "1"},
        ),
        Command("grid", ("grid", "recipe.toml", "--out", "grid"), ("grid", "recipe.toml", "--out", "grid"),
                read_grid, finishes="grid", parts=True),
        Command("store", ("python", "puts.py"), ("python", "puts.py"), read_store, parts=True),
        Command(
            "study in SQLite", ("python", "study.py"), ("python", "study.py"), read_winner,
            finishes="compile",
        ),
        Command(
            "eval", ("eval", "recipe.toml", "--split", "dev", "--out", "rows.jsonl"),
            ("eval", "recipe.toml", "--split", "dev", "--out", "rows.jsonl"), read_rows,
        ),
    )
}  # fmt: skip
RESULTS: dict[Callable[[Path], Files | None], str] = {
    read_compiled: "out",
    read_winner: "out",
    read_store: "home/store",
    read_grid: "grid",
    read_rows: "rows.jsonl",
    read_indexes: "home/indexes",
}


def result_of(command: Command) -> str:
    """Where the result of `command` lies in the working folder."""
    if command.read is read_export:
        return command.run[command.run.index("--out") + 1]
    return RESULTS[command.read]


@dataclass
class Prepared:
    """A command with its working folder, laid out from `base`, and the undisturbed run.

    `old` and `new` are the result before and after it; `sent` counts its requests and `stored` the replies
    that the call store held before and holds after it.
    """

    command: Command
    folder: Path
    base: Path
    server: Loopback
    old: Files | None
    new: Files | None
    whole: Ended
    sent: int
    stored: tuple[int, int]

    def lay(self) -> None:
        """Lays the working folder out as it was before the command."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.base, self.folder, symlinks=True)

    def run(self, arguments: tuple[str, ...], fault: Fault | None = None, *, data: bool = False) -> Ended:
        """Runs `ragc ARGUMENTS` in the working folder."""
        return ragc(self.folder, arguments, fault=fault, data=data, variables=self.command.variables)

    def read(self) -> Files | None:
        """The result, as a reader finds it."""
        return self.command.read(self.folder / result_of(self.command))


def prepare(command: Command, folder: Path, server: Loopback) -> Prepared:
    """Lays out `folder`, runs what comes before, and `command` undisturbed."""
    work, base = folder / "work", folder / "base"
    work.mkdir(parents=True)
    write_data(work, 0, 12, 8)
    (work / "recipe.toml").write_text(RECIPE % server.url, "utf-8")
    (work / "puts.py").write_text(PUTS)
    (work / "study.py").write_text(STUDY)
    prepared = Prepared(command, work, base, server, None, None, Ended(0, "", "", ()), 0, (0, 0))
    for arguments in command.before:
        ended = prepared.run(arguments)
        assert ended.status == 0, ended.err
    if command.before:
        result = work / result_of(command)
        if result.is_dir():
            (result / "notes.txt").write_text("mine")
    prepared.old = prepared.read()
    shutil.copytree(work, base, symlinks=True)
    sent, stored = server.log.requests, stored_replies(work)
    prepared.whole = prepared.run(command.run, data=True)
    assert prepared.whole.status == 0, prepared.whole.err
    prepared.sent = server.log.requests - sent
    prepared.stored = stored, stored_replies(work)
    prepared.new = prepared.read()
    assert prepared.new not in (None, prepared.old)
    return prepared


def stored_replies(folder: Path) -> int:
    """How many replies of the model the call store of `folder` holds on disk; its files stay as they are."""
    store = folder / "home/store"
    if not (store / "cache.db").exists():
        return 0
    copy = folder.parent / "store-copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for path in store.glob("cache.db*"):
        if not path.name.endswith("-shm"):
            shutil.copy(path, copy)
    with closing(sqlite3.connect(copy / "cache.db")) as rows:
        if not rows.execute("SELECT 1 FROM sqlite_master WHERE name = 'Cache'").fetchall():
            return 0
        texts = rows.execute("SELECT value FROM Cache").fetchall()
    values = (json.loads(text) for (text,) in texts)
    return sum(isinstance(value, dict) and {"text", "finish", "usage"} <= value.keys() for value in values)
