"""Damage in any file that ragc reads: it is read or refused in one sentence, and nothing else is lost."""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ragc import recipe
from ragc.errors import RagcError
from tests.conftest import is_here
from tests.examples import examples
from tests.messages.world import World, prepared_world

QUESTION = "'What colour is thing number5?'"
COMMANDS = {
    "recipe.toml": ("compile recipe.toml --dry-run", f"ask recipe.toml {QUESTION}"),
    "questions.jsonl": ("compile recipe.toml --dry-run", "eval recipe.toml --split dev"),
    "corpus.jsonl": (f"ask recipe.toml {QUESTION}",),
    "rows.jsonl": ("eval rows.jsonl", "report rows.jsonl", "gate rows.jsonl --against rows.jsonl"),
    "mine/": (
        f"ask mine {QUESTION}", "export mine --to all --out all", "trust mine --yes", "report mine",
        "compile recipe.toml --out mine", "pack mine --out new.ragc",
    ),
    "home/studies/": ("study status mine", "compile recipe.toml --out mine --resume", "doctor"),
    "exported/": ("export mine --check exported", "export mine --to all --out exported --force"),
    "grid/": ("grid recipe.toml --out grid --set grid.sample=2",),
    "packed.ragc": (f"ask packed.ragc {QUESTION}",),
    "home/store/": (f"ask mine {QUESTION}", "doctor"),
}  # fmt: skip
"""The commands that read a file, or those in a folder."""

FOREIGN = {"thesis.txt": "five years of work", "notes/mine.md": "my own prompt"}
NASTY: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, -0.5, float("inf"), float("nan"), "", "\x00", "\ud800", "{{ 7*7 }}",
    "/dev/zero", "../../etc/passwd", "a" * 5000, [], {}, [["x"]], {"": None},
)  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with prepared_world(tmp_path_factory.mktemp("damage")) as prepared:
        for line in (
            "export mine --to all --out exported",
            "grid recipe.toml --out grid --set grid.sample=2",
            "pack mine --out packed.ragc",
        ):
            prepared.prepare(line)
        for name, text in FOREIGN.items():
            (prepared.prepared / name).parent.mkdir(exist_ok=True)
            (prepared.prepared / name).write_text(text, "utf-8")
        yield prepared


def bytes_changed(data: bytes, draw: random.Random) -> bytes:
    """Returns `data` with one to three bytes put in, alone or in the place of others."""
    at = draw.randrange(len(data) + 1)
    put_in = bytes(draw.choices(range(256), k=draw.randint(1, 3)))
    return data[:at] + put_in + data[at + draw.choice((0, 1, 3, 40)) :]


def value_changed(data: bytes, draw: random.Random) -> bytes:
    """Returns JSON, or JSON lines, with one value replaced or left out; the bytes of what is neither."""
    lines = data.splitlines() if data.count(b"\n{") else [data]
    try:
        at = draw.randrange(len(lines))
        value = json.loads(lines[at])
        holder: Any = None
        key: Any = None
        inner: Any = value
        while isinstance(inner, dict | list) and inner and (holder is None or draw.random() < 0.7):
            holder, key = inner, draw.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
            inner = holder[key]
        if draw.random() < 0.2:
            del holder[key]
        else:
            holder[key] = draw.choice(NASTY)
    except (ValueError, TypeError, IndexError):
        return bytes_changed(data, draw)
    lines[at] = json.dumps(value).encode("utf-8", "surrogatepass")
    return b"\n".join(lines) + b"\n"


@pytest.fixture(autouse=True, scope="module")
def _no_other_host() -> Iterator[None]:
    """A host in a damaged address is unknown, as on a machine without a network."""

    def unknown(host: Any, *args: Any, **kwargs: Any) -> Any:
        if is_here(host):
            return look_up(host, *args, **kwargs)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    look_up = socket.getaddrinfo
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", unknown)
        yield


@pytest.mark.parametrize("where", COMMANDS)
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draw=st.randoms(use_true_random=False))
def test_damage_is_read_or_one_sentence(where: str, draw: random.Random, world: World) -> None:
    root = world.prepared / where
    files = [root] if root.is_file() else sorted(path for path in root.rglob("*") if is_read(path))
    path = draw.choice(files)
    change: Callable[[bytes, random.Random], bytes] = draw.choice((bytes_changed, value_changed))
    words = draw.choice(COMMANDS[where])
    damaged = {path.relative_to(world.prepared).as_posix(): change(path.read_bytes(), draw)}
    ended = world.run(words, damaged, {})
    assert ended.exit in (0, 1, 2, 10, 11), (words, damaged, ended.err)
    assert "Traceback" not in ended.err
    assert "error in ragc" not in ended.err, (words, damaged, ended.err)
    assert ended.exit not in (1, 2) or ended.message or ended.out, (words, damaged)
    assert {name: (world.folder / name).read_text("utf-8") for name in FOREIGN} == FOREIGN


def test_a_host_that_is_unknown_is_one_sentence(world: World) -> None:
    address = (world.prepared / "recipe.toml").read_bytes().replace(b"//127", b"//$127")
    ended = world.run(f"ask recipe.toml {QUESTION}", {"recipe.toml": address}, {})
    assert ended.exit in (1, 2, 10, 11), ended.err
    assert "error in ragc" not in ended.err
    assert "$127.0.0.1" in ended.err


def is_read(path: Path) -> bool:
    """Returns whether a file has content that somebody reads."""
    return path.is_file() and not path.is_symlink() and path.suffix != ".lock" and path.stat().st_size > 0


@given(st.text(max_size=200))
@example("a = " + "[" * 500)
@example("a" + ".a" * 2000 + " = 1")
def test_any_text_as_a_recipe_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(RagcError):
        recipe.parse(text, files=False)


@given(st.text(max_size=60))
@example("a" + ".a" * 5000 + "=1")
@example("seed=" + "[" * 5000)
@example("seed=" + "9" * 9000)
@example("seed=\ud800")
def test_any_override_is_taken_or_refused(expression: str) -> None:
    with contextlib.suppress(RagcError):
        recipe.parse('program = "vanilla"\n', [expression], files=False)
