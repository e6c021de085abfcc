"""Kinds that another package adds: one of each family, in recipes, in lists, and in a stranger's program."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.cli.main import main
from ragc.compiled.access import Access
from ragc.compiled.base import load as load_compiled
from ragc.compiled.opened import open_program
from ragc.core.plugins import Registry
from ragc.corpora import SOURCES
from ragc.corpora.embed import EMBEDDERS
from ragc.corpora.rerank import RERANKERS
from ragc.corpora.rerank import make as make_reranker
from ragc.errors import RagcError, RecipeError, UnknownName, Untrusted
from ragc.exports.write import FORMATS, export
from ragc.metrics import ADDED
from ragc.recipe import load
from ragc.store.calls import CallStore
from ragc.targets import TARGETS
from ragc.task.requirements import lacking
from tests.security.foreign import RECIPE, foreign_directory, write_data

FAMILIES: dict[str, Registry[Any]] = {
    "notes": SOURCES,
    "shortest": RERANKERS,
    "letters": EMBEDDERS,
    "parrot": TARGETS,
    "is_short": ADDED,
    "plain": FORMATS,
}

MODULE = '''
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from ragc.core.marks import HARMLESS, Does
from ragc.core.tables import Positive, Words
from ragc.corpora.embed import EmbedderKind
from ragc.corpora.rerank import RerankerKind
from ragc.corpora.sources.base import SourceKind
from ragc.corpora.sources.options import RerankOptions
from ragc.exports.formats.base import Format
from ragc.metrics.base import Metric
from ragc.records import Hit, Passage
from ragc.targets.base import TargetKind
from ragc.targets.options import TargetOptions
from ragc.testing import ScriptedTarget

Path({marker!r}).touch()


class NotesOptions(RerankOptions):
    """Options of a source of kind `notes`."""

    copies: Annotated[Positive, HARMLESS] = Field(default=2, description="Passages. From 1.")
    file: Annotated[str, Does("reads", "notes")] = Field(default="", description="File.")
    server: Annotated[str, Does("speaks", "asks this")] = Field(default="", description="Address.")
    colour: Annotated[str, "no mark"] = Field(default="", description="Without a mark.")


class Notes:
    kind = "notes"

    def __init__(self, copies=2, file="", server="", colour=""):
        self.copies, self.fingerprint = copies, f"notes {{copies}}"

    async def search(self, query, k):
        passages = [Passage(f"n{{i}}", "Note", "red " * (i + 1)) for i in range(self.copies)]
        return tuple(Hit(passage, 1.0) for passage in passages[::-1][:k])

    def sample(self, n, *, seed, exclude=frozenset()):
        return ()

    def rechunk(self, chunk_size, overlap):
        return self


NOTES = SourceKind(
    "notes",
    NotesOptions,
    lambda inputs, options: Notes(**options),
    lambda options: ("no_such",) if options.get("colour") else (),
)


class FarOptions(RerankOptions):
    """Options of a source of kind `far`, which must be set."""


    server: Annotated[Words, Does("speaks", "asks this")] = Field(description="Address.")
    pages: Annotated[int, Field(strict=True, ge=5, le=9), HARMLESS] = Field(description="Pages. From 5 to 9.")


FAR = SourceKind("far", FarOptions, lambda inputs, options: Notes())


class Shortest:
    name, fingerprint = "shortest", "shortest"

    async def scores(self, query, passages):
        return [-float(len(passage.text)) for passage in passages]


SHORTEST = RerankerKind("shortest", ("shortest",), lambda model, progress: Shortest())


class Letters:
    query_prefix = passage_prefix = ""
    dimensions = 2

    def __init__(self, model):
        self.model, self.fingerprint = model, f"letters {{model}}"

    def embed(self, texts):
        rows = np.array([[1.0, len(text)] for text in texts], dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


LETTERS = EmbedderKind("letters", lambda model, progress: Letters(model))


class ParrotOptions(TargetOptions):
    """Options of a target of kind `parrot`."""

    word: Annotated[Words, HARMLESS] = Field(default="red", description="Answer.")


def parrot(spec):
    word = ParrotOptions.of(spec.options).word
    return ScriptedTarget(lambda request: {{"answer": word}})


PARROT = TargetKind("parrot", ParrotOptions, parrot)
IS_SHORT = Metric("is_short", "a short answer", "share", True, lambda outcome: len(outcome.prediction) < 9)
PLAIN = Format(
    "plain",
    "the names of prompts",
    ".plain",
    "people",
    lambda program: {{f"{{prompt.name}}.plain": b"a prompt" for prompt in program.prompts}},
    lambda export: ("$ cat " + export.shell,),
)
WRONG = object()
'''

ENTRY_POINTS = """
[ragc.sources]
notes = added_kinds:NOTES
broken = added_kinds:MISSING
strange = added_kinds:WRONG
far = added_kinds:FAR
bm25 = added_kinds:NOTES

