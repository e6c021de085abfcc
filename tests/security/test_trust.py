"""A compiled directory from elsewhere starts nothing, sends nothing away and reads nothing outside of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.cli.main import main
from ragc.compiled import trust, trust_record
from ragc.compiled.base import load
from ragc.compiled.opened import open_program
from ragc.core.marks import HARMLESS, marked
from ragc.core.tables import Table
from ragc.corpora import SOURCES
from ragc.corpora.rerank import RerankedSource
from ragc.errors import Untrusted, UsageError
from ragc.recipe import Recipe, SourceSpec
from ragc.targets import TARGETS as TARGET_KINDS
from ragc.targets.options import TargetSpec
from ragc.testing import ScriptedTarget
from tests.security.foreign import (
    QUESTION,
    RECIPE,
    SECRET,
    VARIABLE,
    Recorded,
    command,
    compiled_directory,
    foreign_directory,
    recording,
    target_table,
    write_data,
)

KEY = "OPENAI_API_KEY"


@pytest.fixture(scope="module")
def server() -> Iterator[Recorded]:
    with recording() as server:
        yield server


@pytest.fixture(autouse=True)
def _own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Recorded) -> None:
    """A record of this test's own, secrets in the environment, and nothing asked so far."""
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "machine"))
    monkeypatch.delenv("RAGC_TRUST", raising=False)
    monkeypatch.setenv(VARIABLE, SECRET)
    monkeypatch.setenv(KEY, f"{SECRET}-of-openai")
    server.paths.clear()
    server.seen.clear()


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    """Exit status, output and errors of `ragc WORDS` in this process."""
    capsys.readouterr()
    status = main([*map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def assert_refused(result: tuple[int, str, str], directory: Path, *keys: str) -> None:
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.startswith(f"ragc: {directory}")
    assert err.count("\n") == 1
    for key in (*keys, f"ragc trust {directory}", "--set "):
        assert key in err


@pytest.fixture
def helper(tmp_path: Path) -> Path:
    """A program that leaves `tmp_path/marker` when it runs."""
    path = tmp_path / "helper"
    path.write_text(f"#!/bin/sh\ntouch '{tmp_path / 'marker'}'\n")
    path.chmod(0o755)
    return path


TARGETS: dict[str, tuple[dict[str, Any], str]] = {
    "a server of vLLM": ({"kind": "vllm", "model": "m", "serve": True}, "targets.main.options.serve"),
    "a program beside it": (
        {"kind": "vllm", "model": "m", "serve": True, "python": "{helper}"},
        "targets.main.options.python",
    ),
    "its flags": (
        {"kind": "vllm", "model": "m", "serve": True, "flags": {"trust-remote-code": True}},
        "targets.main.options.flags",
    ),
    "a variable for its own server": (
        {"kind": "vllm", "model": "echo", "base_url": "{url}", "api_key_env": VARIABLE},
        "targets.main.options.api_key_env",
    ),
    "a server on this machine": (
        {"kind": "vllm", "model": "echo", "base_url": "{url}"},
        "targets.main.base_url",
    ),
    "a provider's key for its own proxy": (
        {"kind": "hosted", "model": "openai/gpt-4o-mini", "base_url": "{url}"},
        "targets.main.base_url",
    ),
    "another variable for a provider": (
        {"kind": "hosted", "model": "openai/gpt-4o-mini", "api_key_env": VARIABLE},
        "targets.main.options.api_key_env",
    ),
    "one provider's key for another": (
        {"kind": "hosted", "model": "deepseek/chat", "api_key_env": KEY},
        "targets.main.options.api_key_env",
    ),
    "a router in the body": (
        {"kind": "hosted", "model": "openai/gpt-4o-mini", "body": {"fallbacks": [{"api_base": "{url}"}]}},
        "targets.main.options.body",
    ),
    "another's replies": (
        {"kind": "hosted", "model": "openai/gpt-4o-mini", "identity": "gpt-5"},
        "targets.main.options.identity",
    ),
    **{
        model: ({"kind": "hosted", "model": model}, "targets.main.model")
        for model in ("openai/gpt-4o-mini", "ollama/m", "vllm/m", "huggingface/https://example.com/m")
    },
    "weights elsewhere": ({"kind": "embedded", "model": "{elsewhere}"}, "targets.main.model"),
    "weights of a home": ({"kind": "embedded", "model": "~/model.gguf"}, "targets.main.model"),
}


@pytest.mark.parametrize("written", ["cross:evil/model ", "cross: evil/model", "embed:evil/model "])
def test_a_model_beside_it_is_not_another_of_that_name_elsewhere(written: str, tmp_path: Path) -> None:
    options = f"options.rerank = {json.dumps(written)}\n[metrics]"
    directory = foreign_directory(tmp_path, RECIPE.replace("[metrics]", options))
    model = directory / "evil" / "model"
    model.mkdir(parents=True)
    (model / "model.onnx").write_text("inside")
    (model / "tokenizer.json").write_text("{}")
    opened = open_program(directory, questions=False, targets={"main": ScriptedTarget([])})
    source = opened.task.runtime.sources["local"]
    assert isinstance(source, RerankedSource)
    loaded: Any = getattr(source.reranker, "embedder", source.reranker)
    assert str(model.resolve()) in loaded.local.name


@pytest.mark.parametrize("shape", [*TARGETS])
def test_a_target_from_elsewhere_is_refused_with_the_way_out(
    shape: str, helper: Path, tmp_path: Path, server: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    options, key = TARGETS[shape]
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    text = target_table(**options).replace("{url}", server.url)
    text = text.replace("{elsewhere}", str(tmp_path / "model.gguf")).replace("{helper}", str(helper))
    directory = foreign_directory(tmp_path, target=text)
    assert_refused(run(capsys, "ask", directory, QUESTION), directory, key)
    assert server.paths == []
    assert not (tmp_path / "marker").exists()


RECIPES: dict[str, tuple[Callable[[str], str], str]] = {
    "questions elsewhere": (
        lambda t: t.replace('questions = "questions', 'questions = "{outside}/questions'),
        "data.questions",
    ),
    "questions above": (
        lambda t: t.replace('questions = "questions', 'questions = "../outside/questions'),
        "data.questions",
    ),
    "a split elsewhere": (lambda t: t.replace("dev = 2", 'dev = "/etc/passwd"'), "data.dev"),
    "a corpus elsewhere": (
        lambda t: t.replace('corpus = "corpus', 'corpus = "{outside}/corpus'),
        "sources.local.corpus",
    ),
    "a corpus by a link": (lambda t: t.replace("corpus.jsonl", "link.jsonl"), "sources.local.corpus"),
    "a corpus in a linked folder": (
        lambda t: t.replace("corpus.jsonl", "folder/corpus.jsonl"),
        "sources.local.corpus",
    ),
    "a corpus by a pattern": (lambda t: t.replace("corpus.jsonl", "lin*.jsonl"), "sources.local.corpus"),
    "a pattern above": (lambda t: t.replace("corpus.jsonl", "../outside/*.jsonl"), "sources.local.corpus"),
    "a list of corpora": (
        lambda t: t.replace('"corpus.jsonl"', '["corpus.jsonl", "{outside}/corpus.jsonl"]'),
        "sources.local.corpus",
    ),
    "a corpus of two lines": (
        lambda t: t.replace('"corpus.jsonl"', '"corpus.jsonl\\n../outside/corpus.jsonl"'),
        "sources.local.corpus",
    ),
    "a link that leads to itself": (
        lambda t: t.replace("corpus.jsonl", "loop.jsonl"),
        "sources.local.corpus",
    ),
    "a corpus of Windows": (
        lambda t: t.replace('"corpus.jsonl"', r"'..\outside\corpus.jsonl'"),
        "sources.local.corpus",
    ),
    "a corpus of the Hub": (lambda t: t.replace('"corpus.jsonl"', '"hf:org/name"'), "sources.local.corpus"),
    "a folder of data": (lambda t: t.replace('"corpus.jsonl"', '"hf:./folder"'), "sources.local.corpus"),
    "a data set of the Hub": (
        lambda t: t.replace("[data]", '[data]\ndataset = "hf:org/name"').replace(
            'questions = "questions.jsonl"\n', ""
        ),
        "data.dataset",
    ),
    "an entailment model": (lambda t: t + 'entailment = "nli:{outside}"\n', "metrics.entailment"),
    "an entailment model of the cache": (lambda t: t + 'entailment = "nli:org/m"\n', "metrics.entailment"),
    "a reranker": (lambda t: t + '[sources.local.options]\nrerank = "cross:{outside}"\n', "rerank"),
    "a reranker of the Hub": (lambda t: t + '[sources.local.options]\nrerank = "embed:o/m"\n', "rerank"),
    "an embedder": (
        lambda t: t.replace('"bm25"', '"dense"') + '[sources.local.options]\nmodel = "{outside}"\n',
        "sources.local.options.model",
    ),
    "an embedder of a part": (
        lambda t: t.replace('"bm25"', '"hybrid"') + '[sources.local.options.dense]\nmodel = "modules"\n',
        "sources.local.options.dense.model",
    ),
    "a recording": (lambda t: t.replace('"bm25"', '"recorded"').replace("corpus.", "link."), "local.corpus"),
    "an address of an API": (
        lambda t: t + '[sources.kg]\nkind = "api"\noptions.base_url = "http://127.0.0.1:9"\n',
        "sources.kg.options.base_url",
    ),
    "a search of the web": (
        lambda t: t.replace('"bm25"\ncorpus = "corpus.jsonl"', '"web"'),
        "sources.local.kind",
    ),
    "a storage": (lambda t: t + '[study]\nstorage = "postgresql://127.0.0.1/x"\n', "study.storage"),
}


@pytest.mark.parametrize("shape", RECIPES)
def test_what_lies_or_listens_elsewhere_is_refused(
    shape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    write_data(outside)
    change, key = RECIPES[shape]
    directory = foreign_directory(tmp_path, change(RECIPE).replace("{outside}", str(outside)))
    (directory / "link.jsonl").symlink_to(outside / "corpus.jsonl")
    (directory / "folder").symlink_to(outside)
    (directory / "loop.jsonl").symlink_to("loop.jsonl")
    (directory / "modules").mkdir()
    (directory / "modules" / "modules.json").write_text('[{"type": "os.system"}]')
    assert_refused(run(capsys, "eval", directory, "--split", "dev"), directory, key)


def test_an_option_that_is_not_classified_is_not_harmless() -> None:
    recipe = Recipe(
        program="vanilla",
        sources={"local": SourceSpec(kind="bm25", corpus="corpus.jsonl", options={"home": "/"})},
        targets={"main": TargetSpec(kind="embedded", options={"library": "/x.so"})},
    )
    accesses = [access for access in trust.list_accesses(recipe) if access.kind == "unknown"]
    assert [access.name for access in accesses] == [
        "sources.local.options.home",
        "targets.main.options.library",
    ]


@pytest.mark.parametrize("name", ["judge", "teacher", "spare"])
def test_other_targets_are_looked_at_as_well(
    name: str, tmp_path: Path, server: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    main_table = target_table(kind="hosted", model="openai/gpt-4o-mini", fallbacks=["spare"])
    other = target_table(kind="vllm", model="echo", base_url=server.url, api_key_env=VARIABLE)
    text = main_table if name == "spare" else '[targets.main]\nkind = "embedded"\n'
    directory = foreign_directory(tmp_path, target=text + other.replace("targets.main", f"targets.{name}"))
    assert_refused(run(capsys, "eval", directory), directory, f"targets.{name}.options.api_key_env")
    assert server.paths == []


def test_a_question_opens_no_judge(
    tmp_path: Path, server: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = target_table(kind="vllm", model="echo", base_url="http://127.0.0.1:9/v1", api_key_env=VARIABLE)
    text = '[targets.main]\nkind = "vllm"\nmodel = "echo"\nbase_url = "http://127.0.0.1:9/v1"\n'
    directory = foreign_directory(tmp_path, target=text + judge.replace("targets.main", "targets.judge"))
    status, out, _ = run(capsys, "ask", directory, QUESTION, "--set", f"targets.main.base_url={server.url}")
    assert status == 0
    assert "A: red" in out


def test_the_same_directory_runs_its_program_once_that_is_allowed(helper: Path, tmp_path: Path) -> None:
    table = target_table(kind="vllm", model="m", serve=True, python=str(helper), start_s=20.0)
    directory = foreign_directory(tmp_path, target=table)
    words = ("ask", directory, QUESTION, "--trust-code")
    assert command(*words, home=tmp_path / "home", cwd=tmp_path).returncode == 1
    assert (tmp_path / "marker").exists()


def test_the_python_functions_follow_the_same_rule(tmp_path: Path, server: Recorded) -> None:
    table = target_table(kind="vllm", model="echo", base_url=server.url, api_key_env=VARIABLE)
    directory = foreign_directory(tmp_path, target=table)
    calls: list[Callable[..., Any]] = [
        lambda **how: ragc.ask(directory, QUESTION, **how).prediction,
        lambda **how: ragc.load(directory, **how)(QUESTION).prediction,
        lambda **how: ragc.evaluate(directory, split="dev", **how).rows[0].prediction,
        lambda **how: ragc.export(directory, "promptfoo", tmp_path / "x", questions=1, force=True, **how),
    ]
    for call in calls:
        for how in ({}, {"access": ragc.Access(code=True)}):
            with pytest.raises(Untrusted, match="api_key_env"):
                call(**how)
        assert server.seen == []
    with pytest.raises(Untrusted, match=r"\.Access\(targets=True\), or .* trust it with ragc\.trust"):
        ragc.load(directory)
    for call in calls:
        assert call(access=ragc.Access(targets=True))
    assert any(f"Bearer {SECRET}" in text for text in server.seen)


THEIRS = {"kind": "vllm", "model": "echo", "base_url": "http://127.0.0.1:9/v1", "api_key_env": VARIABLE}


@pytest.mark.parametrize(
    ("target", "sets", "key"),
    [
        (THEIRS, ("targets.main.model=other",), "base_url"),
        (THEIRS, ("targets.main.base_url={url}",), "api_key_env"),
        (THEIRS, (f"targets.main.options.api_key_env={VARIABLE}",), "base_url"),
        (THEIRS, ("targets.main.kind=hosted", "targets.main.model=openai/gpt-4o-mini"), "base_url"),
        (
            {"kind": "hosted", "model": "deepseek/chat"},
            (f"targets.main.options.api_key_env={VARIABLE}",),
            "targets.main.model",
        ),
        ({"kind": "vllm", "model": "/there"}, ("targets.main.options={serve=true}",), "targets.main.model"),
        ({"kind": "embedded"}, ("sources.local.corpus=link.jsonl",), "sources.local.corpus"),
    ],
)
def test_what_the_user_does_not_set_is_not_the_users_word(
    target: dict[str, Any],
    sets: tuple[str, ...],
    key: str,
    tmp_path: Path,
    server: Recorded,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_data(tmp_path / "outside")
    directory = foreign_directory(tmp_path, target=target_table(**target))
    (directory / "link.jsonl").symlink_to(tmp_path / "outside" / "corpus.jsonl")
    words = [word for text in sets for word in ("--set", text.replace("{url}", server.url))]
    assert_refused(run(capsys, "ask", directory, QUESTION, *words), directory, key)
    assert server.seen == []


@pytest.mark.parametrize(
    "sets",
    [
        ("targets.main.base_url={url}", "targets.main.options={}", "study={}"),
        ("targets.main={kind='vllm', model='echo', base_url='{url}'}", "study={}"),
    ],
)
def test_what_the_user_sets_is_the_users_word(
    sets: tuple[str, ...], tmp_path: Path, server: Recorded
) -> None:
    study = '[study]\nstorage = "postgresql://127.0.0.1:9/x"\n'
    directory = foreign_directory(tmp_path, RECIPE + study, target_table(**THEIRS))
    replaced = [text.replace("{url}", server.url) for text in sets]
    assert ragc.ask(directory, QUESTION, sets=replaced).prediction == "red"
    assert SECRET not in str(server.seen)


def test_a_proxy_of_the_users_may_get_the_key_that_the_user_names(tmp_path: Path, server: Recorded) -> None:
    directory = foreign_directory(tmp_path, target=target_table(kind="hosted", model="openai/echo"))
    sets = [f"targets.main.base_url={server.url}", f"targets.main.options.api_key_env={KEY}"]
    with pytest.raises(Untrusted, match=r"targets\.main\.model"):
        ragc.ask(directory, QUESTION, sets=sets)
    sets.append("targets.main.model=openai/echo")
    assert ragc.ask(directory, QUESTION, sets=sets).prediction == "red"
    assert SECRET + "-of-openai" in str(server.seen)


def test_a_path_inside_the_directory_may_be_absolute_and_none_leads_out_by_a_link(
    tmp_path: Path, server: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = tmp_path / "foreign" / "corpus.jsonl"
    target = target_table(kind="vllm", model="echo", base_url="http://127.0.0.1:9/v1")
    directory = foreign_directory(tmp_path, RECIPE.replace("corpus.jsonl", str(inside)), target)
    write_data(tmp_path / "outside")
    (tmp_path / "by-a-link").symlink_to(directory)
    (directory / "x").mkdir()

    def asked(corpus: Path | str) -> tuple[int, str, str]:
        sets = ("--set", f"targets.main.base_url={server.url}", "--set", f"sources.local.corpus={corpus}")
        return run(capsys, "ask", directory, QUESTION, *sets)

    typed = (inside, tmp_path / "by-a-link" / "corpus.jsonl")
    for corpus in (*typed, "./x/../corpus.jsonl", tmp_path / "outside" / "corpus.jsonl"):
        assert asked(corpus)[0] == 0
    inside.unlink()
    inside.symlink_to(tmp_path / "outside" / "corpus.jsonl")
    for corpus in typed:
        assert_refused(asked(corpus), directory, "sources.local.corpus")


@pytest.mark.parametrize(("flag", "shape"), [("--trust-targets", "serve"), ("--trust-code", "base_url")])
def test_each_flag_allows_its_own_part_only(
    flag: str, shape: str, tmp_path: Path, server: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {"serve": True} if shape == "serve" else {"base_url": server.url}
    directory = foreign_directory(tmp_path, target=target_table(kind="vllm", model="echo", **options))
    assert_refused(run(capsys, "ask", directory, QUESTION, flag), directory, shape)
    table = target_table(kind="hosted", model="vllm/m", body={"top_k": 5})
    directory = foreign_directory(tmp_path / "library", target=table)
    assert_refused(run(capsys, "ask", directory, QUESTION, flag), directory, "targets.main")
    directory = foreign_directory(tmp_path / "files", RECIPE.replace('corpus = "corpus', 'corpus = "/corpus'))
    result = run(capsys, "ask", directory, QUESTION, "--trust-targets", "--trust-code")
    assert_refused(result, directory, "sources.local.corpus")
    assert server.seen == []


@pytest.fixture
def own(tmp_path: Path, server: Recorded) -> Path:
    """What was compiled here, with a target at `server`."""
    table = target_table(kind="vllm", model="echo", base_url=server.url)
    return compiled_directory(tmp_path / "origin", tmp_path / "own", table)


def test_an_edited_directory_is_one_from_elsewhere(
    tmp_path: Path, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "ask", own, QUESTION)[0] == 0
    for name in trust_record.DIGESTED:
        edited = tmp_path / f"edited {name}"
        shutil.copytree(own, edited)
        assert run(capsys, "ask", edited, QUESTION)[0] == 0
        text = (edited / name).read_text()
        (edited / name).write_text(text.replace("\n", "\n ", 1) if name.endswith("json") else f"{text}\n")
        assert_refused(run(capsys, "ask", edited, QUESTION), edited, "targets.main.base_url")


def test_where_its_run_says_that_paths_lead_is_not_believed(
    tmp_path: Path, own: Path, capsys: pytest.CaptureFixture[str], server: Recorded
) -> None:
    outside = tmp_path / "outside"
    write_data(outside)
    (outside / "corpus.jsonl").write_text('{"id": "x", "title": "X", "text": "The mug is secret."}\n')
    for directory in (own, foreign_directory(tmp_path)):
        (directory / "run.json").write_text(json.dumps({"base": str(outside)}))
        url = f"targets.main={{kind='vllm', model='echo', base_url='{server.url}'}}"
        status, out, _ = run(capsys, "ask", directory, QUESTION, "--set", url)
        assert status == 0
        assert "is red" in out
        assert "secret" not in out


def test_what_was_read_is_what_runs_though_the_files_change(own: Path, server: Recorded) -> None:
    program = ragc.load(own)
    evil = target_table(kind="vllm", model="echo", base_url=server.url, api_key_env=VARIABLE)
    (own / "recipe.toml").write_text(RECIPE + evil)
    assert program(QUESTION).prediction == "red"
    assert SECRET not in str(server.seen)


def record_of(directory: Path) -> Path:
    """The one entry of the record for `directory`."""
    digest = load(directory).digest.removeprefix("sha256:")
    (entry,) = trust_record.record_folder().glob(f"{digest}-*.json")
    return entry


def pipe_at(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text(""),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: path.write_text(path.read_text().replace("sha256:", "sha256:0")),
        lambda path: path.write_text('{"format": "ragc.trusted/1", "path": 1, "base": []}'),
        lambda path: path.rename(path.with_name(f"{'0' * 64}-{path.name[-21:]}")),
        lambda path: path.chmod(0o666),
        lambda path: path.parent.chmod(0o777),
        lambda path: (path.rename(path.with_suffix(".kept")), path.symlink_to(path.with_suffix(".kept"))),
        pipe_at,
        lambda path: (path.unlink(), path.mkdir()),
    ],
)
def test_a_damaged_entry_is_none(
    damage: Callable[[Path], object], own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(record_of(own))
    assert_refused(run(capsys, "ask", own, QUESTION), own, "targets.main.base_url")


def test_a_directory_brings_no_record_along(
    tmp_path: Path, server: Recorded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = foreign_directory(tmp_path, target=target_table(kind="vllm", model="m", base_url=server.url))
    monkeypatch.setenv("RAGC_HOME", str(directory / "cache"))
    trust_record.remember(directory, load(directory).digest)
    assert_refused(run(capsys, "ask", directory, QUESTION), directory, "targets.main.base_url")
    status, _, err = run(capsys, "trust", directory, "--yes")
    assert status == 2
    assert "RAGC_HOME" in err


def test_a_record_beside_it_counts_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_table(kind="vllm", model="echo", base_url="http://127.0.0.1:9/v1")
    directory = foreign_directory(tmp_path / "theirs", target=target)
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "theirs" / ".ragc"))
    ragc.trust(directory)
    monkeypatch.chdir(tmp_path / "theirs")
    monkeypatch.setenv("RAGC_HOME", ".ragc")
    with pytest.raises(UsageError, match="RAGC_HOME must be an absolute path"):
        ragc.ask(directory, QUESTION)
    monkeypatch.delenv("RAGC_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", ".")
    (tmp_path / "theirs" / ".ragc").rename(tmp_path / "theirs" / "ragc")
    with pytest.raises(Untrusted):
        ragc.ask(directory, QUESTION)


def test_the_environment_may_name_one_digest(
    tmp_path: Path, server: Recorded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = foreign_directory(
        tmp_path, target=target_table(kind="vllm", model="echo", base_url=server.url)
    )
    monkeypatch.setenv("RAGC_TRUST", load(directory).digest)
    assert run(capsys, "ask", directory, QUESTION)[0] == 0
    monkeypatch.setenv("RAGC_TRUST", f"sha256:{'0' * 64}")
    assert_refused(run(capsys, "ask", directory, QUESTION), directory)
    monkeypatch.setenv("RAGC_TRUST", "yes")
    status, _, err = run(capsys, "ask", directory, QUESTION)
    assert status == 2
    assert "RAGC_TRUST must be one digest" in err


REVIEWED_SOURCE_OPTIONS = {
    "dense": {"model"},
    "hybrid": {"dense.model"},
    "api": {"base_url"},
}
"""The options of a kind, beside `rerank`, that do more than set sizes, times and numbers."""

REVIEWED_TARGET_OPTIONS = {
    "embedded": {"price"},
    "vllm": {
        *("price", "api_key_env", "identity", "body"),
        *("serve", "python", "flags", "headers", "query"),
    },
    "hosted": {
        *("price", "api_key_env", "identity", "body"),
        *("headers", "query"),
    },
}


def every_option(model: type[Table]) -> dict[str, Any]:
    """All options of `model`, those of its parts in tables."""
    parts = {name: field.annotation for name, field in model.model_fields.items()}
    return {
        name: every_option(part) if isinstance(part, type) and issubclass(part, Table) else "x"
        for name, part in parts.items()
    }


def reviewed(model: type[Table]) -> set[str]:
    """The options of `model` that are not marked as harmless. Every option has a mark."""
    marks = {".".join(map(str, keys)): mark for keys, _, mark in marked(model, every_option(model))}
    assert None not in marks.values(), marks
    return {name for name, mark in marks.items() if mark is not HARMLESS}


@pytest.mark.parametrize("kind", [*TARGET_KINDS])
def test_every_option_of_a_target_is_classified(kind: str) -> None:
    assert reviewed(TARGET_KINDS.get(kind).options) == REVIEWED_TARGET_OPTIONS[kind]


@pytest.mark.parametrize("kind", [*SOURCES])
def test_every_option_of_a_source_is_classified(kind: str) -> None:
    assert reviewed(SOURCES.get(kind).options) == {"rerank"} | REVIEWED_SOURCE_OPTIONS.get(kind, set())
