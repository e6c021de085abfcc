"""`owner/repository:file.gguf`: fetched from a hub or its mirror, cached, and clear when it cannot be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragc import recipe as recipes
from ragc.compiled import trust
from ragc.downloads import is_hub_file
from ragc.targets.embedded.target import EmbeddedTarget
from tests.paths import SRC
from tests.support.hub import Hub, hub_of

pytest.importorskip("huggingface_hub")

SMALL = b"GGUF" + bytes(50_000)
FILES = {
    "own/small/small-q4.gguf": SMALL,
    "own/small/small-q8.gguf": SMALL * 2,
    "own/small/README.md": b"#",
    "own/parts/big-00001-of-00002.gguf": SMALL,
    "own/parts/big-00002-of-00002.gguf": SMALL + b"2",
    "own/none/README.md": b"#",
}
CHILD = """
import json, sys
from ragc.core.progress import listening
from ragc import recipe as recipes
from ragc.compiled import trust
from ragc.downloads import fetch_hub_file
from ragc.errors import TargetUnavailable
results = []
for name in sys.argv[1:]:
    said = []
    try:
        with listening(said.append):
            results.append([str(fetch_hub_file(name)), *said])
    except TargetUnavailable as error:
        results.append([f"error: {error}"])
print(json.dumps(results))
"""
"""The library reads its environment when it is imported, so each case has a process of its own."""


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with hub_of(FILES) as own:
        yield own


def fetch(home: Path, *names: str, **environ: str) -> list[list[str]]:
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
        "PYTHONPATH": str(SRC),
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        **environ,
    }
    command = [sys.executable, "-P", "-c", CHILD, *names]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    results: list[list[str]] = json.loads(done.stdout.splitlines()[-1])
    return results


def test_a_file_comes_from_the_mirror_once_and_then_without_a_network(hub: Hub, tmp_path: Path) -> None:
    name = "own/small:small-q4.gguf"
    ((path, said),) = fetch(tmp_path, name, HF_ENDPOINT=hub.url)
    assert Path(path).read_bytes() == SMALL
    assert Path(path).is_relative_to(tmp_path)
    assert "small-q4.gguf" in said
    hub.asked.clear()
    assert fetch(tmp_path, name, HF_ENDPOINT=hub.url) == [[path]]
    assert fetch(tmp_path, name, HF_ENDPOINT="http://127.0.0.1:9") == [[path]]
    assert hub.asked == []


def test_all_parts_of_a_model_in_several_files_come(hub: Hub, tmp_path: Path) -> None:
    ((path, _),) = fetch(tmp_path, "own/parts:big-00001-of-00002.gguf", HF_ENDPOINT=hub.url)
    assert sorted(file.name[-13:] for file in Path(path).parent.iterdir()) == ["of-00002.gguf"] * 2


def test_what_cannot_be_had_is_one_sentence_that_says_what_to_do(hub: Hub, tmp_path: Path) -> None:
    names = ("own/small:small-q5.gguf", "own/none:x.gguf", "own/nothing:x.gguf", "gated/one:x.gguf")
    errors = [text for (text,) in fetch(tmp_path, *names, HF_ENDPOINT=hub.url)]
    wanted = (
        "Entry Not Found.*the nearest of its files are small-q",
        "Entry Not Found",
        "Repository Not Found",
        "accept its terms at huggingface.co/gated/one",
    )
    assert all(re.search(part, text) for part, text in zip(wanted, errors, strict=True)), errors
    errors += fetch(tmp_path, names[0], HF_ENDPOINT="http://127.0.0.1:9")[0]
    errors += fetch(tmp_path, names[0], HF_HUB_OFFLINE="1")[0]
    for text in errors:
        assert re.fullmatch("error: .*Check the name, the network and HF_ENDPOINT.*", text)


def test_names_of_the_hub_are_told_from_paths() -> None:
    hub = ["own/small:small-q4.gguf", "Own-1/s.m_l:folder/Big.GGUF"]
    paths = [
        "model.gguf",
        "models/small.gguf",
        "C:/small.gguf",
        "own/small:x.bin",
        "own/small:",
        "a/b/c:d.gguf",
    ]
    assert [name for name in hub + paths if is_hub_file(name)] == hub
    assert EmbeddedTarget("own/small:small-q4.gguf").model == "small-q4"


RECIPE = """
program = "vanilla"
[sources.local]
kind = "bm25"
corpus = "corpus.jsonl"
[data]
questions = "questions.jsonl"
[targets.main]
kind = "embedded"
model = "own/small:small-q4.gguf"
"""


def test_a_recipe_names_a_file_of_the_hub_where_it_names_a_path(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"id": "1", "text": "A note."}\n')
    (tmp_path / "questions.jsonl").write_text('{"id": "1", "question": "What?", "answers": ["a"]}\n')
    (tmp_path / "recipe.toml").write_text(RECIPE)
    recipe = recipes.load(tmp_path / "recipe.toml")
    assert recipe.target_specs()["main"].model == "own/small:small-q4.gguf"
    (access,) = (access for access in trust.list_accesses(recipe) if access.keys[-1] == "model")
    assert (access.kind, access.own_weights) == ("speaks", False)
    assert "Hugging Face Hub" in access.about