[ragc.rerankers]
shortest = added_kinds:SHORTEST

[ragc.embedders]
letters = added_kinds:LETTERS

[ragc.targets]
parrot = added_kinds:PARROT

[ragc.metrics]
is_short = added_kinds:IS_SHORT

[ragc.exports]
plain = added_kinds:PLAIN
"""

ADDING = """
program = "vanilla"
[knobs]
top_k = 1
[data]
questions = "questions.jsonl"
dev = 2
[sources.local]
kind = "notes"
[sources.local.options]
copies = 3
rerank = "shortest"
[targets.main]
kind = "parrot"
[metrics]
report = ["is_short", "em"]
"""


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with a kind of each family; the file is there once its code has run."""
    site, marker = tmp_path / "site", tmp_path / "ran"
    info = site / "added_kinds-1.2.dist-info"
    info.mkdir(parents=True)
    (site / "added_kinds.py").write_text(MODULE.format(marker=str(marker)), "utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: added-kinds\nVersion: 1.2\n", "utf-8")
    (info / "entry_points.txt").write_text(ENTRY_POINTS, "utf-8")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "machine"))
    monkeypatch.delenv("RAGC_TRUST", raising=False)
    importlib.invalidate_caches()
    for registry in FAMILIES.values():
        monkeypatch.setattr(registry, "_installed", {})
    yield marker
    sys.modules.pop("added_kinds", None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_data(tmp_path / "own")
    (tmp_path / "own/recipe.toml").write_text(ADDING, "utf-8")
    return tmp_path / "own"


def test_a_recipe_uses_a_source_a_reranker_a_target_and_a_metric(
    marker: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not marker.exists()
    assert not main(["eval", str(folder / "recipe.toml"), "--split", "dev", "--json"])
    means = json.loads(capsys.readouterr().out)["metrics"]
    assert {name: means[name]["mean"] for name in ("is_short", "em")} == {"is_short": 1.0, "em": 1.0}
    assert marker.exists()


@pytest.mark.usefixtures("marker")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("{pages = 7}", "sources.local.options.server is missing"),
        ("{server = 5, pages = 7}", "sources.local.options.server must be a text, found 5"),
        ("{server = 'here'}", "sources.local.options.pages is missing"),
        ("{}", "sources.local.options.server is missing"),
    ],
)
def test_a_required_option_of_a_package_is_asked_for(folder: Path, options: str, sentence: str) -> None:
    with pytest.raises(RagcError, match=re.escape(sentence)):
        load(folder / "recipe.toml", [f"sources.local={{kind = 'far', options = {options}}}"])


def changed(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """Changes members of what the package calls `name`, a class or a record."""
    module = importlib.import_module("added_kinds")
    if name == "Notes":
        for member, value in members.items():
            monkeypatch.setattr(module.Notes, member, value)
    else:
        monkeypatch.setattr(module, name, replace(getattr(module, name), **members))


@pytest.mark.usefixtures("marker")
@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        (
            {"score": lambda outcome: 5},
            "gives a number from 0 to 1, or None .* and it gave 5 for the question",
        ),
        (
            {"score": lambda outcome: "much"},
            ".* and it gave 'much' for the question '.*'; repair or uninstall",
        ),
        (
            {"score": lambda outcome: vars(ragc)["answer"]},
            "raised KeyError: 'answer' for the question '.*'; repair or",
        ),
        ({"unit": "percent"}, "has the unit 'percent', and a unit is one of: share, balance, score, count"),
    ],
)
def test_what_is_wrong_with_a_metric_is_said_of_its_package(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    members: dict[str, Any],
    sentence: str,
) -> None:
    changed(monkeypatch, "IS_SHORT", **members)
    assert main(["eval", str(folder / "recipe.toml"), "--split", "dev"]) == 2
    assert re.search(
        f"The metric 'is_short' of the package added-kinds 1.2 {sentence}", capsys.readouterr().err
    )


