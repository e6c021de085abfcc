"""Writing and checking: nothing is overwritten, every change of an export is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragc.errors import ArtefactError, UnknownName, UsageError
from ragc.exports.derive import derive_export
from ragc.exports.write import FORMATS, check, export, format_of
from ragc.programs import method
from tests.exports.common import build_program

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
