"""`ragc new`: from a folder of documents to a corpus and a recipe that runs."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.cli.main import main
from ragc.core.files import cache_home, sha256
from ragc.testing import ScriptedTarget
from tests import processes
from tests.security.command_line import environment
from tests.support.rows import read_rows

pytest.importorskip("docx", reason="the extra documents is not installed")


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    folder = tmp_path / "docs"
    (folder / "hr").mkdir(parents=True)
    (folder / "hr/leave.md").write_text("# Leave\n\nThirty days of leave.\n\n## Sick leave\n\nTell us.\n")
    (folder / "prices.csv").write_text("item,price\nTea,3.50\nCoffee,2.80\n")
    (folder / "note.txt").write_text("The office opens at nine.\n")
    (folder / "empty.md").write_text("")
    (folder / "photo.png").write_bytes(b"\x89PNG\r\n")
    (folder / ".hidden.md").write_text("nobody reads this")
    (tmp_path / "outside.txt").write_text("a secret outside")
    (folder / "out.txt").symlink_to(tmp_path / "outside.txt")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/more.md").write_text("a secret elsewhere")
    (folder / "more").symlink_to(tmp_path / "elsewhere")
    return folder


def rows(folder: Path) -> list[dict[str, Any]]:
    return read_rows(folder / "corpus.jsonl")


def parts() -> set[Path]:
    """The text of documents as the cache holds it."""
    return set(cache_home().glob("documents/*/parts/*.json"))


def questions(path: Path, n: int = 24) -> Path:
    path.write_text("Question;Answer\n" + "".join(f"When does office {k} open?;at {k}\n" for k in range(n)))
    return path


def test_a_folder_becomes_a_corpus_and_what_was_not_read_is_told(
    docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "docs", "--no-questions"]) == 0
    out, err = capsys.readouterr()
    assert [row["id"] for row in rows(Path("docs-ragc"))] == ["hr/leave.md", "note.txt", "prices.csv"]
    assert rows(Path("docs-ragc"))[0]["title"] == "Leave"
    assert err.splitlines()[-4:] == [
        "ragc: not read: more is a link that leads out of the folder; it was not followed.",
        "ragc: not read: out.txt is a link that leads out of the folder; it was not followed.",
        "ragc: not read: empty.md is empty.",
        "ragc: not read: photo.png is of a kind that is not read (.png).",
    ]
    assert out.splitlines()[0] == "Read 3 files, 3 of them in this run; 3 passages in docs-ragc/corpus.jsonl."
    assert "secret" not in (Path("docs-ragc") / "corpus.jsonl").read_text("utf-8")


def test_a_folder_that_cannot_be_listed_is_told(docs: Path) -> None:
    (docs / "hr").chmod(0)
    ended = processes.run(
        ["-m", "ragc", "new", "docs", "--no-questions"],
        cwd=docs.parent,
        environment=environment(docs.parent),
        timeout=120,
        unprivileged=True,
    )
    (docs / "hr").chmod(0o755)
    note = "not read: hr is a folder that cannot be listed (Permission denied); its files are not read."
    assert (ended.returncode, note in ended.stderr) == (0, True)


def test_the_passages_that_a_program_cites_name_their_file(docs: Path) -> None:
    project = ragc.new("docs", questions=False)
    local = ragc.source("bm25", corpus=project.folder / "corpus.jsonl", chunk_by="sections")
    main_target = ScriptedTarget(lambda request: {"answer": "Thirty days [1]."})
    reply = ragc.program("vanilla", main=main_target, local=local)(question="How many days of leave?")
    assert (reply.passages[0].id, reply.passages[0].title) == ("hr/leave.md", "Leave")
    assert ragc.recipe.load(project.folder / "recipe.toml").program == "vanilla"


def test_only_what_changed_is_read_again_and_what_went_is_forgotten(docs: Path) -> None:
    assert ragc.new("docs", questions=False).reread == 3
    written = Path("docs-ragc/corpus.jsonl").stat().st_mtime_ns
    assert ragc.new("docs", questions=False).reread == 0
    assert Path("docs-ragc/corpus.jsonl").stat().st_mtime_ns == written  # so that its index stays
    (docs / "note.txt").write_text("The office opens at ten.\n")
    (docs / "prices.csv").unlink()
    again = ragc.new("docs", questions=False)
    assert (again.files, again.reread, again.passages) == (2, 1, 2)
    assert "at ten" in rows(again.folder)[1]["text"]
    assert len(parts()) == 2
    assert {path.name for path in again.folder.iterdir()} == {"corpus.jsonl", "recipe.toml"}


def test_a_recipe_that_a_person_changed_stays(docs: Path) -> None:
    recipe = Path("docs-ragc/recipe.toml")
    assert ragc.new("docs", questions=False).wrote_recipe
    assert ragc.new("docs", questions=questions(Path("q.csv"))).wrote_recipe  # as nobody had changed it
    assert "questions" in recipe.read_text("utf-8")
    recipe.write_text(recipe.read_text("utf-8") + "# mine\n")
    assert not ragc.new("docs", questions=False).wrote_recipe
    assert recipe.read_text("utf-8").endswith("# mine\n")


def test_a_run_without_arguments_keeps_the_questions_and_targets_of_the_one_before(
    docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = ["--set", "targets.main.kind=hosted", "--set", "targets.main.model=openai/ours"]
    assert main(["new", "docs", "--questions", str(questions(Path("q.csv"))), *targets]) == 0
    first = Path("docs-ragc/recipe.toml").read_bytes()
    (docs / "note.txt").write_text("The office opens at ten.\n")
    assert main(["new", "docs", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "No questions would be written, and nothing sent."
    assert main(["new", "docs"]) == 0
    out = capsys.readouterr().out
    assert f"The questions are those of {Path('q.csv').resolve()}, as before" in out
    assert out.splitlines()[-1] == "Next: ragc compile docs-ragc/recipe.toml"
    assert Path("docs-ragc/recipe.toml").read_bytes() == first
    assert main(["new", "docs", "--no-questions"]) == 0
    assert "[data]" not in Path("docs-ragc/recipe.toml").read_text("utf-8")


@pytest.mark.parametrize(
    ("n", "splits", "planned"),
    [
        (60, (12, 18, 30), {"train": 12, "dev": 18, "test": 30}),
        (40, (None, None, None), {"train": 16, "dev": 24}),
    ],
)
def test_questions_become_splits_or_are_left_to_cross_validation(
    docs: Path, n: int, splits: tuple[int | None, ...], planned: dict[str, int]
) -> None:
    project = ragc.new("docs", questions=questions(Path("q.csv"), n))
    data = ragc.recipe.load(project.folder / "recipe.toml").data
    assert (project.questions, data.train, data.dev, data.test) == (n, *splits)
    assert ragc.compile(project.folder / "recipe.toml", dry_run=True)["data"] == planned


def test_documents_of_langchain_and_llamaindex_keep_their_source_and_page(docs: Path) -> None:
    langchain = pytest.importorskip("langchain_core.documents", reason="make exports installs it")
    llama = pytest.importorskip("llama_index.core", reason="make exports installs it")
    documents = [
        langchain.Document(
            page_content="Leave is thirty days.", metadata={"source": "hr/leave.pdf", "page": 0}
        ),
        langchain.Document(page_content="Ask early.", metadata={"source": "hr/leave.pdf", "page": 1}),
        llama.Document(text="Tea is free.", metadata={"file_name": "tea.docx", "page_label": "iv"}),
        llama.Document(text="Nobody knows whence."),
    ]
    project = ragc.new(documents=documents, out="made", questions=False)
    assert [row["id"] for row in rows(project.folder)] == [
        "hr/leave.pdf, page 1",
        "hr/leave.pdf, page 2",
        "tea.docx, page iv",
        "document 4",
    ]
    with pytest.raises(ragc.UsageError, match="Document 1 is a dict without text"):
        ragc.new(documents=[{"text": "no"}], out="made")
    with pytest.raises(ragc.UsageError, match="not both"):
        ragc.new("docs", documents=documents)
    assert len(rows(project.folder)) == 4


def test_a_corpus_stays_when_nothing_can_be_read_any_more(docs: Path) -> None:
    before = rows(ragc.new("docs", questions=False).folder)
    for path in docs.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.write_text("")
    with pytest.raises(ragc.UsageError, match="Nothing in 'docs' could be read"):
        ragc.new("docs", questions=False)
    assert rows(Path("docs-ragc")) == before


def test_a_killed_run_goes_on_with_the_next_file(docs: Path) -> None:
    for number in range(40):
        (docs / f"page {number:02d}.html").write_text(f"<h1>Page {number}</h1><p>The {number}th page.</p>")
    whole = ragc.new("docs", out="whole", questions=False)
    earlier = parts()
    command = [sys.executable, "-m", "ragc", "new", "docs", "--out", "killed", "--no-questions"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and len(parts() - earlier) < 10:
            time.sleep(0.005)
        process.kill()
    read = {path: path.stat().st_mtime_ns for path in parts() - earlier}
    assert read  # else the kill came too late or too early for what is tested
    again = ragc.new("docs", out="killed", questions=False)
    assert again.reread <= whole.files - len(read) + 2  # files without a reader have a part, too
    assert {path: path.stat().st_mtime_ns for path in read} == read
    assert (again.folder / "corpus.jsonl").read_bytes() == (whole.folder / "corpus.jsonl").read_bytes()


def test_a_recipe_that_came_with_the_folder_is_not_believed(
    docs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(docs.parent))
    Path("planted.py").write_text("raise SystemExit(7)")
    Path("docs-ragc/.ragc").mkdir(parents=True)
    recipe = Path("docs-ragc/recipe.toml")
    recipe.write_text('program = "planted:Program"\n[targets.main]\nkind = "planted:target"\n')
    Path("docs-ragc/.ragc/recipe.digest").write_text(sha256(recipe.read_bytes()))
    for arguments in (["--dry-run"], [], ["--no-questions"]):
        assert main(["new", "docs", *arguments]) == 2
        assert "docs-ragc/recipe.toml was found" in capsys.readouterr().err
    assert sorted(path.name for path in Path("docs-ragc").iterdir()) == [".ragc", "recipe.toml"]
    assert not ragc.new("docs", out="docs-ragc", questions=False).wrote_recipe  # whoever names it owns it


def test_a_planted_link_is_not_followed(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine").mkdir()
    Path("mine/notes.json").write_text("{}")
    Path("docs-ragc/.ragc").mkdir(parents=True)
    Path("docs-ragc/.ragc/parts").symlink_to(Path("mine").absolute())
    ragc.new("docs", questions=False)
    assert [path.name for path in Path("mine").iterdir()] == ["notes.json"]
    Path("docs-link").symlink_to(Path("mine").absolute())
    Path("docs").rename("docs-link-docs")
    Path("docs-link-docs-ragc").symlink_to(Path("mine").absolute())
    assert main(["new", "docs-link-docs", "--no-questions"]) == 2
    assert "docs-link-docs-ragc is a link" in capsys.readouterr().err
    assert [path.name for path in Path("mine").iterdir()] == ["notes.json"]


def test_a_full_disk_ends_the_run_and_leaves_the_corpus(
    docs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = rows(ragc.new("docs", questions=False).folder)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (docs / "note.txt").write_text("The office opens at ten.\n")
    monkeypatch.setattr("ragc.corpora.documents.folder.put_file", full)
    assert main(["new", "docs", "--no-questions"]) not in (0, None)
    assert "No space left" in capsys.readouterr().err
    assert rows(Path("docs-ragc")) == before
