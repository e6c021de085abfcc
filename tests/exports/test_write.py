"""Writing, checking, loading: nothing is overwritten, changes are found, the lines that are printed run."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ragc.cli.main import main
from ragc.compiled import opened
from ragc.compiled.resolve import Opening
from ragc.errors import ArtefactError, UnknownName, UsageError
from ragc.exports.derive import derive_export
from ragc.exports.examples import open_for_export
from ragc.exports.formats.base import HINT
from ragc.exports.write import FORMATS, check, export, format_of, refuse_for
from ragc.programs import method
from ragc.prompts.model import Case
from ragc.prompts.render import render
from ragc.store.calls import CallStore
from ragc.testing import ScriptedTarget
from tests.exports.common import build_program, consumer
from tests.exports.formats.readers import LANGCHAIN_ROLES, QUIET, mlflow_registry, of_haystack
from tests.optimizers.colours import begun, needs_demos, written

VANILLA, CRAG = build_program(method("vanilla")), build_program(method("crag"))


def files(folder: Path) -> dict[str, bytes]:
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.parametrize("format", ["jinja2", "openai-json"])
def test_one_call_is_one_file_and_several_are_a_folder(format: str, tmp_path: Path) -> None:
    suffix = format_of(format).suffix
    for name in (f"one{suffix}", "other.json"):
        export(VANILLA, format, tmp_path / name)
        assert check(VANILLA, tmp_path / name) == format
    export(CRAG, format, tmp_path / "several")
    names = {f"{prompt.name}{suffix}" for prompt in derive_export(CRAG)}
    assert set(files(tmp_path / "several")) == {"graph.json", "README.md", *names}
    assert check(CRAG, tmp_path / "several") == format


def test_nothing_is_overwritten_without_force_and_only_exports_with_it(tmp_path: Path) -> None:
    out, foreign = tmp_path / "out", tmp_path / "foreign"
    export(CRAG, "jinja2", out)
    with pytest.raises(UsageError, match="exists; choose another --out"):
        export(CRAG, "openai-json", out)
    export(CRAG, "openai-json", out, force=True)
    assert check(CRAG, out) == "openai-json"
    foreign.mkdir()
    (foreign / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="is no export, so it is not replaced"):
        export(CRAG, "jinja2", foreign, force=True)


def test_a_changed_export_fails_with_the_first_difference(tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(CRAG, "jinja2", out)
    for name, data in sorted(files(out).items()):
        (out / name).write_bytes(data + (b" " if name == "graph.json" else b"more\n"))
        line = data.count(b"\n") + 1
        with pytest.raises(ArtefactError, match=rf"{name}, line {line}: found .* gives the end of the file"):
            check(CRAG, out)
        (out / name).write_bytes(data)
    (out / "extra.txt").write_text("")
    with pytest.raises(ArtefactError, match=r"extra\.txt: this file is not part of the export"):
        check(CRAG, out)
    (out / "extra.txt").unlink()
    (out / "README.md").unlink()
    with pytest.raises(ArtefactError, match=r"README\.md: this file of the export is missing"):
        check(CRAG, out)


def test_another_program_fails_the_check_whatever_the_file_is_called(tmp_path: Path) -> None:
    for name in ("a.jinja.json", "a.json"):
        export(VANILLA, "jinja2", tmp_path / name)
        with pytest.raises(ArtefactError, match=r"line 3: found .* and the compiled program gives"):
            check(build_program(method("vanilla"), temperature=0.5), tmp_path / name)


def test_all_formats_go_into_one_folder_and_are_checked_together(tmp_path: Path) -> None:
    out = tmp_path / "all"
    report = export(VANILLA, "all", out)
    assert {*report.written} == {*FORMATS} - {"openai-batch"}
    assert all(path.exists() for path in report.written.values())
    assert check(VANILLA, out) == ", ".join(report.written)
    (out / "jinja2.jinja.json").write_text("")
    with pytest.raises(ArtefactError, match=r"jinja2\.jinja\.json, line 1: found the end of the file"):
        check(VANILLA, out)


def test_what_is_no_export_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Buy milk.\n")
    for path in (tmp_path / "notes.txt", tmp_path, tmp_path / "absent"):
        with pytest.raises(ArtefactError, match="no export"):
            check(VANILLA, path)
    for unknown, near in (("jinja", "jinja2"), ("prompty-v1", "prompty")):
        with pytest.raises(
            UnknownName, match=f"No export format is named '{unknown}'. Did you mean '{near}'"
        ):
            export(VANILLA, unknown, tmp_path / "x")


pytestmark = QUIET
CASE = Case("q1", "answer", {"question": "Who?", "passages": ["p"]}, ("A",))
NEEDS = {
    "dotprompt": "dotpromptz",
    "haystack": "haystack",
    "langchain": "langchain_core",
    "llamaindex": "llama_index.core",
    "mlflow": "mlflow",
    "prompty": "prompty",
}
READ: dict[str, Any] = {
    "dotprompt": lambda ms: [(m.role.value.replace("model", "assistant"), m.content[0].text) for m in ms],
    "haystack": of_haystack,
    "jinja2": lambda ms: [(m["role"], m["content"]) for m in ms],
    "langchain": lambda ms: [(LANGCHAIN_ROLES[m.type], m.content) for m in ms],
    "llamaindex": lambda ms: [(m.role.value, m.content) for m in ms],
    "mlflow": lambda ms: [(m["role"], m["content"]) for m in ms],
    "prompty": lambda ms: [(m.role, m.text) for m in ms],
}


def run_lines(lines: tuple[str, ...]) -> dict[str, Any]:
    """The names that the `lines` of Python leave."""
    names: dict[str, Any] = {}
    exec("\n".join(line for line in lines if not line.startswith("$ ")), names)
    return names


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("id", READ)
def test_the_lines_run_and_give_what_is_sent(id: str, several: bool, tmp_path: Path) -> None:
    if id in NEEDS:
        consumer(NEEDS[id])
    program = derive_export(build_program(method("crag" if several else "vanilla"), layout="minimal"))
    name = "it's a folder" if several else f"it's{format_of(id).suffix}"
    report = export(program, id, tmp_path / name)
    with mlflow_registry(tmp_path) if id == "mlflow" else pytest.MonkeyPatch.context():
        names = run_lines(report.loading[id])
    prompt = program.prompts[0]
    expected = [(m.role, m.content) for m in render(prompt, prompt.placeholders())]
    assert READ[id](names["messages"]) == expected


def test_the_python_file_is_imported_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    program = derive_export(VANILLA)
    report = export(program, "python", tmp_path / "my-prompts.py")
    body = run_lines(report.loading["python"])["body"]
    assert [m["content"] for m in body["messages"]] == [
        m.content for m in render(program.prompts[0], program.prompts[0].placeholders())
    ]
    run_lines(export(CRAG, "python", tmp_path / "several").loading["python"])
    assert check(CRAG, tmp_path / "several") == "python"


def test_baml_is_called_by_the_function_that_is_generated_and_checked_after_that(tmp_path: Path) -> None:
    consumer("baml_py")
    report = export(VANILLA, "baml", tmp_path / "out")
    inputs, command, *python = report.loading["baml"]
    program = Path(sys.executable).with_name("baml-cli")
    process = subprocess.run(
        [program, *command.split()[2:]], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    stub = (tmp_path / "out" / "baml_client" / "sync_client.py").read_text("utf-8")
    assert "def Answer(self, question: str,passages: typing.List[str]," in stub
    assert inputs == "inputs = {'question': '...', 'passages': ['...']}"
    assert python == ["from baml_client import b", "reply = b.Answer(**inputs)"]
    assert check(VANILLA, tmp_path / "out") == "baml"
    (tmp_path / "out" / "baml_src" / "mine.baml").write_text("")
    with pytest.raises(ArtefactError, match=r"mine\.baml: this file is not part of the export"):
        check(VANILLA, tmp_path / "out")


@pytest.mark.parametrize("id", [*FORMATS])
def test_every_readme_says_it_and_every_export_of_all(id: str, tmp_path: Path) -> None:
    cases = [Case(f"q-{p.name}", p.name, p.placeholders()) for p in derive_export(CRAG)]
    program = derive_export(CRAG, cases=cases)
    export(program, id, tmp_path / "one")
    readme = (tmp_path / "one" / "README.md").read_text("utf-8")
    assert "## Loading" in readme
    assert str(tmp_path) not in readme
    assert "A passage is its title, a line break and its text, or its text alone." in readme
    assert ("Inputs are inserted as they are." in readme) != format_of(id).escapes
    export(program, "all", tmp_path / "all")
    assert f"## {id}\n" in (tmp_path / "all" / "README.md").read_text("utf-8")
    assert check(program, tmp_path / "all")


@pytest.mark.parametrize("id", [id for id in FORMATS if not format_of(id).escapes])
def test_every_export_of_one_call_says_what_becomes_of_markers_in_inputs(id: str) -> None:
    files = format_of(id).files(derive_export(VANILLA))
    assert any(b"Inputs are inserted as they are." in content for content in files.values())


def test_a_batch_of_one_call_is_a_file_where_it_is_named_like_one(tmp_path: Path) -> None:
    program = derive_export(VANILLA, cases=[CASE])
    for name in ("batch", "batch.jsonl", "x.batch.jsonl"):
        export(program, "openai-batch", tmp_path / name)
        assert check(program, tmp_path / name) == "openai-batch"
    assert (tmp_path / "batch.jsonl").read_bytes() == (tmp_path / "batch" / "answer.batch.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("id", "format", "name"),
    [
        ("crag", "openai-batch", "batch.jsonl"),
        ("crag", "jinja2", "a.jinja.json"),
        ("crag", "python", "a.PY"),
        ("vanilla", "promptfoo", "promptfooconfig.yaml"),
        ("vanilla", "baml", "a.baml"),
        ("vanilla", "all", "all.json"),
    ],
)
def test_a_folder_is_not_named_like_a_file(id: str, format: str, name: str, tmp_path: Path) -> None:
    program = derive_export(build_program(method(id)), cases=[CASE] if id == "vanilla" else [])
    with pytest.raises(UsageError, match=f"is a folder, and --out .*{name} is the name of a file; name a"):
        export(program, format, tmp_path / name)
    assert not any(tmp_path.iterdir())


def test_a_file_that_is_imported_needs_its_suffix(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not end in \.py; name it .*answer\.py\."):
        export(VANILLA, "python", tmp_path / "answer")
    assert not any(tmp_path.iterdir())
    export(CRAG, "python", tmp_path / "several")


@pytest.mark.parametrize(
    "format", [id for id in FORMATS if not (format_of(id).folder or format_of(id).cases)]
)
def test_questions_are_refused_before_they_are_asked_where_they_have_no_place(
    format: str, tmp_path: Path
) -> None:
    program = derive_export(VANILLA)
    with pytest.raises(UsageError, match=r"has no place for them; .* openai-batch, promptfoo"):
        refuse_for(program, format, tmp_path / f"one{format_of(format).suffix}", questions=2)
    refuse_for(derive_export(CRAG), format, tmp_path / "several", questions=2)
    refuse_for(program, "all", tmp_path / "every", questions=2)


def test_the_command_line_prints_it_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    begun(written(tmp_path))("out")
    assert main(["export", "out", "--to", "langchain", "--out", "mine.langchain.json"]) == 0
    output = capsys.readouterr().out
    assert "    text = pathlib.Path('mine.langchain.json').read_text('utf-8')\n" in output
    assert "allowed_objects='core', init_validator=None" in output
    assert HINT not in output
    assert main(["export", "out", "--to", "promptfoo", "--out", "mine"]) == 0
    output = capsys.readouterr().out
    assert "    $ cd mine/answer\n" in output
    assert HINT in output
    assert main(["export", "out", "--to", "openai-batch", "--out", "batch.jsonl"]) == 2
    assert "add --questions N for N dev questions" in capsys.readouterr().err
    assert main(["export", "out", "--to", "all", "--out", "every"]) == 0
    assert "How each is loaded: every/README.md\n" in capsys.readouterr().out


def test_dev_questions_go_along_as_cases_and_a_worked_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(written(tmp_path))("out")
    parts: Any = {"targets": {"main": ScriptedTarget(needs_demos)}, "store": CallStore(tmp_path / "store")}
    monkeypatch.setattr(opened, "open_compiled", partial(opened.open_compiled, **parts))
    program = open_for_export(tmp_path / "out", questions=3, how=Opening())
    assert [case.prompt for case in program.cases] == ["answer"] * 3
    assert program.example is not None
    assert [event["call"] for event in program.example["events"] if "messages" in event] == ["answer"]
    export(program, "all", tmp_path / "all")
    assert len((tmp_path / "all" / "openai-batch" / "answer.batch.jsonl").read_bytes().splitlines()) == 3
    assert check(replace(program, example=None), tmp_path / "all"), "the example is that of the export"
    with pytest.raises(UsageError, match=r"999 dev questions were asked for, and the data of .* has 20"):
        open_for_export(tmp_path / "out", questions=999, how=Opening())
