"""SlimPLM's published labels, computed again from drafts and gold answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from experiments.benchmarks.scoring.slimplm_labels import (
    PLAIN,
    RULES,
    Labelled,
    Rule,
    admissible,
    by_dataset,
    dataset_of,
    golds_of,
    main,
    read,
)
from ragc.training.data.slimplm import is_known
from tests.paths import SHARED_DATA

FOLDER = SHARED_DATA / "slimplm"
BY_RATIO = [("v0104", name) for name in ("nq", "triviaqa", "hotpotqa", "asqa")] + [("v0118", "nq")]

Groups = Mapping[tuple[str, str], Sequence[Labelled]]


@pytest.fixture(scope="module")
def groups() -> Groups:
    if not FOLDER.exists():
        pytest.skip("SlimPLM's labels are not beside the repository")
    return by_dataset(list(read(FOLDER)))


def share(rows: Sequence[Labelled], rule: Rule) -> float:
    return sum(rule.gives(row) == row.known for row in rows) / len(rows)


def test_a_ratio_above_a_half_gives_the_labels_of_v0104_and_of_nq(groups: Groups) -> None:
    assert sum(len(groups[key]) for key in BY_RATIO) == 1032
    for key in BY_RATIO:
        assert share(groups[key], Rule("ratio", PLAIN)) >= 0.98
        assert share(groups[key], Rule("ratio", PLAIN)) == 1.0


def test_each_other_data_set_of_v0118_has_a_rule_that_gives_every_label(groups: Groups) -> None:
    others = [key for key in RULES if key not in BY_RATIO]
    assert sum(len(groups[key]) for key in others) == 568
    for key in others:
        assert share(groups[key], Rule("ratio", PLAIN)) < 0.83
        assert share(groups[key], RULES[key]) == 1.0


def test_the_thresholds_that_give_every_label_hold_those_of_the_rules(groups: Groups) -> None:
    for key, rule in RULES.items():
        limits = admissible(groups[key], rule)
        assert limits is not None
        assert limits[0] <= rule.threshold < limits[1]
    assert admissible(groups["v0118", "musique"], Rule("ratio", 0)) is None


def test_the_script_prints_the_table(groups: Groups, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(FOLDER)])
    printed = capsys.readouterr().out
    assert "194 labels that a ratio above .5 does not give, by cause:" in printed
    assert printed.count("(100.0%)") == 5 + 10


@pytest.mark.parametrize(
    ("row", "dataset", "golds"),
    [
        ({"id": "-12", "answer": ["a", "b"]}, "nq", ["a", "b"]),
        ({"id": "dpql_3148", "answer": ["a"]}, "triviaqa", ["a"]),
        ({"id": "5a8b57f25542995d1e6f1371", "answer": ["a"]}, "hotpotqa", ["a"]),
        ({"id": "1", "qa_pairs": [], "short_answers": ["x"], "answer": "long"}, "asqa", ["x"]),
        ({"id": "2hop__1", "question_decomposition": [], "answer": "a"}, "musique", ["a"]),
        ({"_id": "1", "supporting_facts": [], "answer": "no"}, "2wiki", ["no"]),
        ({"id": "x", "rouge": {}, "long_answers": ["l"]}, "eli5", []),
    ],
)
def test_a_row_tells_its_data_set(row: dict[str, Any], dataset: str, golds: list[str]) -> None:
    assert dataset_of(row) == dataset
    assert golds_of(row) == golds


def test_rows_are_read_and_labelled_by_the_rule(tmp_path: Path) -> None:
    row = {"id": "1", "answer": ["Paris", "the City of Light"], "known": False}
    row["llama7b_without_search_answer"] = "It is Paris."
    for release in ("v0104", "v0118"):
        for split in ("test", "val"):
            path = tmp_path / f"{release}_mixed-llama7b-kiltbm25-{split}.jsonl.gz"
            path.write_bytes(gzip.compress((json.dumps(row) + "\n").encode()))
    rows = list(read(tmp_path))
    assert [(one.release, one.dataset, one.ratio) for one in rows] == [
        (release, "nq", 0.5) for release in ("v0104", "v0104", "v0118", "v0118")
    ]
    assert not is_known(0.5, PLAIN)
    assert share(rows, RULES["v0104", "nq"]) == 1.0
    with pytest.raises(ValueError, match="has no perplexity"):
        Rule("perplexity", 1.0).gives(rows[0])
