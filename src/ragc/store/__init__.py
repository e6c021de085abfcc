"""What is stored between runs: replies by their requests (`calls`), and which questions were used."""

from __future__ import annotations

import sqlite3


def check_database(rows: sqlite3.Connection) -> None:
    """Raises sqlite3.DatabaseError unless SQLite finds the database whole; changes nothing."""
    (found,) = rows.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(" ".join(str(found).split()))
