"""Grids are recorded whole, resumed where they were cut, read together, and never mixed with others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

import ragc
from ragc import recipe as recipes
from ragc.compiled.evaluate import score
from ragc.compiled.opened import open_program
from ragc.core.digest import digest
from ragc.core.files import cache_home
from ragc.errors import ArtefactError, BudgetExhausted, RagcError, UsageError
from ragc.optimizers.grids import provenance
from ragc.optimizers.grids.plan import estimate
from ragc.store.calls import CallStore
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Killed, dying, needs_demos
from tests.optimizers.grids.common import RECIPE, Record
from tests.support.rows import read_rows, write_rows

AXES = {"top_k": range(1, 21), "noise_n": range(11), "icl_n": range(17), "chunk_size": range(50, 550, 50)}
HUGE = f"product = {{ {', '.join(f'{knob} = {list(values)}' for knob, values in AXES.items())} }}"
"""A product of more combinations than a grid holds."""

BASELINE = {"query_pos": "before", "chunk_size": 200, "top_k": 3, "demos": 0, "demo_set": 0}
SETTINGS = [
    {"top_k": 3, "query_pos": "before", "demos": 0, "demo_set": 0},
    {"top_k": 1, "query_pos": "before", "demos": 0, "demo_set": 0},
    {"top_k": 1, "query_pos": "before", "demos": 2, "demo_set": 1},
    {"top_k": 1, "query_pos": "after", "demos": 0, "demo_set": 0},
    {"top_k": 2, "query_pos": "before", "demos": 0, "demo_set": 0},
    {"top_k": 2, "query_pos": "after", "demos": 0, "demo_set": 0},
]
"""Those of the recipe: the baseline, the listed ones, and the product without what is there already."""
FIXED = ('search.knobs=["query_pos"]', "search.ranges={}")
"""Lets [knobs] name what the recipe's search varies otherwise."""


def test_the_baseline_is_first_and_each_setting_has_the_same_columns(record: Record) -> None:
    grid = record()
    assert [dict(one) for one in grid.settings] == SETTINGS
    assert grid.complete
    assert grid.metrics == ("em", "f1", "recall@5")
    assert grid.scores("em").shape == (6, 8) == grid.tokens.shape == grid.failed.shape
    assert (grid.tokens > 0).all()
    assert grid.scores("em")[2].mean() > grid.scores("em")[0].mean()


def test_cells_are_what_an_evaluation_of_the_same_program_gives(record: Record, folder: Path) -> None:
    grid = record()
    targets: dict[str, Any] = {"main": ScriptedTarget(needs_demos)}
    opened = open_program(
        folder / "recipe.toml", ["knobs.top_k=1", *FIXED], store=CallStore(None), targets=targets
    )
    rows = score(opened, "dev").rows
    assert grid.questions == tuple(row.question.id for row in rows)
    assert grid.scores("f1")[1].tolist() == pytest.approx([row.scores["f1"] for row in rows])
    assert grid.tokens[1].tolist() == [row.counters["tokens"] for row in rows]


def test_a_folder_holds_no_text_of_questions_passages_or_prompts(record: Record, folder: Path) -> None:
    out = record().path
    content = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    for text in (b"thing", b"Thing", b"colour", str(folder).encode()):
        assert text not in content
    facts = json.loads((out / "provenance.json").read_bytes())
    assert facts["models"]["main"]["model"] == "scripted"
    assert facts["runs"][0]["settings"] == 6


@pytest.mark.parametrize("after", [0, 3, 10, 25, 40, 60])
def test_a_recording_cut_off_anywhere_goes_on_and_sends_nothing_twice(
    record: Record, folder: Path, after: int
) -> None:
    whole = ScriptedTarget(needs_demos)
    expected = record("whole", target=whole, store=CallStore(None))
    assert len(whole.requests) > 60
    with pytest.raises((Killed, RagcError)):
        record("cut", target=dying(needs_demos, after))
    rest = ScriptedTarget(needs_demos)
    grid = record("cut", target=rest)
    assert after + len(rest.requests) == len(whole.requests)
    assert grid.complete
    for metric in grid.metrics:
        assert np.array_equal(grid.scores(metric), expected.scores(metric))
    assert np.array_equal(grid.tokens, expected.tokens)


