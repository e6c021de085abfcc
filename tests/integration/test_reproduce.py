"""One row of every table, from end to end on SmolLM2: the cheapest, on one data set.

Three questions where a question is one call, else one; methods that would take minutes a question are cut
short by their own knobs. Tables whose data is not on this machine are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ragc.cli.main import main
from ragc.optimizers.grids.tables.data_files import entries
from ragc.optimizers.grids.tables.table import load, table_ids
from tests.paths import SHARED_DATA

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.integration

DATA = Path(os.environ.get("RAGC_TABLE_DATA") or SHARED_DATA)


class Case(NamedTuple):
    """A row on a data set, how many questions, and knobs that keep it short."""

    row: str
    data: str
    limit: int = 1
    knobs: tuple[str, ...] = ()


SHORT = ("rounds=1", "candidates=4", "k_support=3")
ONE_STEP = ("max_step=1", "strict_budget=true", "k_local=2", "k_web=2")
SHALLOW = ('depth_for="own"', "max_depth=1", 'width="rewrite"')
CASES = {
    "prefrag-main": Case("no_retrieval", "hotpotqa", 3),
    "prefrag-sources": Case("local", "hotpotqa", 3),
    "prefrag-ablation": Case("without_reflection", "hotpotqa", 1, ONE_STEP),
    "prefrag-strategies": Case("prompt", "2wikimultihopqa", 1, ONE_STEP),
    "prefrag-top-k": Case("vanilla_3", "bioasq", 3),
    "prefrag-retriever": Case("bm25", "musique", 1, ONE_STEP),
    "prefrag-searches": Case("react_concat", "hotpotqa", 1, ("max_step=1", "k_local=2", "k_web=2")),
    "ragx-main": Case("llm", "crag", 3),
    "ragx-sources": Case("web", "crag", 3),
    "ragx-broad": Case("with", "crag"),
    "ragx-rerank": Case("pool_3", "crag"),
    "ragx-few-shot": Case("shots_0", "crag", 3),
    "ragx-embedder": Case("bm25", "crag"),
    "ragx-model": Case("base", "crag"),
    "ragx-top-p": Case("top_p_0.6", "crag"),
    "ragx-chunk-size": Case("chunk_size_50", "crag", 3),
    "ragx-overlap": Case("overlap_0.1", "crag"),
    "ragx-dense-share": Case("dense_share_0.0", "crag"),
    "ragx-noise": Case("noise_n_1", "crag"),
    "ragx-temperature": Case("temperature_0.5", "crag"),
    "ragx-query-position": Case("query_pos_after", "crag"),
    "ragx-cot": Case("llm_cot", "crag"),
    "ggatrieval-main": Case("bm25", "asqa", 3),
    "ggatrieval-nq": Case("bm25", "nq", 3),
    "ggatrieval-labels": Case("without_none", "asqa", 1, SHORT),
    "ggatrieval-rounds": Case("rounds_1", "asqa", 1, SHORT),
    "ggatrieval-tau": Case("tau_0.5", "asqa", 1, ("candidates=2", "k_support=3")),
    "rqrag-main-single-hop": Case("vanilla", "arc_challenge", 3),
    "rqrag-main-multi-hop": Case("vanilla", "musique", 3),
    "rqrag-selection": Case("ensemble", "hotpotqa", 1, SHALLOW),
    "rqrag-depth": Case("depth_0", "2wikimultihopqa", 3),
    "rqrag-width": Case("rewrite", "hotpotqa", 1, SHALLOW[:2]),
    "rqrag-sources": Case("wikipedia", "popqa", 1, SHALLOW),
    "slimplm-main": Case("no_retrieval", "nq", 3),
    "slimplm-ablation": Case("without_rewriting", "asqa", 1, ("refs_max=5",)),
    "slimplm-proxy": Case("slimplm", "musique", 1, ("refs_max=5", "proxy_tokens=64")),
}
"""The case of every table."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder to run in, with a cache that has the weights of this user; a test may not fetch them."""
    folder = tmp_path_factory.mktemp("reproduce")
    environ = {name: value for name, value in os.environ.items() if name != "RAGC_HOME"}
    program = "from ragc.targets.embedded.weights import default_weights; print(default_weights())"
    fetched = subprocess.run(
        [sys.executable, "-c", program], env=environ, check=True, capture_output=True, text=True
    )
    (folder / "home").mkdir()
    (folder / "home/weights").symlink_to(Path(fetched.stdout.strip()).parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGC_HOME", str(folder / "home"))
        patch.chdir(folder)
        yield folder


def test_every_table_has_a_case() -> None:
    assert set(CASES) == set(table_ids())


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("table", table_ids())
def test_a_row_of_every_table_runs_on_the_embedded_model(
    table: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[table]
    if entries()[case.data].locate(DATA) is None:
        pytest.skip(f"the data set {case.data} is not in {DATA}")
    words = ["reproduce", table, "--json", "--row", case.row, "--data-set", case.data, "--data", str(DATA)]
    words += ["--limit", str(case.limit), "--set", "knobs.wording=brief"]
    words += [word for knob in case.knobs for word in ("--set", f"knobs.{knob}")]
    if threads := os.environ.get("RAGC_TABLE_THREADS"):
        words += ["--set", f"targets.main.options.threads={threads}"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    (row,) = report["rows"]
    cell = row["data"][case.data]
    assert (row["id"], cell["questions"]) == (case.row, case.limit)
    assert [figure["metric"] for figure in cell["figures"]] == list(load(table).use(case.data).metrics)
    for figure in cell["figures"]:
        low, high = figure["ci"]
        assert low <= figure["ours"] <= high
    assert len(Path(cell["rows"]).read_text("utf-8").splitlines()) == case.limit
    assert any("SmolLM2-135M-Instruct here" in text for text in report["differs"])
    assert (report["plot"] is not None) == (load(table).kind == "curve")
