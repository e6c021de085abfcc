"""The command line under random damage: always its own words, never a traceback, a lost file or a process.

The same by hand, more of it, with every case shown:

    PYTHONPATH=src:. python -m tests.security.fuzzing replies --count 1000 --seed 8 --folder EMPTY --show
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import processes
from tests.examples import THOROUGH, thorough
from tests.paths import ROOT
from tests.security.fuzzing import SUBJECTS

COUNT = 300 if THOROUGH else 15
SEED = 20261122


@thorough
@pytest.mark.parametrize("subject", SUBJECTS)
def test_damage_ends_in_one_sentence(subject: str, tmp_path: Path) -> None:
    command = ["-m", "tests.security.fuzzing", subject, "--folder", str(tmp_path / "world")]
    done = processes.run(
        [*command, "--count", str(COUNT), "--seed", str(SEED)],
        cwd=ROOT,
        environment=processes.environment_of(),
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    print(f"{subject}: seed {SEED}, {report['runs']} runs, {report['parsed']} parse, {report['statuses']}")
    assert report["faults"] == [], "\n\n".join(report["faults"][:5])
    assert report["runs"] == COUNT
    assert report["parsed"] >= COUNT / 3
    assert report["interrupted"] <= max(1, COUNT / 20)
