"""The files of training data: rows, one JSON object a line, and their card beside them.

    FILE.jsonl   the rows
    FILE.md      the card; its last line has the digests of both, so that only ragc's own files are replaced

The card is written first, with the digest of the existing rows, then the rows, then the card again. So files
of a process that was killed in between are recognized too.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragc.core.files import (
    Foreign,
    check_writable,
    open_regular,
    put_file,
    read_text,
    resolve_out,
    sha256,
)
from ragc.core.text import json_text
from ragc.errors import UsageError

_SEAL = re.compile(
    r"\n<!-- ragc\.training-data/1 rows=([0-9a-f]{64}) was=([0-9a-f]{64}|-) card=([0-9a-f]{64}) -->\n\Z"
)


class DataFiles:
    """The output `out` of `ragc data`, checked before anything is sent.

    Raises UsageError if it cannot be written, and Foreign if rows or card are not as ragc wrote them.
    """

    def __init__(self, out: str | Path) -> None:
        self.rows = resolve_out(out)
        if self.rows.suffix != ".jsonl":
            raise UsageError(f"--out names a file FILE.jsonl, found {str(out)!r}; its card is FILE.md.")
        self.card = self.rows.with_suffix(".md")
        for path in (self.rows, self.card):
            _check_regular(path)
        self._check()
        check_writable(self.rows)

    def _check(self) -> None:
        if not (os.path.lexists(self.rows) or os.path.lexists(self.card)):
            return
        text = read_text(self.card, errors="replace") if self.card.exists() else ""
        seal = _SEAL.search(text)
        if seal is None:
            there = self.rows if self.rows.exists() else self.card
            raise Foreign(
                f"{there} exists and is no training data that ragc wrote; choose another --out or move it "
                "away."
            )
        rows, was, card = seal.groups()
        if card != sha256(text[: seal.start()].encode()):
            raise Foreign(_changed(self.card))
        if self.rows.exists() and _sha256_of(self.rows) not in (rows, was):
            raise Foreign(_changed(self.rows))

    def write(self, rows: Iterable[Any], card: str) -> None:
        """Writes `rows`, JSON objects, and the `card`. Raises OSError."""
        content = "".join(f"{json_text(row)}\n" for row in rows).encode()
        was = _sha256_of(self.rows) if self.rows.exists() else "-"
        put_file(self.card, _sealed(card, content, was))
        put_file(self.rows, content)
        put_file(self.card, _sealed(card, content, "-"))


def _sealed(card: str, rows: bytes, was: str) -> bytes:
    digest = sha256(card.encode())
    seal = f"rows={sha256(rows)} was={was} card={digest}"
    return f"{card}\n<!-- ragc.training-data/1 {seal} -->\n".encode()


def _changed(path: Path) -> str:
    return f"{path} was changed since ragc wrote it; move it away or choose another --out."


def _check_regular(path: Path) -> None:
    if os.path.lexists(path) and not path.is_file():
        raise Foreign(f"{path} is no file; choose another --out or move it away.")


def _sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while part := file.read(2**20):
            digest.update(part)
    return digest.hexdigest()
