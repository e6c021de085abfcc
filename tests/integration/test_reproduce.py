"""One row of every table, from end to end on SmolLM2: the cheapest, on one data set.

Two questions each. What would take minutes a question is cut short by knobs. A setting that is in several
tables is replayed. Tables whose data is not on this machine are skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from ragc.cli.main import main
from ragc.optimizers.grids.tables.data_files import entries
from ragc.optimizers.grids.tables.table import load, tables
from tests.integration.fetched import default_weights
from tests.paths import SHARED_DATA

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.integration

DATA = Path(os.environ.get("RAGC_TABLE_DATA") or SHARED_DATA)


class Case(NamedTuple):
    """A row on a data set, and knobs that keep it short."""

    row: str
    data: str
    knobs: tuple[str, ...] = ()


LIMIT = 2
SHORT = ("rounds=1", "candidates=3", "k_support=3")
ONE_STEP = ("max_step=1", "strict_budget=true", "k_local=1", "k_web=1")
SHALLOW = ('depth_for="own"', "max_depth=1", 'width="rewrite"')
SEARCHES_DENSELY = frozenset({"ragx-broad"})
"""Tables whose every row needs the extra `dense`: without it they say so before the first request."""

CASES = {
    "prefrag-main": Case("no_retrieval", "hotpotqa"),
    "prefrag-sources": Case("local", "hotpotqa"),
    "prefrag-ablation": Case("prefrag", "hotpotqa", ONE_STEP),
    "prefrag-strategies": Case("module", "hotpotqa", ONE_STEP),
    "prefrag-top-k": Case("prefrag_5", "hotpotqa", ONE_STEP),
    "prefrag-retriever": Case("bm25", "hotpotqa", ONE_STEP),
    "prefrag-searches": Case("prefrag", "hotpotqa", ONE_STEP),
    "ragx-main": Case("llm", "crag"),
    "ragx-sources": Case("llm_web", "crag"),
    "ragx-broad": Case("without", "crag"),
    "ragx-rerank": Case("pool_3", "crag"),
    "ragx-few-shot": Case("shots_0", "crag"),
    "ragx-embedder": Case("bm25", "crag"),
    "ragx-model": Case("base", "crag"),
    "ragx-top-p": Case("top_p_0.6", "crag"),
    "ragx-chunk-size": Case("chunk_size_200", "crag"),
    "ragx-overlap": Case("overlap_0.0", "crag"),
    "ragx-dense-share": Case("dense_share_0.0", "crag"),
    "ragx-noise": Case("noise_n_0", "crag"),
    "ragx-temperature": Case("temperature_0.0", "crag"),
    "ragx-query-position": Case("query_pos_before", "crag"),
    "ragx-cot": Case("llm_direct", "crag"),
    "ggatrieval-main": Case("bm25", "asqa"),
    "ggatrieval-nq": Case("bm25", "nq"),
    "ggatrieval-labels": Case("all", "asqa", SHORT),
    "ggatrieval-rounds": Case("rounds_1", "asqa", SHORT),
    "ggatrieval-tau": Case("tau_0.5", "asqa", SHORT),
    "rqrag-main-single-hop": Case("no_retrieval", "arc_challenge"),
    "rqrag-main-multi-hop": Case("no_retrieval", "musique"),
    "rqrag-selection": Case("ensemble", "hotpotqa", SHALLOW),
    "rqrag-depth": Case("depth_1", "hotpotqa", SHALLOW[2:]),
    "rqrag-width": Case("rewrite", "hotpotqa", SHALLOW),
    "rqrag-sources": Case("wikipedia", "popqa", SHALLOW),
    "slimplm-main": Case("no_retrieval", "nq"),
    "slimplm-ablation": Case("without_rewriting", "nq", ("refs_max=3", "proxy_tokens=64", "judge_demos=0")),
    "slimplm-proxy": Case("no_retrieval", "nq"),
}
"""The case of every table."""
EVERY_COMMIT = ("prefrag-main", "ragx-main", "ggatrieval-main", "rqrag-main-single-hop", "slimplm-main")
"""Tables of which a row runs at every commit, one a paper; of the others each night."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder to run in, with a cache that has the weights of this user; a test may not fetch them."""
    folder = tmp_path_factory.mktemp("reproduce")
    (folder / "home").mkdir()
    (folder / "home/weights").symlink_to(default_weights().parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGC_HOME", str(folder / "home"))
        patch.chdir(folder)
        yield folder


def test_every_table_has_a_case() -> None:
    assert set(CASES) == {entry.id for entry in tables()}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "table",
    [pytest.param(id, marks=() if id in EVERY_COMMIT else pytest.mark.nightly) for id in CASES],
)
def test_a_row_of_every_table_runs_on_the_embedded_model(
    table: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[table]
    if entries()[case.data].locate(DATA) is None:
        pytest.skip(f"the data set {case.data} is not in {DATA}")
    words = ["reproduce", table, "--json", "--row", case.row, "--data-set", case.data, "--data", str(DATA)]
    words += ["--limit", str(LIMIT), "--set", "knobs.wording=brief"]
    words += [word for knob in case.knobs for word in ("--set", f"knobs.{knob}")]
    if threads := os.environ.get("RAGC_TABLE_THREADS"):
        words += ["--set", f"targets.main.options.threads={threads}"]
    if table in SEARCHES_DENSELY and find_spec("sentence_transformers") is None:
        assert main(words) == 2
        assert "sentence_transformers" in capsys.readouterr().err.replace("-", "_")
        return
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    (row,) = report["rows"]
    cell = row["data"][case.data]
    assert (row["id"], cell["questions"]) == (case.row, LIMIT)
    assert [figure["metric"] for figure in cell["figures"]] == list(load(table).use(case.data).metrics)
    for figure in cell["figures"]:
        low, high = figure["ci"]
        assert low <= figure["ours"] <= high
    assert len(Path(cell["rows"]).read_text("utf-8").splitlines()) == LIMIT
    assert any("SmolLM2-135M-Instruct here" in text for text in report["differs"])