async def found_nothing(self: Any, query: str, k: int) -> None:
    """A search that forgets to return."""


async def found_numbers(self: Any, query: str, k: int) -> list[int]:
    """A search that returns what is no passage."""
    return [3]


def refuse_options(self: Any, **options: Any) -> None:
    """Takes no option of the recipe."""
    raise TypeError("copies is unknown")


@pytest.mark.usefixtures("marker")
@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({"search": found_nothing}, "must return a list of texts, of mappings or objects with `text`, of "),
        ({"search": found_numbers}, "must return a list of texts, of mappings or objects with `text`, of "),
        (
            {"__init__": lambda self, **options: None},
            "builds a Notes without fingerprint, which every source has",
        ),
        ({"__init__": refuse_options}, "cannot be built: TypeError: copies is unknown; repair or uninstall"),
    ],
)
def test_what_is_wrong_with_a_source_is_said_of_its_package(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    members: dict[str, Any],
    sentence: str,
) -> None:
    changed(monkeypatch, "Notes", **members)
    assert main(["ask", str(folder / "recipe.toml"), "What colour is thing number1?"]) == 2
    expected = f"The source kind 'notes' of the package added-kinds 1.2 {sentence}"
    assert expected in capsys.readouterr().err


async def lose_connection(self: Any, query: str, k: int) -> None:
    """A search whose server is away."""
    raise ConnectionError("no notes")


LOST = (
    "search failed and brought no passages: local: The source kind 'notes' of the package added-kinds 1.2 "
    "raised ConnectionError: no notes."
)


@pytest.mark.usefixtures("marker")
def test_failed_searches_are_named_by_ask_eval_and_compile(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = str(folder / "recipe.toml")
    assert not main(["ask", recipe, "What colour is thing number1?"])
    assert "search failed" not in capsys.readouterr().err
    changed(monkeypatch, "Notes", search=lose_connection)
    assert not main(["ask", recipe, "What colour is thing number1?"])
    assert f"ragc: A {LOST}\n" in capsys.readouterr().err
    assert not main(["eval", recipe, "--split", "dev"])
    assert f"In 2 of 2 questions a {LOST}\n" in capsys.readouterr().err
    rows = [{"id": f"q{i}", "question": f"What colour is mug {i}?", "answers": ["red"]} for i in range(8)]
    (folder / "questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    study = (
        "--set",
        "data.train=2",
        "--set",
        "data.dev=6",
        "--set",
        "data.test=0",
        "--set",
        "search.trials=1",
    )
    assert not main(
        ["compile", recipe, "--out", str(folder / "mine"), "--set", "search.knobs=['noise_n']", *study]
    )
    before, _, after = capsys.readouterr().err.partition(f"In 6 of 6 questions a {LOST}\n")
    assert "baseline on dev" in before
    assert "trial 0/1" in after


def test_the_reranker_orders_and_the_embedder_embeds(marker: Path, folder: Path) -> None:
    task = open_program(folder / "recipe.toml", store=CallStore(None)).task
    source = task.runtime.source("local")
    assert type(source).__name__ == "RerankedSource"
    assert make_reranker("embed:letters:of-a-model").fingerprint != make_reranker("embed:letters").fingerprint


def test_options_and_what_the_machine_lacks_are_read_from_the_record(marker: Path, folder: Path) -> None:
    with pytest.raises(RecipeError, match=r"options.copied: unknown key in .* Did you mean 'copies'"):
        load(folder / "recipe.toml", ["sources.local.options.copied=1"])
    with pytest.raises(RecipeError, match=r"options\.word must be a text"):
        load(folder / "recipe.toml", ["targets.main.options.word=1"])
    (missing,) = lacking(load(folder / "recipe.toml", ["sources.local.options.colour=red"]))
    assert missing == (
        "Source 'local', of kind 'notes', needs no_such, which is not installed; run: pip install no_such"
    )


def test_lists_name_the_package_and_import_nothing(marker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {row["id"]: row["about"] for row in ragc.list_names("sources")}["notes"] == "added-kinds 1.2"
    assert {row["id"] for row in ragc.list_names("rerankers")} >= {"bm25", "shortest"}
    assert not main(["list", "targets"])
    assert "parrot" in capsys.readouterr().out
    assert not marker.exists()


@pytest.mark.parametrize("name", FAMILIES)
def test_each_family_has_its_group_of_entry_points(marker: Path, name: str) -> None:
    registry = FAMILIES[name]
    assert registry.is_known(name)
    assert not marker.exists()
    assert isinstance(registry.get(name), registry.record)
    with pytest.raises(UnknownName, match=f"Did you mean {name!r}"):
        registry.get(name + "s")


def test_a_name_of_ragc_stays_that_of_ragc(marker: Path) -> None:
    assert SOURCES.get("bm25").id == "bm25"
    assert not marker.exists()


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("broken", "cannot be loaded: AttributeError: .*; repair or uninstall the package"),
        ("strange", "is a object, and a SourceKind is needed; repair or uninstall the package"),
    ],
)
def test_a_package_that_cannot_be_used_is_named(marker: Path, folder: Path, kind: str, reason: str) -> None:
    with pytest.raises(RagcError, match=f"'{kind}' of the package added-kinds 1.2 {reason}"):
        load(folder / "recipe.toml", [f"sources.local={{kind = '{kind}'}}"])


