"""Where the repository lies, and what tests read of it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
SHARED_DATA = ROOT.parent / "shared" / "data"
"""Official data sets, where somebody put them beside the repository; tests of them skip elsewhere."""
