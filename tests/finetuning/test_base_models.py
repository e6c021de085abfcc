"""Bases: the process stays on its cores, whatever a library does to it while it is loaded."""

from __future__ import annotations

import os

import pytest

from ragc.finetuning.base_models import keep_cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to cores")
def test_the_process_stays_on_its_cores() -> None:
    cores = os.sched_getaffinity(0)
    one = {min(cores)}
    try:
        os.sched_setaffinity(0, one)
        with keep_cores():
            os.sched_setaffinity(0, cores)
        assert os.sched_getaffinity(0) == one
    finally:
        os.sched_setaffinity(0, cores)
