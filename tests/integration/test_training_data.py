"""Training data where it costs something: a process killed by the system, and a real model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ragc.store.call_store import CallStore
from tests.paths import ROOT
from tests.training.data.common import maker
from tests.training.data.test_build import folder_of, models_of, n_sent

pytestmark = pytest.mark.integration

SCRIPT = """
import os, signal, sys
from pathlib import Path
from tests.training.data import test_build
from tests.training.data.common import maker, targets

kind, folder, after = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
log = (folder / "sent.txt").open("a")

def counted(answer):
    def say(request):
        log.write("x")
        log.flush()
        if (folder / "sent.txt").stat().st_size == after:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer(request)
    return say

models = targets(**{role: counted(answer) for role, answer in test_build.KINDS[kind][1].items()})
maker(folder, kind)(models)
"""


def test_a_process_killed_by_the_system_loses_nothing(tmp_path: Path) -> None:
    kind = "rqrag-sft"
    folder = folder_of(kind, tmp_path)
    whole = models_of(kind)
    maker(folder, kind)(whole, "whole.jsonl", store=CallStore(folder / "store of the whole"))
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "RAGC_HOME": str(tmp_path / "home")}

    def run(after: int) -> int:
        command = [sys.executable, "-c", SCRIPT, kind, str(folder), str(after)]
        return subprocess.run(command, env=environment, check=False, capture_output=True).returncode

    assert run(n_sent(whole) // 2) == -signal.SIGKILL
    assert not (folder / "rows.jsonl").exists()
    before = (folder / "sent.txt").stat().st_size
    assert run(-1) == 0
    assert (folder / "rows.jsonl").read_bytes() == (folder / "whole.jsonl").read_bytes()
    lost = (folder / "sent.txt").stat().st_size - n_sent(whole)
    assert 1 <= lost <= 4  # only those in flight, of which there may be four
    assert before < n_sent(whole)
