"""`ragc trust`: what is shown, who may say yes, and what the record holds afterwards."""

from __future__ import annotations

import json
import os
import pty
from pathlib import Path

import pytest

import ragc
from ragc.cli.main import main
from ragc.compiled import trust_record
from ragc.compiled.base import load
from ragc.errors import ArtefactError, RecipeError
from tests import processes
from tests.optimizers.colours import begun, written
from tests.security.foreign import (
    QUESTION,
    RECIPE,
    SECRET,
    VARIABLE,
    foreign_directory,
    target_table,
)

DOES = target_table(
    fallbacks=["judge"],
    kind="vllm",
    model="m",
    serve=True,
    api_key_env=VARIABLE,
    flags={"enforce-eager": True},
) + target_table(kind="hosted", model="openai/gpt-4o-mini").replace("targets.main", "targets.judge")
READS = RECIPE.replace('questions = "questions', 'questions = "/elsewhere/questions')


@pytest.fixture(autouse=True)
def _own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "machine"))
    monkeypatch.delenv("RAGC_TRUST", raising=False)


def test_it_shows_what_the_directory_runs_reads_and_speaks_to_before_it_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = foreign_directory(tmp_path, READS, DOES)
    for words in (("trust", str(directory)), ("trust", str(directory), "--json")):
        capsys.readouterr()
        assert main([*words]) == 2
        out, err = capsys.readouterr()
        for text in (
            "targets.main.options.serve = True",
            "enforce-eager",
            f"data.questions = '/elsewhere/questions.jsonl': questions, OUTSIDE of {directory}",
            "sources.local.corpus = 'corpus.jsonl': passages, inside",
            f"targets.main.options.api_key_env = '{VARIABLE}'",
            "targets.judge.model = 'openai/gpt-4o-mini': asks this model by LiteLLM, with the key",
            load(directory).digest,
        ):
            assert text in out
        assert "--yes" in err
        assert not trust_record.is_trusted(load(directory).digest)
    assert json.loads(out)["trusted"] is False


@pytest.mark.parametrize(("reply", "status"), [("y", 0), ("n", 1), ("", 1), ("x", 1)])
def test_on_a_terminal_it_asks(reply: str, status: int, tmp_path: Path) -> None:
    directory = foreign_directory(tmp_path)
    ours, theirs = pty.openpty()
    process = processes.start(
        ["-m", "ragc", "trust", str(directory)], cwd=tmp_path, environment=os.environ, stdin=theirs
    )
    os.write(ours, f"{reply}\n".encode())
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == status
    assert out.index("It would speak to") < out.index("[y/N]")
    assert trust_record.is_trusted(load(directory).digest) == (status == 0)


def test_what_it_prints_moves_no_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = '[targets.main]\nkind = "hosted"\nmodel = "m\\u001b[2J"\n'
    table += '[sources."\\u001b[2Jx"]\nkind = "recorded"\ncorpus = "\\u009b2J/../../x"\n'
    directory = foreign_directory(tmp_path, target=table)
    for words in (["trust", str(directory)], ["ask", str(directory), QUESTION]):
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert "2J/../../x" in out + err
        assert "\x1b" not in out + err
        assert "\x9b" not in out + err


