"""A prepared folder in which commands are run, and the servers that its recipe names.

It holds `recipe.toml` with its data, the compiled program `mine` with its study, its rows in `rows.jsonl`,
and `theirs`, a compiled program that names a server and was not compiled here.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import names
from tests.support.loopback import MODEL, Loopback
from tests.support.loopback_world import write_data
from tests.support.recipes import recipe_toml, vllm
from tests.support.server import Answer, Asked, Visit, failing, serving

SECRET = "sk-0123456789abcdef0123456789abcdef"
KEY = "OPENAI_API_KEY"

DEPTH = 3

_PLACEHOLDER = re.compile(r"\{([A-Z_]+)\}")
_KNOWN = re.compile(r"Known: .*")


@contextmanager
def refusing_server() -> Iterator[str]:
    """Yields the address of a server that refuses with the status in the path."""

    def refuse(asked: Asked | Visit) -> Answer:
        return failing(int(asked.path.split("/")[1]), f"refused with {SECRET}")

    with serving(refuse) as server:
        server.pages[""] = refuse
        yield server.base


@dataclass
class Ended:
    """How a command ended: its exit code, its message a line each, and what stdout held."""

    exit: int
    message: list[str]
    out: str
    err: str


@dataclass
class World:
    """The folder as it was prepared, the one in which commands are run, and the values of placeholders."""

    prepared: Path
    folder: Path
    values: dict[str, str] = field(default_factory=dict)
    state: list[tuple[str, int]] | None = None
    """What was in the folder when it was last made anew."""

    def filled(self, text: str) -> str:
        """Puts values in the place of `{SERVER}` and names of `tests.support.names`, such as `{NO_CACHE}`."""

        def value(found: re.Match[str]) -> str:
            named = self.values.get(found[1]) or getattr(names, found[1])
            return named if isinstance(named, str) else " ".join(named)

        return _PLACEHOLDER.sub(value, text)

    def normal(self, text: str) -> str:
        """Takes paths, addresses and lists of known names out of a message."""
        for name in ("SERVER", "REFUSING"):
            text = text.replace(self.values[name], f"{{{name}}}")
        text = text.replace(str(self.folder.resolve()), "{FOLDER}")
        return _KNOWN.sub("Known: …", re.sub(r"\b\d+(\.\d+)? s\b", "N s", text))

    def prepare(self, arguments: str) -> None:
        """Runs `ragc ARGUMENTS` and takes the folder as it is then for the prepared one."""
        ended = self.run(arguments, {}, {})
        assert ended.exit == 0, ended.err
        shutil.rmtree(self.prepared)
        shutil.copytree(self.folder, self.prepared, symlinks=True)

    def run(
        self, arguments: str, files: Mapping[str, str | bytes | None], environment: Mapping[str, str]
    ) -> Ended:
        """Runs `ragc ARGUMENTS` in this process, in the prepared folder with `files` put or taken away."""
        if _state(self.folder) != self.state:
            shutil.rmtree(self.folder, ignore_errors=True)
            shutil.copytree(self.prepared, self.folder, symlinks=True)
            self.state = _state(self.folder)
        for name, text in files.items():
            path = self.folder / name
            if text is None:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else self.filled(text).encode())
        out, err = io.StringIO(), io.StringIO()
        variables = {"RAGC_HOME": str(self.folder / "home"), **environment}
        with (
            _environment(variables),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                status = names.main(shlex.split(self.filled(arguments)))
            except SystemExit as stop:
                status = int(str(stop.code or 0))
        text = self.normal(err.getvalue())
        start = text.find("ragc: ") if text.startswith("ragc: ") else text.find("\nragc: ") + 1
        message = text[start:].splitlines() if "ragc: " in text else []
        return Ended(status, message, out.getvalue(), err.getvalue())


def _state(folder: Path) -> list[tuple[str, int]]:
    return [(str(path), path.lstat().st_mtime_ns) for path in sorted(folder.rglob("*"))]


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    for name in [name for name in before if name.endswith("_API_KEY")]:
        del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def prepared_world(folder: Path) -> Iterator[World]:
    """Prepares the folder, and runs the servers while the block runs."""
    with Loopback(latency_s=0.0) as server, refusing_server() as refusing:
        trust = {"TRUST_TARGETS": names.TRUST[0], "TRUST_CODE": names.TRUST[-1]}
        values = {"SERVER": server.url, "REFUSING": refusing, **trust}
        world = World(folder / "prepared", folder / "run", values)
        prepared = world.prepared
        prepared.mkdir()
        write_data(prepared, 4, 6, 6)
        recipe = recipe_toml(
            seed=5,
            search={"knobs": ["top_k"], "trials": 2, "batch": 2, "objectives": ["em"]},
            targets={"main": vllm(server.url, MODEL)},
            metrics=["em", "f1"],
        )
        (prepared / "recipe.toml").write_text(recipe, "utf-8")
        world.prepare("compile recipe.toml --out mine")
        world.prepare("eval mine --out rows.jsonl")
        theirs = prepared / "theirs"
        shutil.copytree(prepared / "mine", theirs)
        recipe_file = theirs / "recipe.toml"
        text = recipe_file.read_text("utf-8")
        recipe_file.write_text(text.replace("seed = 5", "seed = 6"), "utf-8")
        for name in ("questions.jsonl", "corpus.jsonl"):
            shutil.copy(prepared / name, theirs / name)
        yield world


def key_paths(value: Any, path: tuple[str, ...] = ()) -> set[str]:
    """Returns the paths of keys in a JSON value, three keys deep; `[]` stands for the items of a list."""
    if isinstance(value, dict) and len(path) < DEPTH:
        return set().union(*(key_paths(item, (*path, key)) for key, item in value.items()))
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return set().union(*(key_paths(item, (*path, "[]")) for item in value))
    return {".".join(path)}
