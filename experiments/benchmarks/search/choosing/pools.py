"""Worlds of measured pipelines: RAGSmith's pools, and the grids recorded in experiments/grids.

RAGSmith measured 147 and 137 pipelines on two domains, a mean of 100 judged questions each; pipelines
measured twice are averaged. Scores of single questions are not known, so they are drawn: the chance of a
question is `expit(logit(mean) + ease + own)`, moved so that its mean over the drawn questions is the mean of
the pipeline; a score is 1 with that chance, else 0. Deviations by seed: ease .5 to 2.5, own .2 to
.8, uniform.
The baseline is the pipeline with most plain components. Nothing of the data is copied into the project.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit

import ragc
from experiments.benchmarks.search.choosing.worlds import Array, World

GRIDS = Path(__file__).resolve().parents[3] / "grids"
DOMAINS = ("math", "medicine")
_FIRST, _LAST = "pre_embedding", "post_generation"
PLAIN = ("none", "no_", "simple_", "vector_mxbai")
"""What the name of a plain component has."""


@cache
def ragsmith(path: Path, domain: str) -> tuple[list[dict[str, Any]], Array]:
    """The distinct pipelines of `domain` and their mean scores.

    Raises SystemExit for a file without such pipelines.
    """
    rows = list(csv.DictReader(path.read_text("utf-8").splitlines()))
    names = list(rows[0]) if rows else []
    if not {_FIRST, _LAST, "domain", "llm"} <= set(names):
        raise SystemExit(f"{path} is not RAGSmith's table: a column of {_FIRST}, {_LAST}, domain, llm lacks.")
    columns = names[names.index(_FIRST) : names.index(_LAST) + 1]
    measured: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        if row["domain"] == domain:
            measured[tuple(row[name] for name in columns)].append(float(row["llm"]))
    pipelines = [dict(zip(columns, values, strict=True)) for values in measured]
    return pipelines, np.array([float(np.mean(scores)) for scores in measured.values()])


def ragsmith_world(path: Path, domain: str, seed: int, share: float, questions: int = 60) -> World:
    """A world of the pipelines of `domain` on drawn questions."""
    pipelines, means = ragsmith(path, domain)
    rng = np.random.default_rng([DOMAINS.index(domain), seed, 30])
    ease, own = rng.uniform(0.5, 2.5), rng.uniform(0.2, 0.8)
    noise = rng.normal(0, ease, questions) + rng.normal(0, own, (len(means), questions))
    level = logit(np.clip(means, 1e-3, 1 - 1e-3))
    for _ in range(50):
        slope = (expit(level[:, None] + noise) * (1 - expit(level[:, None] + noise))).mean(1)
        level = level + np.clip(
            (means - expit(level[:, None] + noise).mean(1)) / np.maximum(slope, 1e-3), -1, 1
        )
    scores = (rng.random(noise.shape) < expit(level[:, None] + noise)).astype(float)
    plain = [sum(any(mark in value for mark in PLAIN) for value in p.values()) for p in pipelines]
    return World(pipelines, int(np.argmax(plain)), scores, means, int(share * scores.size))


@cache
def _recorded(folder: Path) -> tuple[list[dict[str, Any]], Array]:
    grid = ragc.read_grid(folder)
    scores = grid.scores(grid.metrics[0])
    there = [not np.isnan(row).all() for row in scores]
    settings = [dict(setting) for setting, is_there in zip(grid.settings, there, strict=True) if is_there]
    scores = scores[there]
    scores = scores[:, ~np.isnan(scores).any(axis=0)]
    if not there[0] or len(settings) < 3 or scores.shape[1] < 10:
        raise SystemExit(
            f"{folder}: the baseline, 3 settings and 10 questions that all of them answered are needed, "
            f"found {len(settings)} settings and {scores.shape[1]} questions."
        )
    return settings, scores


def recorded_world(folder: Path, seed: int, share: float) -> World:
    """A world of half of the questions of a recorded grid; the other half has the true means.

    Raises SystemExit for a grid with too few settings or questions without gaps.
    """
    settings, scores = _recorded(folder)
    order = np.random.default_rng([seed, 5]).permutation(scores.shape[1])
    half = len(order) // 2
    dev, held = scores[:, order[:half]], scores[:, order[half:]]
    return World(settings, 0, dev, held.mean(1), int(share * dev.size))
