"""What a machine lacks is said at once, before anything is downloaded, opened or sent."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc import recipe
from ragc.cli import main
from ragc.core import extras
from ragc.errors import RecipeError
from ragc.task.requirements import lacking
from tests import processes
from tests.support.recipes import recipe_toml, write_files
from tests.support.server import Visit, serving

RECIPE = recipe_toml(data={"dev": 1}, metrics=["f1"])

WITHOUT = """\
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None
sys.argv[:2] = ["ragc"]
from ragc.cli.main import main
sys.exit(main())
"""
"""The command line in a Python without some modules."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    question = {"id": "q", "question": "Who?", "answers": ["Ada"]}
    passage = {"id": "p", "title": "Ada", "text": "Ada wrote it."}
    return write_files(tmp_path, recipe=RECIPE, questions=[question], corpus=[passage])


@pytest.fixture
def forbidden_index() -> Iterator[tuple[str, list[Visit]]]:
    """An index that must not be asked: its address, and what it was asked for."""
    with serving() as server:
        yield f"{server.base}/simple", server.visits


def hide(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def problems(folder: Path, *sets: str, **parts: bool) -> tuple[str, ...]:
    return lacking(recipe.load(folder / "recipe.toml", sets), **parts)


@pytest.mark.parametrize(
    "command",
    [
        ["compile", "recipe.toml"],
        ["compile", "recipe.toml", "--dry-run"],
        ["ask", "recipe.toml", "Who?"],
        ["eval", "recipe.toml", "--split", "dev"],
    ],
)
def test_without_the_extra_it_is_said_before_any_download(
    folder: Path, forbidden_index: tuple[str, list[Visit]], command: list[str]
) -> None:
    home, (index, paths) = folder / "home", forbidden_index
    environment = os.environ | {
        "RAGC_HOME": str(home),
        "PIP_INDEX_URL": index,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": "",
    }
    done = processes.run(["-c", WITHOUT, "xllamacpp", *command], cwd=folder, environment=environment)
    assert done.returncode == 2, done.stderr
    message = " ".join(done.stderr.split())
    assert "'main', of kind 'embedded', needs xllamacpp, which is not installed" in message
    assert 'pip install "ragc[embedded]"' in message
    assert "Traceback" not in message
    assert paths == []
    assert not (home / "weights").exists()


def test_everything_is_said_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = [module for modules in extras.EXTRAS.values() for module in modules]
    hide(monkeypatch, *every)
    for name in ("OPENAI_API_KEY", "NO_SUCH_KEY", "RAGC_STORAGE"):
        monkeypatch.delenv(name, raising=False)
    sets = (
        'sources.a = {kind = "dense"}',
        'sources.b = {kind = "web", options = {pages = true}}',
        'sources.c = {kind = "api", options = {base_url = "http://127.0.0.1:9"}}',
        'sources.d = {kind = "lucene"}',
        'sources.e = {kind = "bm25", options = {rerank = "embed"}}',
        'search.targets = {main = ["main", "two", "three", "four"]}',
        'targets.two = {kind = "hosted", model = "openai/gpt-4o-mini"}',
        'targets.three = {kind = "vllm", model = "m", base_url = "http://h/v1"}',
        'targets.three.options = {api_key_env = "NO_SUCH_KEY"}',
        'targets.four = {kind = "vllm", model = "m", options = {serve = true}}',
        'metrics.report = ["f1", "rouge1", "rougeLsum", "rqrag_f1", "judge_acc", "alce_claim_recall"]',
        'metrics.entailment = "nli:nowhere"',
        'data.dev = "hf:org/name"',
        'study = {storage = "postgresql+psycopg://h/d"}',
    )
    messages = problems(folder, *sets)
    expected = [
        ("'hf:org/name'", "[hub]"),
        ("'a'", "faiss", "[dense]"),
        ("'b'", "ddgs, markdownify, which are", "[web]"),
        ("'c'", "dateparser", "[api]"),
        ("'d'", "pyserini", "[lucene]"),
        ("'e'", "reranked by 'embed'", "[dense]"),
        ("'main'", "xllamacpp", "[embedded]"),
        ("'two'", "OPENAI_API_KEY", "not set"),
        ("'three'", "NO_SUCH_KEY", "not set"),
        ("'four'", "vllm", "[vllm]"),
        ("'rouge1'", "rouge_score", "[metrics]"),
        ("'rougeLsum'", "punkt", "[metrics]"),
        ("'rqrag_f1'", "ftfy", "[metrics]"),
        ("judge_acc", "[targets.judge]"),
        ("entailment", "torch", "[nli]"),
        ("PostgreSQL", "psycopg", "pip install 'psycopg[binary]'"),
    ]
    assert len(messages) == len(expected), messages
    for text, words in zip(messages, expected, strict=True):
        assert all(word in text for word in words), text
    with pytest.raises(RecipeError, match=f"{len(messages)} problems"):
        ragc.compile(folder / "recipe.toml", sets=sets, dry_run=True)


def test_what_will_not_be_used_may_be_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "xllamacpp", "rouge_score", "psycopg")
    shared = 'study = {storage = "postgresql+psycopg://h/d"}'
    sets = ('metrics.report = ["rouge1"]', shared)
    assert len(problems(folder, *sets)) == 3
    assert problems(folder, *sets, targets=False, metrics=False, study=False) == ()
    assert ragc.index(folder / "recipe.toml", sets=sets[:1]) == []


def test_a_key_that_is_there_and_a_server_of_ones_own_lack_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = 'targets.main = {kind = "hosted", model = "openai/gpt-4o-mini"}'
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert len(problems(folder, hosted)) == 1
    assert problems(folder, hosted.replace("}", ', base_url = "http://127.0.0.1:9/v1"}')) == ()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-word")
    assert problems(folder, hosted) == ()


def test_the_doctor_agrees(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(monkeypatch, "xllamacpp")
    monkeypatch.setenv("RAGC_HOME", str(folder / "home"))  # all that is stored there is read
    path = str(folder / "recipe.toml")
    assert main.main(["doctor", path, "--json"]) == 1
    checks: dict[str, Any] = {check["id"]: check for check in json.loads(capsys.readouterr().out)}
    (message,) = problems(folder)
    assert checks["recipe"] == {"id": "recipe", "ok": False, "found": message, "needed": True}
    assert checks["xllamacpp"]["ok"] is False
    assert 'pip install "ragc[embedded]"' in checks["xllamacpp"]["found"]
    assert checks["main"]["ok"] is False
