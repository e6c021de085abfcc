"""`ragc data` as a whole: resumed after kills, within its budget, without repeats, over its own files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.cli.main import main
from ragc.core.digest import digest
from ragc.core.files import Foreign
from ragc.errors import BudgetExhausted, UsageError
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.task.run import open_state
from ragc.testing import ScriptedTarget
from ragc.training.data.base import llamafactory_entry
from tests.optimizers.colours import Killed
from tests.support.rows import read_rows
from tests.training.data import test_prefrag, test_rqrag, test_slimplm
from tests.training.data.common import Answering, Make, change_questions, maker, targets, write_data

KINDS: Mapping[str, tuple[str, Mapping[str, Answering]]] = {
    "prefrag-dpo": ("prefrag", {"main": test_prefrag.small(), "teacher": test_prefrag.teacher()}),
    "rqrag-sft": ("rqrag", {"main": test_prefrag.small(), "teacher": test_rqrag.teacher()}),
    "slimplm-labels": ("slimplm", {"main": test_prefrag.small(), "proxy": test_slimplm.proxy}),
    "slimplm-rewrites": (
        "slimplm",
        {"main": test_prefrag.small(), "proxy": test_slimplm.proxy, "teacher": test_slimplm.annotate},
    ),
}


def folder_of(kind: str, tmp_path: Path, n: int = 4) -> Path:
    return write_data(tmp_path, KINDS[kind][0], n=n)


def models_of(kind: str) -> dict[str, ScriptedTarget]:
    return targets(**KINDS[kind][1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of("slimplm-labels", tmp_path, n=8)


@pytest.fixture
def make(folder: Path) -> Make:
    return maker(folder, "slimplm-labels")


def n_sent(models: Mapping[str, ScriptedTarget]) -> int:
    return sum(len(model.requests) for model in models.values())


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_killed_goes_on_and_writes_the_same_bytes(tmp_path: Path, kind: str) -> None:
    folder = folder_of(kind, tmp_path)
    make, whole = maker(folder, kind), models_of(kind)
    make(whole, "whole/rows.jsonl", store=CallStore(folder / "store of the whole"))
    total, sent = n_sent(whole), 0

    def dies(answer: Answering) -> Answering:
        def say(request: ChatRequest) -> Any:
            nonlocal sent
            sent += 1
            if sent > total // 2:
                raise Killed
            return answer(request)

        return say

    with pytest.raises(Killed):
        make(targets(**{role: dies(answer) for role, answer in KINDS[kind][1].items()}))
    assert not list(folder.glob("rows.*"))
    rest = models_of(kind)
    make(rest)
    assert n_sent(rest) + total // 2 == total
    last = models_of(kind)
    assert make(last).counters["sent"] == n_sent(last) == 0
    for name in ("rows.jsonl", "rows.md"):
        assert (folder / name).read_bytes() == (folder / "whole" / name).read_bytes()


def test_any_number_of_questions_in_flight_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = folder_of("prefrag-dpo", tmp_path)
    make = maker(folder, "prefrag-dpo")
    for n in (1, 64):
        make(models_of("prefrag-dpo"), f"{n}.jsonl", sets=(f"concurrency={n}",), store=CallStore(None))
    assert (folder / "1.jsonl").read_bytes() == (folder / "64.jsonl").read_bytes()


def test_a_budget_that_ends_in_the_middle_leaves_complete_questions(folder: Path, make: Make) -> None:
    sets = ("training_data.balance=false", "concurrency=1")
    models = models_of("slimplm-labels")
    with pytest.raises(BudgetExhausted) as error:
        make(models, sets=(*sets, "budget.lm_calls=3"))
    assert n_sent(models) == 3
    assert re.fullmatch(
        r"The budget of 3 LM calls is spent; raise budget.lm_calls to go on. 3 of 8 questions are complete, "
        r"and their 3 rows are in .*rows\.jsonl; the same command goes on.",
        str(error.value),
    )
    assert len(read_rows(folder / "rows.jsonl")) == 3
    assert "The budget ended the collection after 3 of 8 questions." in (folder / "rows.md").read_text()
    again = models_of("slimplm-labels")
    with pytest.raises(BudgetExhausted):
        make(again, sets=(*sets, "budget.lm_calls=3"))
    assert n_sent(again) == 0
    data = make(again, sets=(*sets, "budget.lm_calls=8"))
    assert (n_sent(again), len(data.rows)) == (5, 8)
    assert "The budget ended" not in (folder / "rows.md").read_text()


def test_a_budget_for_less_than_a_question_writes_nothing(tmp_path: Path) -> None:
    folder = folder_of("rqrag-sft", tmp_path)
    with pytest.raises(
        BudgetExhausted, match="0 of 4 questions are complete and gave no row, so nothing was"
    ):
        maker(folder, "rqrag-sft")(models_of("rqrag-sft"), sets=("budget.lm_calls=1",))
    assert not list(folder.glob("rows.*"))


def test_questions_with_the_same_words_are_one(folder: Path, make: Make) -> None:
    change_questions(
        folder,
        lambda row: {**row, "question": "what COLOUR is the thing number0"} if row["id"] == "q1" else row,
    )
    data = make(models_of("slimplm-labels"), sets=("training_data.balance=false",))
    assert len(data.rows) == 7
    assert data.drops == {"a repeated question": 1}
    assert "| a repeated question | 1 |" in data.card.read_text()


def test_the_card_says_what_the_rows_are_and_what_of(folder: Path, make: Make) -> None:
    data = make(models_of("slimplm-labels"))
    text = data.card.read_text()
    rows = data.classes["known"] + data.classes["unknown"]
    for line in (
        "# rows.jsonl",
        f"| rows | {rows} |",
        f"| known | {data.classes['known']} |",
        f"| {next(iter(data.drops))} | {8 - rows} |",
        "| split | train, 8 questions |",
        "| known | matching ratio above 0.5 |",
        "| licence of the source | not known to ragc; look where the questions and passages come from |",
        f"| model of the role proxy | name scripted, identity {digest('proxy')[:16]} |",
        "| seed | 3 |",
    ):
        assert line in text.splitlines()
    assert re.search(r"^\| begun \| \d{4}-\d\d-\d\d \|\n\| recipe \| \w{64} \|$", text, re.MULTILINE)


def test_the_licence_of_a_known_data_set_is_on_the_card(folder: Path) -> None:
    own = 'questions = "questions.jsonl"\ncorpus = "corpus.jsonl"'
    text = (folder / "recipe.toml").read_text().replace(own, 'dataset = "pydocs"\ntrain = 3\ndev = 3')
    (folder / "recipe.toml").write_text(text)
    models = targets(main=lambda r: {}, proxy=lambda r: {"heuristic_answer": "str"}, teacher=lambda r: {})
    card = maker(folder, "slimplm-labels")(models, sets=("training_data.balance=false",)).card.read_text()
    assert re.search(r"^\| licence of the source \| (?!not known).+ \|$", card, re.MULTILINE)


CHANGES: Mapping[str, Callable[[Path], object]] = {
    "a file of the user's": lambda folder: (folder / "rows.jsonl").write_text("mine\n"),
    "a card of the user's": lambda folder: (folder / "rows.md").write_text("mine\n"),
    "a binary card": lambda folder: (folder / "rows.md").write_bytes(b"\xff\xfe\x00"),
    "a folder": lambda folder: (folder / "rows.jsonl").mkdir(),
    "a link": lambda folder: (folder / "rows.md").symlink_to(folder / "recipe.toml"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_files_of_others_are_not_replaced(folder: Path, make: Make, what: str) -> None:
    CHANGES[what](folder)
    models = models_of("slimplm-labels")
    with pytest.raises(Foreign, match="choose another --out or move it away"):
        make(models)
    assert n_sent(models) == 0


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.md"])
def test_files_that_were_changed_since_are_not_replaced(folder: Path, make: Make, name: str) -> None:
    make(models_of("slimplm-labels"))
    mine = "a line of mine\n" + (folder / name).read_text()
    (folder / name).write_text(mine)
    with pytest.raises(Foreign, match=f"{name} was changed since ragc wrote it"):
        make(models_of("slimplm-labels"))
    assert (folder / name).read_text() == mine


def test_two_processes_do_not_write_one_file(folder: Path, make: Make) -> None:
    other = open_state("training_data", folder / "rows.jsonl", "writing")
    with other, pytest.raises(UsageError, match="Another process is writing"):
        make(models_of("slimplm-labels"))


def test_gold_answers_are_needed_before_anything_is_sent(folder: Path, make: Make) -> None:
    change_questions(folder, lambda row: {**row, "answers": []})
    models = models_of("slimplm-labels")
    with pytest.raises(UsageError, match="answers"):
        make(models)
    assert n_sent(models) == 0


def test_pairs_for_llamafactory_hold_one_message_each(tmp_path: Path) -> None:
    folder = folder_of("prefrag-dpo", tmp_path)
    make = maker(folder, "prefrag-dpo")
    trl, other = (make(models_of("prefrag-dpo"), format=name) for name in ("trl", "llamafactory"))
    unlisted = [{**row, "chosen": row["chosen"][0], "rejected": row["rejected"][0]} for row in trl.rows]
    assert other.rows == unlisted
    entry = llamafactory_entry("rows.jsonl", "prefrag-dpo")
    assert json.dumps({"rows": entry}, indent=2) in other.card.read_text()
    assert entry["ranking"] is True


def test_a_dry_run_estimates_the_calls_and_sends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of("prefrag-dpo", tmp_path)
    recipe, out = str(folder / "recipe.toml"), str(folder / "rows.jsonl")
    command = ["data", "prefrag-dpo", recipe, "--out", out, "--dry-run"]
    assert main([*command, "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["calls_a_question"] == 4 + 3 * 11 + 1
    assert planned["lm_calls_about"] == 4 * 38
    assert main(command) == 0
    assert "about 152 LM calls if all replies can be read" in capsys.readouterr().out
    assert not list(folder.glob("rows.*"))


@pytest.mark.parametrize("kind", KINDS)
def test_no_question_takes_more_calls_than_planned(tmp_path: Path, kind: str) -> None:
    folder, models = folder_of(kind, tmp_path, n=2), models_of(kind)
    planned = ragc.training_data(kind, folder / "recipe.toml", dry_run=True)
    maker(folder, kind)(models)
    assert n_sent(models) <= planned["lm_calls_about"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_thought_is_in_a_row(tmp_path: Path, kind: str) -> None:
    folder = folder_of(kind, tmp_path)
    make = maker(folder, kind)

    def thinks(answer: Answering) -> Answering:
        def say(request: ChatRequest) -> Any:
            said = answer(request)
            return f"<think>zebra</think>{said if isinstance(said, str) else json.dumps(said)}"

        return say

    make(models_of(kind), "plain/rows.jsonl", store=CallStore(folder / "store of the plain"))
    make(targets(**{role: thinks(answer) for role, answer in KINDS[kind][1].items()}))
    assert (folder / "rows.jsonl").read_bytes() == (folder / "plain/rows.jsonl").read_bytes()