def test_a_grid_has_a_file_a_setting_and_a_second_run_changes_nothing(record: Record, folder: Path) -> None:
    out = record().path
    files = {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert files.keys() == {"provenance.json", "settings.json", *(f"00{n}.jsonl" for n in range(6))}
    rows = [json.loads(line) for line in files["002.jsonl"].splitlines()]
    assert all(row.keys() == {"id", "scores", "counters", "failure"} for row in rows)
    second = record(target=ScriptedTarget([]))
    assert second.counters["sent"] == second.counters["replayed"] == 0
    assert {name: (out / name).read_bytes() for name in files} == files


def test_more_settings_are_added_behind_those_that_are_there(record: Record) -> None:
    first = record(sets=("grid.product=[]",))
    assert len(first.settings) == 3
    target = ScriptedTarget(needs_demos)
    grid = record(sets=("grid.settings=[{chunk_size=50}]", "grid.product=[]"), target=target)
    assert [one["chunk_size"] for one in grid.settings] == [200, 200, 200, 50]
    assert [one["top_k"] for one in grid.settings] == [3, 1, 1, 3]
    assert np.array_equal(grid.scores("em")[:3], first.scores("em"))
    assert grid.complete
    assert len(grid.provenance["runs"]) == 2


def test_a_sample_has_the_seed_of_the_recipe_and_a_larger_one_begins_alike(record: Record) -> None:
    bare = ("grid.settings=[]", "grid.product=[]")
    small = record("small", sets=(*bare, "grid.sample=4"))
    large = record("large", sets=(*bare, "grid.sample=8"))
    other = record("other", sets=(*bare, "grid.sample=4", "seed=4"))
    assert small.settings == large.settings[:5]
    assert small.settings[1:] != other.settings[1:]
    assert dict(large.settings[0]) == BASELINE
    assert all(50 <= one["chunk_size"] <= 200 and one["chunk_size"] % 50 == 0 for one in large.settings)
    assert all(one["top_k"] <= 4 and one["demos"] <= 2 for one in large.settings)
    assert all(one["demo_set"] == 0 for one in large.settings if not one["demos"])
    with pytest.raises(UsageError, match=r"grid\.sample = 20 asks for more settings than \[search\] has"):
        record(
            "none", sets=(*bare, "grid.sample=20", "search.knobs=[]", "search.ranges={}", "search.demos=1")
        )


def test_a_baseline_of_its_own_is_setting_0_and_the_others_are_over_it(record: Record) -> None:
    grid = record(sets=('grid.baseline={wording="brief", top_k=2}', "grid.product=[]"))
    assert [one["wording"] for one in grid.settings] == ["brief"] * 3
    assert [one["top_k"] for one in grid.settings] == [2, 1, 1]
    with pytest.raises(UsageError, match="holds a grid with another baseline; choose another --out"):
        record()


@pytest.mark.parametrize(
    ("sets", "difference"),
    [
        (("data.dev=9",), "other questions"),
        (("seed=4",), "other questions"),
        (("data.train=14",), "other train questions"),
        (("sources.local.options.k1=1.0",), "other passages, or sources with other options"),
        (('metrics.report=["em"]',), "other metrics"),
        (("knobs.top_k=2", *FIXED), "another baseline"),
    ],
)
def test_a_grid_of_something_else_is_neither_extended_nor_read_together(
    record: Record, folder: Path, sets: tuple[str, ...], difference: str
) -> None:
    record(sets=("grid.product=[]",))
    target = ScriptedTarget([])
    before = (folder / "grid/provenance.json").read_bytes()
    with pytest.raises(UsageError, match=f"holds a grid with {difference}; choose another --out"):
        record(sets=sets, target=target)
    record("other", sets=(*sets, "grid.product=[]"))
    with pytest.raises(UsageError, match=f"holds a grid with {difference}; only equal ones are read"):
        ragc.read_grid(folder / "grid", folder / "other")
    assert (folder / "grid/provenance.json").read_bytes() == before


def test_another_model_is_refused(record: Record) -> None:
    record()
    with pytest.raises(UsageError, match="holds a grid with another model"):
        record(target=ScriptedTarget([], identity="larger"))


def test_other_demonstrations_are_refused(record: Record, folder: Path) -> None:
    """As on a machine whose model answers train questions in another way."""
    only = ("grid.product=[]", "grid.settings=[{demos=2}]")
    record(sets=only)
    more = ("grid.product=[]", "grid.settings=[{demos=2, demo_set=1}]")
    elsewhere = ScriptedTarget(lambda request: {"answer": "mauve"})
    with pytest.raises(UsageError, match="holds a grid with other demonstrations"):
        record(sets=more, target=elsewhere, store=CallStore(None))


def test_two_grids_are_read_as_one_and_equal_settings_are_one_row(record: Record, folder: Path) -> None:
    one = record("one", sets=("grid.product=[]",))
    two = record("two", sets=("grid.settings=[{top_k=1}, {chunk_size=50}]", "grid.product=[]"))
    grid = ragc.read_grid(folder / "one", folder / "two")
    assert len(grid.settings) == 4
    assert [one_setting["chunk_size"] for one_setting in grid.settings] == [200, 200, 200, 50]
    assert np.array_equal(grid.scores("f1")[:3], one.scores("f1"))
    assert np.array_equal(grid.scores("f1")[3], two.scores("f1")[2])
    assert grid.complete
    assert len(grid.provenance["runs"]) == 2
    with pytest.raises(UsageError, match="no grid to read"):
        ragc.read_grid()


def test_a_grid_that_was_cut_off_is_filled_by_that_of_another_machine(record: Record, folder: Path) -> None:
    with pytest.raises((Killed, RagcError)):
        record("part", target=dying(needs_demos, 20))
    whole = record("whole", store=CallStore(None))
    grid = ragc.read_grid(folder / "part", folder / "whole")
    assert grid.complete
    assert np.array_equal(grid.scores("em"), whole.scores("em"))


def test_a_damaged_file_is_refused_and_once_deleted_recorded_from_the_store(
    record: Record, folder: Path
) -> None:
    with pytest.raises((Killed, RagcError)):
        record(target=dying(needs_demos, 30))
    path = folder / "grid/001.jsonl"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        ArtefactError, match=r"001\.jsonl is damaged .*delete it and run `ragc grid` once more"
    ):
        ragc.read_grid(folder / "grid")
    with pytest.raises(ArtefactError, match=r"001\.jsonl was changed since ragc wrote it"):
        record()
    path.unlink()
    assert not ragc.read_grid(folder / "grid").recorded[1].any()
    target = ScriptedTarget(needs_demos)
    grid = record(target=target)
    assert grid.complete
    assert all(request is not None for request in target.requests)


