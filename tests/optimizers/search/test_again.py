"""A study that asks anew: a new salt, in which replies of before are kept and not used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy import lm15

import ragc
from ragc import recipe as recipes
from ragc.compiled import evaluate
from ragc.compiled.opened import open_program
from ragc.errors import NothingAnswered, UsageError
from ragc.optimizers import compile as compiling
from ragc.optimizers.search.directory import salt_of
from ragc.optimizers.search.storage import study_directory
from ragc.testing import ScriptedTarget
from tests.programs.own.common import fit, number_in, write_folder

SETS = ('program="no_retrieval"', "search.knobs=[]", "search.demos=0", "search.trials=2", "data.train=0")


@pytest.fixture
def folder(home: Path) -> Path:
    return write_folder(home / "recipes")


class Model(ScriptedTarget):
    """A model that answers as it is `well`, and else with what nobody can read."""

    def __init__(self) -> None:
        super().__init__(self._reply_to)
        self.well = True

    def _reply_to(self, request: Any) -> Any:
        if not self.well:
            return "%%%"
        return fit(request, {"answer": f"a{number_in(request.messages[-1].content)}"})


def compiled(folder: Path, target: ScriptedTarget, *sets: str, out: str = "out", **how: Any) -> Any:
    recipe = recipes.load(folder / "recipe.toml", (*SETS, *sets))
    return compiling.compile(recipe, folder / out, targets={"main": target}, **how)


def test_again_asks_anew_once_and_what_was_kept_before_stays(folder: Path) -> None:
    target = Model()
    compiled(folder, target)
    first = len(target.requests)
    compiled(folder, target)
    assert len(target.requests) == first, "the same command replays"
    compiled(folder, target, again=True)
    assert len(target.requests) == 2 * first
    salt = salt_of(study_directory(folder / "out"))
    assert salt
    compiled(folder, target)
    compiled(folder, target, resume=True)
    assert len(target.requests) == 2 * first, "what was asked anew is replayed from then on"
    assert salt_of(study_directory(folder / "out")) == salt
    compiled(folder, target, out="other")
    assert len(target.requests) == 2 * first, "the replies of before are kept, for others"
    compiled(folder, target, again=True)
    assert len(target.requests) == 3 * first
    opened = open_program(folder / "out", SETS[-1:], targets={"main": target})
    evaluate.score(opened, "test")
    assert len(target.requests) == 3 * first, "a later evaluation uses the replies that were measured"


def test_again_and_a_study_that_began_without_it_are_refused_together(folder: Path) -> None:
    target = Model()
    compiled(folder, target)
    with pytest.raises(UsageError, match="--again asks anew from the beginning, and --resume"):
        compiled(folder, target, again=True, resume=True)


def test_a_baseline_that_fails_everywhere_ends_the_study_and_again_is_the_way_out(folder: Path) -> None:
    target = Model()
    target.well = False
    with pytest.raises(NothingAnswered, match=r"by the baseline: 6 of 6 .*Every reply is kept.*--again"):
        compiled(folder, target)
    spent = len(target.requests)
    assert spent == 12, "six questions, each asked twice as its reply cannot be read"
    target.well = True
    with pytest.raises(NothingAnswered, match=r"Every reply was replayed from an earlier run.*--again"):
        compiled(folder, target)
    with pytest.raises(NothingAnswered, match="by the baseline: 6 of 6"):
        compiled(folder, target, resume=True)
    assert len(target.requests) == spent
    assert compiled(folder, target, again=True).test["em"].mean == 1


def test_other_programs_are_tried_where_the_baseline_fails(folder: Path) -> None:
    def reply(request: Any) -> Any:
        names = list((request.schema or {}).get("properties", {}))
        if "reasoning" not in names:
            return "%%%"
        return fit(request, {"reasoning": "So.", "answer": f"a{number_in(request.messages[-1].content)}"})

    result = compiled(folder, ScriptedTarget(reply), 'search.programs=["cot"]')
    assert result.program.state.method == "cot"


class Engine:
    """A model that counts its requests and answers right where it is `well`."""

    supports_response_schema = supports_function_calling = supports_reasoning = False
    supported_params: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.sent, self.well, self.field = 0, True, "answer"

    def __deepcopy__(self, memo: object) -> Engine:
        return self

    def complete(self, request: lm15.Request) -> lm15.Response:
        self.sent += 1
        text = f"[[ ## {self.field} ## ]]\na{number_in(str(request.messages))}\n\n[[ ## completed ## ]]"
        return lm15.Response(
            id=None, model=request.model, message=lm15.Message.assistant(text if self.well else "%%%"),
            finish_reason="stop", usage=lm15.Usage(input_tokens=10, output_tokens=5),
        )  # fmt: skip


EXAMPLES = [
    dspy.Example(question=f"What is number {n}?", answer=f"a{n}").with_inputs("question") for n in range(4)
]


def by_compile(lm: Any, **how: Any) -> Any:
    with dspy.context(lm=lm):
        optimizer = ragc.Compile(metric="em", demos=0, trials=1, **how)
        return optimizer.compile(dspy.Predict("question -> answer"), trainset=[], valset=EXAMPLES)


def test_an_lm_without_a_cache_is_asked_anew_by_every_study(folder: Path) -> None:
    engine = Engine()
    lm = dspy.LM("mine/model", engine=engine, cache=False)
    engine.well = False
    with pytest.raises(NothingAnswered, match=r"No reply is kept for another study.*asks all anew") as error:
        by_compile(lm, out=folder / "out")
    assert "replayed" not in str(error.value)
    assert "--again" not in str(error.value)
    with pytest.raises(NothingAnswered, match="unless it resumes this study"):
        by_compile(lm, out=folder / "out", resume=True)
    engine.well, before = True, engine.sent
    by_compile(lm, out=folder / "out")
    assert engine.sent == before + 4
    by_compile(lm, out=folder / "out", resume=True)
    assert engine.sent == before + 4, "a study that is resumed sends nothing twice"


def test_compile_asks_anew_with_again(folder: Path) -> None:
    engine = Engine()
    lm = dspy.LM("mine/model", engine=engine)
    by_compile(lm)
    by_compile(lm)
    assert engine.sent == 4
    by_compile(lm, again=True)
    assert engine.sent == 8
    with pytest.raises(UsageError, match="give out a folder"):
        ragc.Compile(resume=True)
