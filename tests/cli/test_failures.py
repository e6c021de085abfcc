"""What the command line says of failures, of a study in which all fails, and of data that shows nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.examples import thorough
from tests.optimizers.colours import write_data
from tests.processes import ragc
from tests.support.loopback import MODEL, Loopback
from tests.support.recipes import recipe_toml, vllm, write_files

UNREADABLE = "A reply is no JSON"


class Model:
    """Answers `red`, or nothing that can be read to questions that hold one of `unreadable`."""

    def __init__(self) -> None:
        self.unreadable: tuple[str, ...] = ()

    def __call__(self, body: Mapping[str, Any]) -> str:
        text = json.dumps(body["messages"])
        return "%%%" if any(part in text for part in self.unreadable) else json.dumps({"answer": "red"})


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def server(model: Model) -> Iterator[Loopback]:
    with Loopback(latency_s=0.0, answer=model) as endpoint:
        yield endpoint


@pytest.fixture
def folder(tmp_path: Path, server: Loopback, model: Model) -> Path:
    write_data(tmp_path)
    model.unreadable = ()
    written(tmp_path, server, 20, 20)
    return tmp_path


def written(folder: Path, server: Loopback, dev: int, test: int) -> None:
    recipe = recipe_toml(
        search={"knobs": ["top_k"], "trials": 2, "batch": 1},
        data={"train": 2, "dev": dev, "test": test},
        targets={"main": vllm(server.url, MODEL)},
        metrics=["em"],
    )
    write_files(folder, recipe=recipe)


def test_asking_what_cannot_be_answered_exits_1_and_says_why(folder: Path, model: Model) -> None:
    model.unreadable = ("number7?",)
    status, out, err = ragc(folder, "ask", "recipe.toml", "What colour is thing number5?")
    assert (status, err) == (0, "")
    arguments = "ask", "recipe.toml", "What colour is thing number7?"
    status, out, err = ragc(folder, *arguments)
    assert status == 1
    assert out.splitlines()[-1] == "A: none"
    assert UNREADABLE not in out
    assert err.startswith(f"ragc: The question has no answer: {UNREADABLE}")
    status, out, err = ragc(folder, *arguments, "--json")
    assert status == 1
    assert json.loads(out)["failure"].startswith(UNREADABLE)
    assert json.loads(out)["prediction"] is None
    assert err.startswith("ragc: The question has no answer")
    assert "This is a reply of an earlier run; --again asks the model anew." in err
    model.unreadable = ()
    assert ragc(folder, *arguments)[0] == 1, "it is replayed"
    assert ragc(folder, *arguments, "--again")[0] == 0


def test_where_all_fails_a_compile_exits_1_and_writes_nothing(folder: Path, model: Model) -> None:
    model.unreadable = ("thing number",)
    status, out, err = ragc(folder, "compile", "recipe.toml", "--out", "mine")
    assert (status, out) == (1, "")
    assert f"baseline; 20 of 20 questions failed: {UNREADABLE}" in err
    last = err.splitlines()[-1]
    assert last.startswith("ragc: Nothing was compiled, because no dev question was answered by the baseline")
    assert "--again" in last
    assert f"20 of 20 questions failed: {UNREADABLE}" in last
    assert not (folder / "mine").exists()
    status, out, _ = ragc(folder, "study", "status", "mine")
    assert f"20 of 20 questions failed: {UNREADABLE}" in out


def test_small_data_is_named_before_anything_is_sent(folder: Path, server: Loopback) -> None:
    written(folder, server, 4, 4)
    nothing = "4 dev and 4 test questions cannot show anything"
    sent = server.log.requests
    assert nothing in ragc(folder, "compile", "recipe.toml", "--dry-run")[1]
    assert json.loads(ragc(folder, "compile", "recipe.toml", "--dry-run", "--json")[1])["note"].startswith(
        nothing
    )
    assert server.log.requests == sent
    status, out, err = ragc(folder, "compile", "recipe.toml", "--out", "mine")
    assert status == 0
    assert nothing in err.splitlines()[0]
    assert "The baseline is kept" in out
    assert "changed by 0.000" not in out


@thorough
def test_a_spent_budget_may_be_raised_and_the_study_goes_on(folder: Path, server: Loopback) -> None:
    compiling = "compile", "recipe.toml", "--out"
    tight, roomy = ("--set", "budget.lm_calls=30"), ("--set", "budget.lm_calls=5000")
    _, out, err = ragc(folder, *compiling, "mine", *tight)
    assert "budget.lm_calls" in out + err
    before = server.log.requests
    status, _, err = ragc(folder, *compiling, "mine", *roomy, "--set", "concurrency=2", "--resume")
    assert status == 0, err
    sent = server.log.requests - before
    assert sent > 0
    whole = ragc(folder, *compiling, "whole", *roomy, "--set", "concurrency=2")
    assert whole[0] == 0
    assert server.log.requests == before + sent
    for name in ("program.json", "provenance.json", "recipe.toml"):
        assert (folder / "mine" / name).read_bytes() == (folder / "whole" / name).read_bytes(), name
    assert "lm_calls = 5000" in (folder / "mine" / "recipe.toml").read_text("utf-8")
    status, _, err = ragc(folder, *compiling, "mine", "--resume", "--set", "seed=9", "--set", "budget.usd=1")
    assert status == 2
    assert "(- seed = 0; + seed = 9)" in err
