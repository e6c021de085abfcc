"""What holds for the questions of a test: uses count, used ones are left out, and groups stay whole."""

from __future__ import annotations

import json
from typing import Any

from tests.laws.conftest import Make
from tests.laws.features import NO_DEMOS, TWO_TRIALS, Feature
from tests.laws.world import World
from tests.support.names import ADJUSTED_INTERVAL, ADJUSTED_P, INCLUDE_USED, TEST_USE, USED
from tests.support.rows import read_rows

TEST = 20
DRAWN = Feature(
    "drawn splits",
    (NO_DEMOS, TWO_TRIALS, "data.train=6", "data.dev=12", f"data.test={TEST}"),
    sizes=(0, 70, 0),
    unsplit=True,
    grouped=True,
)
OTHER_SPLITS = ("--set", "seed=6")


def compiled(world: World, *words: str, out: str = "out") -> dict[str, Any]:
    """What `--json` says of a compile."""
    ended = world.compile("--json", *words, out=out)
    assert ended.status == 0, ended.err
    printed: dict[str, Any] = json.loads(ended.out)
    return printed


def test_every_further_use_of_test_questions_is_counted_and_adjusted(make: Make) -> None:
    world = make(DRAWN)
    first, again = compiled(world), compiled(world, out="again")
    assert (first[TEST_USE]["number"], again[TEST_USE]["number"]) == (1, 1)
    second = compiled(world, *OTHER_SPLITS, out="other")
    assert second[TEST_USE]["number"] == 2
    difference = second["differences"]["em"]
    low, high = difference["ci"]
    wide_low, wide_high = difference[ADJUSTED_INTERVAL]
    assert difference[ADJUSTED_P] >= difference["p"]
    assert wide_low < low < high < wide_high


def test_questions_that_an_earlier_search_used_are_left_out_unless_asked_for(make: Make) -> None:
    world = make(DRAWN)
    assert not compiled(world).get(USED)
    without = compiled(world, *OTHER_SPLITS, out="without")
    used = without[USED]["used"]
    assert used
    assert without["test"]["em"]["n"] == TEST - len(used)
    assert world.run("eval", "without", "--out", "rows.jsonl").status == 0
    rows = [row["id"] for row in read_rows(world.folder / "rows.jsonl") if "id" in row]
    assert len(rows) == TEST - len(used)
    assert not used.keys() & set(rows)
    assert compiled(world, *OTHER_SPLITS, INCLUDE_USED, out="with")["test"]["em"]["n"] == TEST


def test_groups_are_in_one_split_and_count_as_one(make: Make) -> None:
    world = make(DRAWN)
    interval = compiled(world)["test"]["em"]
    assert (interval["n"], interval["groups"]) == (TEST, TEST // 2)
    splits = {}
    for split in ("train", "dev", "test"):
        file = f"{split}.jsonl"
        assert world.run("eval", "out", "--split", split, "--out", file).status == 0
        rows = read_rows(world.folder / file)
        splits[split] = {int(row["id"][1:]) // 2 for row in rows if "id" in row}
    assert [len(groups) for groups in splits.values()] == [3, 6, TEST // 2]
    assert not splits["train"] & splits["dev"]
    assert not (splits["train"] | splits["dev"]) & splits["test"]
