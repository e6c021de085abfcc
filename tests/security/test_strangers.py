"""Every command, over directories and grids of strangers: nothing there is written, deleted, imported or run.

Found by comparing trees (content, mode, inode, time of change) and by an audit hook (`traced`), and where it
is there by strace, which also sees what libraries in C do. A connection is made only where the user says so.
"""

from __future__ import annotations

import json
import os
import shutil
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragc.cli.main import parser
from ragc.core.files import sha256
from tests import processes
from tests.examples import cases
from tests.security import traced
from tests.security.foreign import RECIPE, foreign_directory, target_table, write_data

EMBEDDED = '[targets.main]\nkind = "embedded"\n'
EVIL = (
    "from pathlib import Path\nPath({marker!r}).touch()\ndef score(prediction, question):\n    return 1.0\n"
)
SHADOWS = ("json", "sitecustomize", "litellm", "optuna", "conftest", "ragc", "orjson")
"""Modules that a directory brings in the hope that somebody imports them from there."""


@dataclass(frozen=True)
class Listening:
    """A server that closes every connection, which a directory names as its own."""

    port: int
    connections: list[str]
    """Who connected to it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@pytest.fixture
def listening() -> Iterator[Listening]:
    connections: list[str] = []

    class Noted(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            connections.append(str(self.client_address))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Noted) as server:
        threading.Thread(target=server.serve_forever).start()
        yield Listening(server.server_address[1], connections)
        server.shutdown()


def laid_everywhere(folder: Path, marker: Path) -> None:
    """Modules, bytecode, hooks, settings and programs in `folder` that only wait for somebody to use them."""
    evil = EVIL.format(marker=str(marker))
    for name in (*SHADOWS, "evil"):
        (folder / f"{name}.py").write_text(evil)
    (folder / "evil.pth").write_text(f"import evil; open({str(marker)!r}, 'w')\n")
    (folder / "ragc_plugin").mkdir()
    (folder / "ragc_plugin" / "__init__.py").write_text(evil)
    (folder / ".env").write_text(f"OPENAI_BASE_URL=http://127.0.0.1:9/v1\nRAGC_HOME={folder}/home\n")
    (folder / ".git" / "hooks").mkdir(parents=True)
    for name in (".git/hooks/post-checkout", "helper"):
        (folder / name).write_text(f"#!/bin/sh\ntouch '{marker}'\n")
        (folder / name).chmod(0o755)


def served(server: Listening) -> str:
    """A target that only the user may allow; the default one may be fetched from a package index."""
    return target_table(kind="vllm", model="m", base_url=server.url)


Make = Callable[[Path, Path, Listening], str]
"""Changes the recipe of a directory: from its folder, a file outside and the server to its text."""

RECIPES: dict[str, Make] = {
    "with a manifest that claims more": lambda at, canary, server: RECIPE + served(server),
    "with modules": lambda at, canary, server: (
        RECIPE.replace('report = ["em"]', 'report = ["em", "evil:score"]') + served(server)
    ),
    "with a program of its own": lambda at, canary, server: (
        RECIPE.replace('program = "vanilla"', 'program = "evil:Program"') + served(server)
    ),
    "with addresses": lambda at, canary, server: (
        RECIPE
        + f'[sources.kg]\nkind = "api"\noptions.base_url = "{server.url}"\n'
        + f'[study]\nstorage = "postgresql://127.0.0.1:{server.port}/x"\n'
        + target_table(kind="vllm", model="m", base_url=server.url, api_key_env="HOME")
    ),
    "with programs to start": lambda at, canary, server: (
        RECIPE + target_table(kind="vllm", model="m", serve=True, python=str(at / "helper"))
    ),
    "with paths that lead out": lambda at, canary, server: (
        RECIPE.replace('corpus = "corpus', f'corpus = "{canary}').replace(
            "questions.jsonl", "link/canary.jsonl"
        )
        + served(server)
    ),
}


def strange_program(kind: str, tmp_path: Path, server: Listening) -> Path:
    """A compiled directory of a stranger, of this `kind`."""
    folder, outside = tmp_path / "stranger", tmp_path / "outside"
    outside.mkdir()
    (outside / "canary.jsonl").write_text(
        '{"id": "secret", "question": "x", "answers": ["y"], "text": "z"}\n'
    )
    origin = foreign_directory(tmp_path / "made", RECIPE)
    shutil.move(origin, folder)
    laid_everywhere(folder, tmp_path / "ran")
    (folder / "recipe.toml").write_text(RECIPES[kind](folder, outside / "canary.jsonl", server))
    (folder / "link").symlink_to(outside)
    (folder / "prompts" / "away.md").symlink_to(outside / "canary.jsonl")
    if kind == "with a program of its own":
        state = json.loads((folder / "program.json").read_text())
        (folder / "program.json").write_text(json.dumps(state | {"method": "evil:Program"}))
    if kind == "with a manifest that claims more":
        (folder / "notes.txt").write_text("notes")
        manifest = json.loads((folder / "run.json").read_text())
        manifest["files"] = {"notes.txt": sha256(b"notes"), "../canary.jsonl": "0" * 64}
        (folder / "run.json").write_text(json.dumps(manifest))
    return folder


def commands(stranger: str, out: str) -> dict[str, list[list[str]]]:
    """Every command, over the directory `stranger`; what it writes goes to the folder `out`."""
    d, mine = stranger, f"{out}/recipe.toml"
    return {
        "new": [
            ["new", d, "--out", f"{out}/new", "--no-questions"],
            ["new", d, "--out", f"{out}/new", "--dry-run"],
            ["new", out, "--out", f"{out}/own", "--questions", f"{d}/dev.jsonl"],
        ],
        "questions": [
            ["questions", "review", f"{d}/dev.jsonl"], ["questions", "label", f"{d}/dev.jsonl"],
            ["questions", "review", d], ["questions", "label", d, "--out", f"{out}/labels.jsonl"],
        ],
        "compile": [
            ["compile", d], ["compile", mine, "--out", d], ["compile", mine, "--out", d, "--dry-run"],
        ],
        "headroom": [["headroom", d, "--dry-run"], ["headroom", d]],
        "ask": [
            ["ask", d, "Which?"], ["ask", d, "Which?", "--trace", "--json"],
            ["ask", f"{d}/../stranger", "Which?"],
        ],
        "serve": [["serve", d, d], ["serve", d, "--host", "0.0.0.0"]],  # two of one name; no keys
        "mcp": [["mcp", d], ["mcp", d, "--transport", "http", "--host", "0.0.0.0"]],  # stdin is empty
        "gate": [
            ["gate", d, "--against", d], ["gate", d, "--against", d, "--dry-run"],
            ["gate", d, "--against", f"{d}/corpus.jsonl", "--markdown", f"{out}/gate.md"],
        ],
        "pack": [
            ["pack", d, "--out", f"{out}/theirs.ragc"], ["pack", d, "--out", f"{out}/all.ragc", "--weights"],
        ],
        "eval": [
            ["eval", d], ["eval", d, "--split", "dev", "--out", f"{out}/rows.jsonl"], ["eval", d, d],
            ["eval", f"{d}/corpus.jsonl"], ["eval", d, "--base", out],
            ["eval", d, "--split", "dev", "--replicates", "2", "--judge-again", "2"],
        ],
        "export": [
            ["export", d, "--to", "jinja2", "--out", f"{out}/exported"],
            ["export", d, "--to", "promptfoo", "--questions", "1", "--out", f"{out}/cases"],
            ["export", d, "--check", d], ["export", d, "--to", "jinja2", "--out", d, "--force"],
        ],
        "trust": [["trust", d], ["trust", d, "--json"], ["trust", d, "--base", out]],
        "pull": [["pull", d], ["pull", d, "--base", out]],
        "index": [["index", d]],
        "grid": [
            ["grid", d], ["grid", mine, "--out", d], ["grid", mine, "--out", d, "--dry-run"],
        ],
        "data": [
            ["data", "demonstrations", d, "--out", f"{out}/demos.jsonl"],
            ["data", "prefrag-dpo", d, "--out", f"{out}/pairs.jsonl"],
        ],
        "reproduce": [
            ["reproduce", "--data", d], ["reproduce", "prefrag-main", "--data", d, "--out", f"{out}/tables"],
            ["reproduce", "prefrag-main", "--data", d, "--out", f"{out}/tables", "--dry-run"],
        ],
        "train": [["train", d], ["train", f"{d}/recipe.toml", "--out", f"{out}/trained"]],
        "study": [
            ["study", "status", d],
            ["study", "status", "x", "--json"], ["study", "status", f"{d}/recipe.toml"],
        ],
        "report": [["report", d, "--out", f"{out}/page.html"], ["report", d, d, "--out", f"{out}/both.html"]],
        "list": [["list", "programs"], ["list", "knobs", d]],
        "schema": [["schema"]],
        "doctor": [["doctor", d]],
    }  # fmt: skip


def tree(folder: Path) -> dict[str, tuple[Any, ...]]:
    """What every file and folder under `folder` is: kind, mode, inode, times of change, and its content."""
    seen: dict[str, tuple[Any, ...]] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        at = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        about = (at.st_mode, at.st_ino, at.st_uid, at.st_nlink, at.st_mtime_ns, at.st_ctime_ns)
        seen[path.relative_to(folder).as_posix()] = (*about, content)
    return seen


def prepare(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """The folder of a user with a recipe of their own, and their environment."""
    mine = tmp_path / "mine"
    write_data(mine)
    (mine / "recipe.toml").write_text(RECIPE + EMBEDDED)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RAGC_", "XDG_"))}
    more = {"RAGC_HOME": str(tmp_path / "home"), "HOME": str(tmp_path / "home"), "PYTHONPATH": processes.PATH}
    more["PYTHONSAFEPATH"] = "1"  # as for the command `ragc`: the folder one stands in is on no path
    return mine, inherited | more


def listed(stranger: Path, mine: Path) -> list[list[str]]:
    every = commands(str(stranger), str(mine))
    (known,) = [
        one.choices for one in parser()._actions if hasattr(one, "choices") and isinstance(one.choices, dict)
    ]
    assert every.keys() == known.keys(), "a command is missing here"
    (actions,) = (set(one.choices) for one in known["study"]._actions if one.dest == "action")
    assert {words[1] for words in every["study"]} == actions, "an action of a study is missing here"
    return [words for lists in every.values() for words in lists]


def run_traced(
    jobs: list[list[str]], folders: list[Path], tmp_path: Path, environment: dict[str, str], cwd: Path
) -> tuple[list[int], list[Any], str]:
    """Runs `jobs` in one process whose audit hook watches `folders`.

    Returns the exit status of each, the events noted, and what was written to stderr.
    """
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    log = tmp_path / "log.jsonl"
    ended = processes.run(
        ["-c", traced.SOURCE, str(tmp_path / "jobs.json"), str(log), *map(str, folders)],
        cwd=cwd,
        environment=environment,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "Traceback" not in ended.stderr
    statuses = json.loads(ended.stdout.splitlines()[-1])
    assert len(statuses) == len(jobs)
    lines = log.read_text().splitlines() if log.exists() else []
    events = [(jobs[number], *event) for number, *event in map(json.loads, lines)]
    # `ragc new` reads documents in a process of ours, which runs no file beside them.
    reading = ("subprocess.Popen", f"['{sys.executable}', '-P', '-m', 'ragc.corpora.documents.reading']")
    events = [event for event in events if not (event[0][0] == "new" and (event[1], event[3]) == reading)]
    return statuses, events, ended.stderr


@pytest.mark.parametrize("kind", cases(RECIPES, 1))
def test_no_command_touches_a_strangers_directory(kind: str, tmp_path: Path, listening: Listening) -> None:
    stranger = strange_program(kind, tmp_path, listening)
    mine, environment = prepare(tmp_path)
    folders = [folder for folder in (stranger, tmp_path / "outside") if folder.exists()]
    before = [tree(folder) for folder in folders]
    jobs = listed(stranger, mine)
    statuses, events, err = run_traced(jobs, folders, tmp_path, environment, mine)
    assert [tree(folder) for folder in folders] == before
    assert not (tmp_path / "ran").exists()
    assert listening.connections == []
    assert events == []
    assert statuses[jobs.index(["ask", str(stranger), "Which?"])] == 2, err[-3000:]


def test_the_trace_sees_what_the_user_allowed(tmp_path: Path, listening: Listening) -> None:
    stranger = strange_program("with modules", tmp_path, listening)
    mine, environment = prepare(tmp_path)
    table = {"kind": "vllm", "model": "m", "base_url": listening.url}
    sets = [word for name, value in table.items() for word in ("--set", f"targets.main.{name}={value}")]
    jobs = [
        ["trust", str(stranger), "--yes"],
        ["eval", str(stranger), "--split", "dev", *sets],
        ["export", str(stranger), "--to", "jinja2", "--out", f"{stranger}/exported/one.jinja.json"],
    ]
    _, events, err = run_traced(jobs, [stranger], tmp_path, environment, mine)
    assert (tmp_path / "ran").exists(), err
    assert listening.connections, err
    noted = {(words[0], event[0]) for words, *event in events}
    assert noted >= {("eval", "exec"), ("eval", "socket.connect"), ("export", "os.rename")}, err
    assert "trust" not in {command for command, _ in noted}