def test_nothing_of_others_is_replaced(record: Record, folder: Path) -> None:
    (folder / "grid").mkdir()
    (folder / "grid/notes.txt").write_text("mine", "utf-8")
    with pytest.raises(ArtefactError, match="exists and is not a grid; choose another --out"):
        record()
    (folder / "grid/notes.txt").unlink()
    out = record().path
    (out / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(ArtefactError, match=r"notes\.txt was not written by ragc"):
        record(sets=("grid.settings=[{chunk_size=50}]",))
    assert (out / "notes.txt").read_text("utf-8") == "mine"
    (out / "notes.txt").unlink()
    record(sets=("grid.settings=[{chunk_size=50}]",))
    (out / "settings.json").write_text("{}", "utf-8")
    with pytest.raises(ArtefactError, match=r"settings\.json was changed since ragc wrote it"):
        record(sets=("grid.settings=[{chunk_size=100}]",))
    with pytest.raises(ArtefactError, match="is no grid"):
        ragc.read_grid(folder)


@pytest.mark.parametrize("limit", [1, 12, 30])
def test_a_budget_is_a_hard_limit_that_a_second_run_cannot_pass(
    record: Record, folder: Path, limit: int
) -> None:
    """One question at a time: of several, one may be sent before the stored reply of another is charged."""
    first, second = ScriptedTarget(needs_demos), ScriptedTarget(needs_demos)
    sets = (f"budget.lm_calls={limit}", "concurrency=1")
    with pytest.raises(BudgetExhausted, match=rf"{limit} LM calls is spent.* of 6 settings are recorded in"):
        record(target=first, sets=sets)
    assert len(first.requests) == limit
    with pytest.raises(BudgetExhausted):
        record(target=second, sets=sets)
    assert not second.requests
    assert record(sets=("budget.lm_calls=5000", "concurrency=1")).complete


def test_questions_without_a_readable_answer_are_failed_cells(record: Record) -> None:
    def reply(request: Any) -> Any:
        return "%%%" if "number20?" in str(request.messages) else needs_demos(request)

    grid = record(target=ScriptedTarget(reply), sets=("data.dev=20", "grid.settings=[]"))
    at = grid.questions.index("q20")
    assert grid.failed[:, at].all()
    assert grid.failed.sum() == len(grid.settings)
    assert (grid.scores("em")[:, at] == 0).all()
    assert (grid.tokens[:, at] > 0).all()
    assert any("have no readable answer" in remark for remark in grid.remarks)


def test_a_metric_that_does_not_apply_is_nan_in_a_complete_grid(record: Record, folder: Path) -> None:
    rows = read_rows(folder / "questions.jsonl")
    for row in rows[::2]:
        del row["gold_ids"]
    write_rows(folder / "questions.jsonl", rows)
    grid = record()
    assert grid.complete
    undefined = np.isnan(grid.scores("recall@5"))
    assert undefined.any(axis=0).tolist() == undefined.all(axis=0).tolist()
    assert 0 < undefined[0].sum() < 8
    assert any(remark.startswith("recall@5 is not defined in ") for remark in grid.remarks)
    assert not np.isnan(grid.means("recall@5")).any()


def test_two_processes_do_not_record_one_grid(record: Record, folder: Path) -> None:
    record(sets=("grid.product=[]",))
    (state,) = (
        path for path in (cache_home() / "grids").iterdir() if path.name.endswith(state_name(folder / "grid"))
    )
    with FileLock(f"{state}.lock"), pytest.raises(UsageError, match="Another process is recording to"):
        record(target=ScriptedTarget([]))


def test_a_model_of_this_machine_is_named_without_its_path() -> None:
    target = ScriptedTarget([])
    target.model, target.name = "/home/ann/models/small", "vllm /home/ann/models/small"
    shown = provenance.describe_model(target)
    assert (shown["model"], shown["name"]) == ("small", "vllm small")


def state_name(out: Path) -> str:
    """What the name of the folder of a grid's state ends with."""
    return digest(str(out.resolve()))[:12]


def test_a_recipe_without_a_grid_says_what_to_add(record: Record) -> None:
    with pytest.raises(UsageError, match=r"lists no settings to evaluate; add a table \[grid\]"):
        record(sets=("grid={}",), target=ScriptedTarget([]))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("settings = [{ top_q = 1 }]", "grid.settings.0: No knob of this program is named 'top_q'"),
        ("settings = [{ top_k = 99 }]", "grid.settings.0: knob top_k must be between 1 and 20, found 99"),
        ("settings = [{}, { demos = 3 }]", "grid.settings.1: demos must be"),
        ("settings = [{ demos = true }]", "grid.settings.0: demos must be an integer of at least 0"),
        ('settings = [{ demo_kind = "nearest" }]', "No kind of demonstrations in search.demo_kinds is named"),
        ("settings = { top_k = 1 }", "grid.settings must be a list, found"),
        ("product = { top_k = 1 }", "grid.product.top_k must be a list"),
        ("product = { top_k = [] }", "grid.product.top_k must be a list"),
        ("product = [1]", "grid.product.0 must be a table, found 1"),
        ("sample = -1", "grid.sample must be at least 0"),
        ("samples = 1", "grid.samples: unknown key in [grid]. Did you mean 'sample'?"),
        ('baseline = { wording = "short" }', "grid.baseline: knob wording must be one of"),
        (
            HUGE,
            "a grid holds 32,767 settings, and grid.product has 37,400",
        ),
    ],
)
def test_a_wrong_grid_is_a_problem_of_the_recipe(folder: Path, line: str, problem: str) -> None:
    head, _, rest = RECIPE.partition("[grid]")
    text = f"{head}[grid]\n{line}\n[data]{rest.partition('[data]')[2]}"
    (folder / "recipe.toml").write_text(text, "utf-8")
    with pytest.raises(UsageError) as caught:
        recipes.load(folder / "recipe.toml")
    assert problem in str(caught.value)