def test_an_export_of_another_package_is_written(marker: Path, tmp_path: Path) -> None:
    program = ragc.program("no_retrieval", main=ragc.target("parrot"))
    export(program, "plain", tmp_path / "written.plain")
    assert (tmp_path / "written.plain").read_bytes() == b"a prompt"


STRANGE = RECIPE.replace('kind = "bm25"\ncorpus = "corpus.jsonl"', 'kind = "notes"')
PARROT = '[targets.main]\nkind = "parrot"\n'


@pytest.mark.parametrize(
    ("recipe", "target", "key"),
    [
        (STRANGE, PARROT, "sources.local.kind"),
        (STRANGE.replace('"notes"', '"added_kinds:Notes"'), PARROT, "sources.local.kind"),
        (RECIPE, PARROT, "targets.main.kind"),
        (RECIPE.replace('["em"]', '["is_short"]'), '[targets.main]\nkind = "embedded"\n', "metrics.report"),
        (RECIPE + '[sources.local.options]\nrerank = "shortest"\n', PARROT, "sources.local.options.rerank"),
    ],
)
def test_a_stranger_has_no_code_of_a_package_run(
    marker: Path, tmp_path: Path, recipe: str, target: str, key: str
) -> None:
    directory = foreign_directory(tmp_path, recipe, target)
    for access in (Access(), Access(targets=True)):
        with pytest.raises(Untrusted, match=key):
            ragc.evaluate(directory, split="dev", access=access)
    assert not marker.exists()


def test_a_stranger_whose_code_is_allowed_has_it_run(marker: Path, tmp_path: Path) -> None:
    directory = foreign_directory(tmp_path, STRANGE.replace('["em"]', '["is_short"]'), PARROT)
    report = ragc.evaluate(directory, split="dev", access=Access(code=True))
    assert report.metrics["is_short"].mean == 1.0
    assert marker.exists()


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ('colour = "red"', "colour"),
        ('server = "http://127.0.0.1:9"', "server"),
        ('file = "/etc/passwd"', "file"),
    ],
)
def test_options_of_a_stranger_are_refused_by_their_marks(
    marker: Path, tmp_path: Path, option: str, key: str
) -> None:
    directory = foreign_directory(tmp_path, f"{STRANGE}[sources.local.options]\n{option}\n", PARROT)
    with pytest.raises(Untrusted, match=f"sources.local.options.{key}"):
        open_program(directory, store=CallStore(None), access=Access(code=True))


def test_the_listing_of_trust_shows_what_a_package_would_run(marker: Path, tmp_path: Path) -> None:
    directory = foreign_directory(tmp_path, STRANGE, PARROT)
    runs = "\n".join(ragc.trust_listing(directory).acts["runs"])
    assert "sources.local.kind = 'notes': runs the installed package that adds this source kind" in runs
    assert not marker.exists()
    assert load_compiled(directory).digest
