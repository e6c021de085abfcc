"""With the same verdicts, our scores are Ragas' own; needs an interpreter with ragas, named in
RAGC_RAGAS_PYTHON.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragc.metrics.base import Finding, Outcome
from ragc.metrics.without_gold import METRICS

pytestmark = pytest.mark.integration
PYTHON = os.environ.get("RAGC_RAGAS_PYTHON", "")
SCORES = Path(__file__).with_name("ragas_scores.py")
ORDER = ("faithfulness", "context_recall", "context_precision", "answer_relevancy", "answer_correctness")


def table(draw: random.Random) -> dict[str, Any]:
    def verdicts(least: int) -> list[bool]:
        return [draw.random() < 0.5 for _ in range(draw.randint(least, 9))]

    return {
        "verdicts": verdicts(1),
        "answer": verdicts(0),
        "reference": verdicts(0),
        "cosine": draw.uniform(-1, 1),
        "evasive": draw.random() < 0.2,
        "question": [draw.gauss(0, 1) for _ in range(6)],
        "written": [[draw.gauss(0, 1) for _ in range(6)] for _ in range(draw.randint(1, 4))],
    }


def ours(table: dict[str, Any]) -> list[float]:
    question = np.array(table["question"])
    cosines = [float(question @ v / np.linalg.norm(question) / np.linalg.norm(v)) for v in table["written"]]
    sides = {name: {"supported": table[name]} for name in ("answer", "reference")}
    values: dict[str, dict[str, Any]] = {
        "faithfulness": {"supported": table["verdicts"]},
        "context_recall": {"supported": table["verdicts"]},
        "context_precision": {"useful": table["verdicts"]},
        "answer_relevancy": {"cosines": cosines, "evasive": table["evasive"]},
        "answer_correctness": {**sides, "cosine": table["cosine"]},
    }
    findings = {name: Finding({"by": "judge", **value}, "judge") for name, value in values.items()}
    scores = {metric.id: metric.score(Outcome("a", findings=findings)) for metric in METRICS}
    return [float(scores[name] or 0.0) for name in ORDER]


@pytest.mark.skipif(not PYTHON, reason="RAGC_RAGAS_PYTHON names no interpreter with ragas (make nightly)")
def test_the_same_verdicts_give_the_same_scores() -> None:
    draw = random.Random(30)
    tables = [table(draw) for _ in range(1000)]
    run = subprocess.run(
        [PYTHON, str(SCORES)],
        input=json.dumps(tables),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "RAGAS_DO_NOT_TRACK": "true"},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    theirs = json.loads(run.stdout)
    assert len(theirs) == len(tables)
    np.testing.assert_allclose([ours(one) for one in tables], theirs, atol=1e-9)
