"""Writes a report: the page, and beside it the JSONL with its figures."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragc.core.display import describe, quantity
from ragc.core.files import (
    check_writable,
    open_regular,
    put_file,
    replacing_file,
    resolve_out,
)
from ragc.errors import UsageError
from ragc.reports import build, page

MARK = b"<!doctype html>"
"""What a page begins with; a file that begins otherwise is not replaced."""

_ROWS_MARK = b'{"row": "report"'


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A written report: its verdict, the `page`, the `rows` beside it, and sizes in bytes.

    `questions` counts all, `indexed` those in the table of the page and `detailed` those with their traces in
    it. `cut` is the number of characters up to which traces have texts; None if they are uncut.
    """

    page: Path
    rows: Path
    headline: str
    questions: int
    bytes: int
    gaps: tuple[str, ...] = ()
    cut: int | None = None
    indexed: int = 0
    detailed: int = 0

    def __repr__(self) -> str:
        return describe("WrittenReport", repr(str(self.page)), self.headline, questions=self.questions)

    def text(self) -> list[str]:
        """Returns the report for people: the verdict, what is missing, and the path of the page."""
        size = f"{self.bytes / 1e6:.1f} MB, {quantity(self.questions, 'question')}"
        return [f"{self.headline}.", *self.gaps, f"Report: {self.page} ({size})", f"Its rows: {self.rows}"]

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc report --json`."""
        return {**asdict(self), "page": str(self.page), "rows": str(self.rows), "gaps": list(self.gaps)}


def write(paths: Sequence[str | Path], out: str | Path, *, trust_targets: bool = False) -> WrittenReport:
    """Writes the report on `paths` to the file `out`, and its rows beside it with the suffix `.jsonl`.

    Reports of an earlier run are replaced, other files never. Raises UsageError, and what `build` raises.
    """
    target = _checked(Path(out), MARK)
    rows = _checked(target.with_suffix(".jsonl"), _ROWS_MARK)
    for path in paths:
        if Path(os.path.realpath(path)) in (target, rows):
            raise UsageError(
                f"{path} is what the report is about, and would be replaced; choose another --out."
            )
    report = build.build(paths, trust_targets=trust_targets)
    with replacing_file(rows) as file:
        rendered = page.render(
            report, rows_file=rows.name, put=lambda line: file.write(line.encode("ascii") + b"\n")
        )
        content = rendered.html.encode("utf-8")
        put_file(target, content)
    return WrittenReport(
        target,
        rows,
        report.verdict.headline,
        len(report.questions),
        len(content),
        (*report.gaps, *report.search_gaps),
        rendered.cut,
        rendered.indexed,
        rendered.detailed,
    )


def _checked(out: Path, mark: bytes) -> Path:
    """Returns `out`, resolved. Raises UsageError unless it is writable, with at most an earlier report."""
    path = resolve_out(out)
    if path.suffix == ".jsonl" and mark == MARK:
        raise UsageError(f"--out {out} is the page; name it .html, and the rows stand beside it as .jsonl.")
    if os.path.lexists(path) and not _begins_with(path, mark):
        raise UsageError(f"{path} exists and is no report of ragc's; choose another --out or move it away.")
    check_writable(path)
    return path


def _begins_with(path: Path, mark: bytes) -> bool:
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    with open_regular(path) as file:
        return file.read(len(mark)) in (mark, b"")