def test_no_line_of_it_is_the_directorys_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = target_table(kind="vllm", model="m", base_url="https://\u0430pi.openai.com/v1")
    directory = foreign_directory(tmp_path, target=target).rename(
        tmp_path / "a\nIt would run nothing at all."
    )
    state = json.loads((directory / "program.json").read_text())
    state["method"] = "vanilla\nIt would speak to nothing."
    (directory / "program.json").write_text(json.dumps(state))
    assert main(["trust", str(directory)]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert "It would speak to nothing." not in lines
    assert "It would run nothing at all." not in [line.partition(":")[0] for line in lines]
    assert any(r"https://\u0430pi.openai.com" in line for line in lines)


def test_nothing_hides_behind_a_long_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = {**{f"a-{number}": "x" * 200 for number in range(9)}, "z-last": "here"}
    directory = foreign_directory(
        tmp_path, target=target_table(kind="vllm", model="m", serve=True, flags=flags)
    )
    assert main(["trust", str(directory)]) == 2
    assert "'z-last': 'here'" in capsys.readouterr().out


def test_compiled_programs_and_the_best_of_a_study_are_this_machines(tmp_path: Path) -> None:
    from ragc.optimizers.search.storage import study_directory

    written(tmp_path)
    path = begun(tmp_path)("out", sets=("search.trials=1",)).path
    best = study_directory(path) / "best"
    for folder in (path, best, Path(best.resolve())):
        assert trust_record.is_trusted(load(folder).digest, folder)
        assert trust_record.base_of(load(folder).digest, folder) == tmp_path.resolve()


def test_a_study_from_elsewhere_speaks_to_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = RECIPE + '[targets.main]\nkind = "embedded"\n[study]\nstorage = "postgresql://127.0.0.1:9/x"\n'
    (tmp_path / "recipe.toml").write_text(text)
    assert main(["study", "status", str(tmp_path)]) == 2
    assert "--trust-targets" in capsys.readouterr().err


STUDY = RECIPE + '[targets.main]\nkind = "embedded"\n'


@pytest.mark.parametrize(
    "name", ["study.log", "recipe.toml", "study.json", "study.journal", "charges.sqlite3", "at-work"]
)
def test_a_study_from_elsewhere_shows_no_file_that_it_links_to(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study"
    study.mkdir()
    (study / "recipe.toml").write_text(STUDY)
    (tmp_path / "private").write_text(STUDY if name == "recipe.toml" else SECRET)
    (study / name).unlink(missing_ok=True)
    (study / name).symlink_to(tmp_path / "private")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    assert main(["study", "status", str(study)]) == 2
    out, err = capsys.readouterr()
    assert SECRET not in out + err
    assert f"{study / name} is a link that leads out of the study" in err
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_check_of_an_export_shows_no_file_that_it_links_to(tmp_path: Path) -> None:
    directory, out = foreign_directory(tmp_path), tmp_path / "exported"
    ragc.export(directory, "all", out)
    (tmp_path / "private").write_text(SECRET)
    first = min(path for path in out.rglob("*.json") if path.name != "graph.json")
    first.unlink()
    first.symlink_to(tmp_path / "private")
    with pytest.raises(ArtefactError, match="is reached by a link") as error:
        ragc.check_export(directory, out)
    assert SECRET not in str(error.value)


def test_its_own_files_are_regular_and_its_own(tmp_path: Path) -> None:
    directory = foreign_directory(tmp_path)
    elsewhere = tmp_path / "kept.toml"
    (directory / "recipe.toml").rename(elsewhere)
    (directory / "recipe.toml").symlink_to(elsewhere)
    with pytest.raises(ArtefactError, match="leads out of"):
        ragc.load(directory)
    (directory / "recipe.toml").unlink()
    os.mkfifo(directory / "recipe.toml")
    with pytest.raises(ArtefactError, match="it is no regular file"):
        ragc.load(directory)


def test_one_bad_key_hides_nothing_of_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = target_table(kind="vllm", model="m", base_url="http://127.0.0.1:9/v1", nonsense=1, serve=True)
    directory = foreign_directory(tmp_path, READS.replace("dev = 2", 'dev = 2\nstrange = "x"'), bad)
    assert main(["trust", str(directory), "--yes"]) == 2
    out, err = capsys.readouterr()
    for text in (
        "targets.main.options.serve = True",
        "targets.main.base_url = 'http://127.0.0.1:9/v1'",
        "data.questions = '/elsewhere/questions.jsonl'",
        "keys that cannot be read, so it cannot be opened as it is:",
        "nonsense",
        "strange",
    ):
        assert text in out
    assert "nonsense" in err
    assert not ragc.trust_listing(directory).trusted
    assert main(["trust", str(directory), "--json", "--yes"]) == 2
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 3
    with pytest.raises(RecipeError, match="nonsense"):
        ragc.trust(directory)
