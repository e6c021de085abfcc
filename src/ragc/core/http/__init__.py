"""HTTP: a connection pool for one server, and reply bodies of limited size."""

from __future__ import annotations

MOST_BYTES = 8 * 2**20
"""Default limit of one reply in bytes, after decompression."""