def test_a_wrong_set_of_demonstrations_is_refused_before_anything_is_sent(record: Record) -> None:
    with pytest.raises(UsageError, match=r"grid\.settings\.0: demo_set must be below 4 for filled"):
        record(sets=("grid.settings=[{demos=1, demo_set=4}]",), target=ScriptedTarget([]))


def test_the_dry_run_estimates_what_is_missing(record: Record, folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("ragc.optimizers.grids.plan.require", lambda *_, **__: None)
    target = ScriptedTarget(needs_demos)
    monkeypatch.setattr("ragc.task.base._build_targets", lambda recipe: {"main": target})
    recipe = recipes.load(folder / "recipe.toml")
    plan = estimate(recipe, folder / "grid")
    assert (plan["settings"], plan["questions"], plan["cells"], plan["recorded"]) == (6, 8, 48, 0)
    assert plan["phases"] == {"settings": 48, "demonstrations": 15, "learning": 0}
    assert plan["lm_calls_about"] == 63
    assert not target.requests
    assert not (folder / "grid").exists()
    record(target=target)
    assert len(target.requests) <= plan["lm_calls_about"]
    assert estimate(recipe, folder / "grid")["cells"] == 0
    more = estimate(
        recipes.load(folder / "recipe.toml", ["grid.settings=[{chunk_size=50}]"]), folder / "grid"
    )
    assert (more["settings"], more["recorded"], more["cells"]) == (7, 6, 8)
