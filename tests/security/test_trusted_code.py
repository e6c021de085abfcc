"""Trust covers the modules in a compiled directory: one that was changed is asked about again."""

from __future__ import annotations

import importlib.util
import json
import py_compile
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ragc
from ragc.cli.main import main
from ragc.compiled.base import load
from ragc.compiled.evaluate import score
from ragc.compiled.opened import open_program
from ragc.errors import RagcError, Untrusted
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.security.foreign import RECIPE, foreign_directory

SCORING = RECIPE.replace('report = ["em"]', 'report = ["strange_scores:score"]')
MODULE = """
from pathlib import Path
from strange_package.helper import LIMIT
Path({marker!r}).touch()
def score(prediction, question):
    return LIMIT
"""


@pytest.fixture(autouse=True)
def _own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A record of this test's own; what it imported is forgotten."""
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "machine"))
    monkeypatch.delenv("RAGC_TRUST", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    yield
    for name in [name for name in sys.modules if name.startswith("strange_")]:
        del sys.modules[name]


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """A directory from elsewhere whose metric is a module in it, which leaves `tmp_path/ran` when it runs."""
    directory = foreign_directory(tmp_path, SCORING)
    (directory / "strange_scores.py").write_text(MODULE.format(marker=str(tmp_path / "ran")))
    package = directory / "strange_package"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text(
        "from pathlib import Path\nLIMIT = float((Path(__file__).parent / 'data' / 'x').read_text())\n"
    )
    (package / "data" / "x").write_text("0.5")
    return directory


def run(directory: Path) -> float:
    """What the metric of `directory` says of any answer."""
    for name in [name for name in sys.modules if name.startswith("strange_")]:
        del sys.modules[name]
    opened = open_program(directory, targets={"main": ScriptedTarget(SchemaReplies())})
    try:
        return score(opened, "dev").metrics["strange_scores:score"].mean
    finally:
        opened.close()


CHANGES: dict[str, Callable[[Path], object]] = {
    "a module": lambda at: (at / "strange_scores.py").write_text(MODULE.format(marker="elsewhere")),
    "data of a package": lambda at: (at / "strange_package" / "data" / "x").write_text("0.9"),
    "a module less": lambda at: (at / "strange_package" / "__init__.py").unlink(),
    "a module that shadows another": lambda at: (at / "json.py").write_text("raise SystemExit\n"),
    "a library": lambda at: (at / "strange_package" / "helper.abi3.so").write_bytes(b"\x7fELF"),
    "a compiled module": lambda at: (at / "strange_package" / "helper.pyc").write_bytes(b""),
    "a module far below": lambda at: (at / "strange_package" / "data" / "x.py").write_text(""),
    "a link to a folder of modules": lambda at: (at / "strange_link").symlink_to(at / "strange_package"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_directory_whose_modules_changed_is_asked_about_again(
    change: str, strange: Path, tmp_path: Path
) -> None:
    with pytest.raises(Untrusted, match="strange_scores:score"):
        run(strange)
    assert not (tmp_path / "ran").exists()
    ragc.trust(strange)
    assert run(strange) == 0.5
    (tmp_path / "ran").unlink()
    before = load(strange).digest
    CHANGES[change](strange)
    assert load(strange).digest != before
    with pytest.raises(
        Untrusted, match=re.escape(f"see all that it does and trust it with ragc.trust({str(strange)!r})")
    ):
        run(strange)
    assert not (tmp_path / "ran").exists()
    assert not ragc.trust_listing(strange).trusted


def test_bytecode_that_a_stranger_laid_is_not_run_and_none_is_written(strange: Path, tmp_path: Path) -> None:
    module, evil = strange / "strange_scores.py", tmp_path / "evil.py"
    evil.write_text("def score(prediction, question):\n    return 0.99\n")
    ragc.trust(strange)
    seen = set(strange.rglob("*"))
    assert run(strange) == 0.5
    assert set(strange.rglob("*")) == seen
    planted = Path(importlib.util.cache_from_source(str(module)))
    planted.parent.mkdir()
    py_compile.compile(
        str(evil), cfile=str(planted), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    with pytest.raises(Untrusted):
        run(strange)


def test_what_is_no_code_may_change(strange: Path) -> None:
    ragc.trust(strange)
    with (strange / "corpus.jsonl").open("a") as file:
        file.write(json.dumps({"id": "more", "title": "x", "text": "y"}) + "\n")
    (strange / "notes.txt").write_text("mine")
    assert run(strange) == 0.5


def test_a_directory_that_names_no_code_may_hold_any(tmp_path: Path) -> None:
    directory = foreign_directory(tmp_path)
    before = load(directory).digest
    (directory / "script.py").write_text("1")
    assert load(directory).digest == before


def test_the_listing_names_every_file_of_modules(strange: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", str(strange)]) == 2
    out = capsys.readouterr().out
    for name in ("strange_scores.py", "strange_package/helper.py", "strange_package/data/x"):
        assert re.search(
            rf"  {re.escape(name)}, sha256 [0-9a-f]{{64}}: a file of the modules that it holds", out
        )
    assert "corpus.jsonl, sha256" not in out


def test_the_digest_in_the_environment_covers_modules_too(
    strange: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGC_TRUST", load(strange).digest)
    assert run(strange) == 0.5
    CHANGES["a module"](strange)
    with pytest.raises(Untrusted):
        run(strange)


def test_a_program_that_the_user_typed_is_not_taken_from_a_strangers_directory(
    strange: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "ran_by_name"
    (strange / "tabnanny.py").write_text(f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n", "utf-8")
    for name in ("tabnanny:Anything", "strange_scores:score"):
        with pytest.raises(RagcError):
            ragc.ask(strange, "Why?", sets=[f"program={name}"])
        assert main(["ask", str(strange), "Why?", "--set", f"program={name}"]) == 2
    assert not mark.exists()
    assert not (tmp_path / "ran").exists()
