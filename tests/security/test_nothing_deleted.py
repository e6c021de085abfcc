"""What ragc did not write stays, byte for byte, whatever --out and --force name."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe
from ragc.compiled.base import load
from ragc.core.files import put_folder
from ragc.corpora.storage.index_cache import index_path, open_or_build
from ragc.errors import ArtefactError, UsageError
from ragc.exports.write import check, export
from ragc.optimizers import compile as compiling
from ragc.programs import method
from ragc.store.calls import CallStore
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.examples import cases
from tests.exports.common import build_program
from tests.optimizers.colours import Run, written
from tests.security.command_line import contents, prepared, ragc
from tests.support.loopback import Loopback

SMALL = ("search.demos=0", "search.knobs=[]", "search.trials=1", "data.dev=2", "data.test=2")
VANILLA, CRAG = method("vanilla"), method("crag")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a recipe."""
    return written(tmp_path_factory.mktemp("study"))


def run_of(folder: Path) -> Run:
    """A quick compile of the recipe in `folder`."""
    store = CallStore(None)

    def go(out: Any, **more: Any) -> Any:
        spec = recipe.load(folder / "recipe.toml", (*SMALL, *more.pop("sets", ())))
        target = more.pop("target", None) or ScriptedTarget(SchemaReplies())
        return compiling.compile(spec, out, store=store, targets={"main": target}, **more)

    return go


@pytest.fixture(scope="module")
def run(study: Path) -> Run:
    return run_of(study)


@pytest.fixture
def compiled(run: Run, tmp_path: Path) -> Path:
    return run(tmp_path / "out").path


@pytest.mark.parametrize(
    "state",
    [
        {"format": "my thesis", "chapters": 7},
        {"format": "ragc.compiled/2", "method": "vanilla", "knobs": {}, "predictors": {}},
    ],
)
def test_a_thesis_with_a_program_json_is_refused_before_anything_is_sent(
    state: dict[str, Any], server: Loopback, tmp_path: Path
) -> None:
    prepared(tmp_path, server)
    thesis = tmp_path / "thesis"
    (thesis / "prompts").mkdir(parents=True)
    (thesis / "chapter1.tex").write_text("seven years")
    (thesis / "prompts" / "answer.md").write_text("mine")
    (thesis / "program.json").write_text(json.dumps(state))
    before, sent = contents(thesis), server.log.requests
    ended = ragc(tmp_path, "compile", "recipe.toml", "--out", "thesis")
    assert (ended.status, server.log.requests) == (2, sent)
    assert "choose another --out" in ended.err
    assert "move it away" in ended.err
    assert contents(thesis) == before


@pytest.mark.parametrize("name", ["prompts/answer.md", "recipe.toml", "provenance.json"])
def test_a_file_that_a_person_changed_is_not_overwritten(run: Run, compiled: Path, name: str) -> None:
    text = (compiled / name).read_text()
    changed = text.replace("{", '{"mine": 1, ', 1) if name.endswith(".json") else f"{text}\n# mine\n"
    (compiled / name).write_text(changed)
    target = ScriptedTarget(SchemaReplies())
    with pytest.raises(ArtefactError, match="was changed since ragc wrote it; move it away"):
        run(compiled, target=target)
    assert not target.requests
    assert (compiled / name).read_text() == changed


def planted_folder(folder: Path) -> None:
    folder.mkdir()
    (folder / "x").write_text("mine")


def planted_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unbound:
        unbound.bind(str(path))


def planted_link(folder: Path) -> None:
    (folder / "recipe.toml").write_text("")
    (folder / "out").symlink_to("recipe.toml")


OUTS: dict[str, Callable[[Path], object]] = {
    "a link to itself": lambda at: (at / "out").symlink_to("out"),
    "a file": lambda at: (at / "out").write_text("mine"),
    "a fifo": lambda at: os.mkfifo(at / "out"),
    "a socket": lambda at: planted_socket(at / "out"),
    "a link to a recipe": planted_link,
    "a folder of others": lambda at: planted_folder(at / "out"),
}


@pytest.mark.parametrize("kind", OUTS)
def test_an_out_that_is_something_else_is_refused(kind: str, run: Run, tmp_path: Path) -> None:
    OUTS[kind](tmp_path)
    before = contents(tmp_path)
    for force in (None, False, True):
        with pytest.raises(UsageError):
            _ = (
                run(tmp_path / "out")
                if force is None
                else export(build_program(CRAG), "jinja2", tmp_path / "out", force=force)
            )
        assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "out",
    cases(
        [".", "..", "/", "recipe.toml", "recipe.toml/x", "x" * 300, "", "/dev/null", b"\xff\xfe", "/proc/x"],
        3,
    ),
)
def test_no_out_is_a_traceback_and_nothing_is_sent_for_one_that_cannot_be(
    out: str | bytes, server: Loopback, tmp_path: Path
) -> None:
    prepared(tmp_path, server)
    (tmp_path / "notes.txt").write_text("mine")
    before, sent = contents(tmp_path), server.log.requests
    ended = ragc(tmp_path, "compile", "recipe.toml", "--out", out)
    assert (ended.status, server.log.requests) == (2, sent)
    after = {name: held for name, held in contents(tmp_path).items() if not name.startswith("home/")}
    assert after == before


def test_force_replaces_exports_and_refuses_what_lies_among_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(build_program(CRAG), "jinja2", out)
    (out / "notes.txt").write_text("mine")
    before = contents(out)
    with pytest.raises(UsageError, match=r"notes\.txt was not written by ragc; move it away or choose"):
        export(build_program(CRAG), "openai-json", out, force=True)
    assert contents(out) == before
    (out / "notes.txt").unlink()
    export(build_program(CRAG), "openai-json", out, force=True)
    assert not list(out.glob("*.jinja.json"))
    assert check(build_program(CRAG), out) == "openai-json"


class Cut(BaseException):
    """Stands for kill -9."""


def cutter(calls: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns what wraps functions that raise Cut after so many calls, counted together."""
    done = 0

    def cut(original: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*args: Any, **more: Any) -> Any:
            nonlocal done
            done += 1
            if done > calls:
                raise Cut
            return original(*args, **more)

        return stepping

    return cut


@pytest.mark.parametrize("when", cases(range(18), 6))
def test_a_write_that_is_killed_anywhere_leaves_the_old_or_the_new_program(
    when: int, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = run(tmp_path / "out").path, run(tmp_path / "new", sets=("knobs.top_k=7",)).path
    was, comes = contents(old), contents(new)
    files = {name: content for name, content in comes.items() if isinstance(content, bytes)}
    cut = cutter(when)
    with monkeypatch.context() as patch:
        for name in ("rename", "mkdir", "write_bytes"):  # rmtree: what a kill leaves is not cleared
            patch.setattr(Path, name, cut(getattr(Path, name)))
        patch.setattr("shutil.rmtree", cut(lambda *args, **more: None))
        with suppress(Cut):
            put_folder(old, files, "run.json")
    if old.exists():
        assert contents(old) in (was, comes)
    else:
        (aside,) = tmp_path.glob(".ragc-*/old")
        assert contents(aside) == was
    again = run(old, sets=("knobs.top_k=7",)).path
    assert load(again).state.knobs["top_k"] == 7


def test_an_error_between_the_two_folders_leaves_the_old_one(
    run: Run, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, renamed = contents(compiled), Path.rename

    def failing(self: Path, target: Any) -> Any:
        if Path(target) == compiled and self.name == "new":
            raise OSError(28, "No space left on device")
        return renamed(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", failing)
        with pytest.raises(OSError, match="No space left"):
            run(compiled, sets=("knobs.top_k=7",))
    assert contents(compiled) == before
    assert not list(compiled.parent.glob(".ragc-*"))


def test_a_folder_keeps_its_mode_when_it_is_replaced(run: Run, compiled: Path) -> None:
    compiled.chmod(0o700)
    run(compiled, sets=("knobs.top_k=7",))
    assert stat.S_IMODE(compiled.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "plant",
    [
        lambda folder: (folder / "notes.txt").write_text("mine"),
        lambda folder: (folder / "away").symlink_to(folder.parent),
    ],
    ids=["a file", "a link"],
)
def test_a_program_with_files_of_others_is_refused_before_anything_is_sent(
    plant: Callable[[Path], object], run: Run, compiled: Path
) -> None:
    plant(compiled)
    before, target = contents(compiled), ScriptedTarget(SchemaReplies())
    with pytest.raises(ArtefactError, match="was not written by ragc; move it away or choose"):
        run(compiled, target=target)
    assert not target.requests
    assert contents(compiled) == before


@pytest.mark.parametrize("folder_first", [True, False])
def test_a_folder_does_not_become_a_file_nor_a_file_a_folder(folder_first: bool, tmp_path: Path) -> None:
    first, second = (CRAG, VANILLA) if folder_first else (VANILLA, CRAG)
    out = tmp_path / "out"
    export(build_program(first), "jinja2", out)
    with pytest.raises(UsageError, match="remove it first, or choose another --out"):
        export(build_program(second), "jinja2", out, force=True)
    assert check(build_program(first), out) == "jinja2"


def test_what_stands_where_an_index_belongs_is_set_aside(tmp_path: Path) -> None:
    path = index_path("toy", "c", {}, tmp_path)
    path.mkdir(parents=True)
    (path / "index.json").write_text('{"format": "mine"}')
    (path / "thesis.txt").write_text("mine")

    def build(folder: Path, step: Callable[[int], None]) -> None:
        (folder / "postings").write_text("abc")

    assert open_or_build("toy", "c", {}, build, home=tmp_path).built
    (aside,) = path.parent.glob("*.aside-*")
    assert (aside / "thesis.txt").read_text() == "mine"

    (path / "notes.txt").write_text("mine")
    (path / "postings").write_text("a")
    assert open_or_build("toy", "c", {}, build, home=tmp_path).built
    assert len(list(path.parent.glob("*.aside-*/notes.txt"))) == 1
