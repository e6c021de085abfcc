"""The peers and the proposer on a scripted target: through our store and budget, with valid results."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import dspy
import pytest

from ragc import recipe as recipes
from ragc.compiled.base import CompiledProgram, load
from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.core.progress import Silent
from ragc.errors import BudgetExhausted, TargetUnavailable, UnknownName, UsageError
from ragc.optimizers.candidates.instructions.propose import propose_instructions
from ragc.optimizers.external.optimize import PEERS, ExternalResult, optimize
from ragc.optimizers.harness.teacher import teacher_lm
from ragc.programs.runtime import Runtime
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Reply, Usage
from ragc.task.base import Task, prepare
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.support.colours import COLOURS, colour_passages, colour_questions
from tests.support.recipes import recipe_toml, write_files

RECIPE = recipe_toml(
    seed=3,
    concurrency=8,
    search={"knobs": ["top_k"], "demos": 2, "trials": 4, "objectives": ["em"]},
    metrics=["em", "f1"],
)

Make = Callable[..., Task]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return maker(tmp_path)


def maker(folder: Path) -> Make:
    """Makes tasks on a target, with overrides of the recipe; all of them share one store."""
    passages = colour_passages(40, "Thing number{i} is {colour}, made in {i}.")
    write_files(folder, recipe=RECIPE, questions=colour_questions(40, train=12, dev=12), corpus=passages)
    store = CallStore(folder / "store")

    def task(target: Any, *sets: str, text: str = "", **roles: Any) -> Task:
        path = folder / "recipe.toml"
        if text:
            path = folder / "other.toml"
            path.write_text(text, "utf-8")
        targets: Any = {"main": target, **roles}
        return prepare(recipes.load(path, sets), store=store, targets=targets)

    return task


class Teacher:
    """Answers questions and writes instructions, by the digest of what it is asked.

    An answer is right when it was shown how, or told to give `the colour alone`; else it says too much.
    """

    def __call__(self, request: ChatRequest) -> Reply:
        if names(request) == {"answer"}:
            prompt = request.messages[-1].content
            thing = re.findall(r"thing (number\d+)\?", prompt)[-1]
            right = next((c for c in COLOURS if f"{thing} is {c}," in prompt), "unknown")
            instructed = len(request.messages) > 2 or any(
                "the colour alone" in m.content for m in request.messages
            )
            text = json.dumps({"answer": right if instructed else f"It may be {right}"})
            return Reply(text, usage=Usage(20, 5))
        drawn = [[list(m) for m in request.messages], request.sample, request.sampling.seed]
        mark = sha256(json.dumps(drawn).encode()).hexdigest()[:8]
        return SchemaReplies(text=f"Give the colour alone, as in rule {mark}.")(request)


def search(name: str, task: Task) -> ExternalResult:
    return event_loop.run(optimize(name, task, limit=asyncio.Semaphore(8), progress=Silent()))


@dataclass
class Searched:
    """A search, and the same one again with one question in flight and a target that knows no answer."""

    task: Task
    target: ScriptedTarget
    outcome: ExternalResult
    again: ExternalResult
    spent: Counters


@pytest.fixture(scope="module", params=list(PEERS))
def searched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Searched:
    make = maker(tmp_path_factory.mktemp(request.param))
    target = ScriptedTarget(Teacher())
    task = make(target)
    with counting(Counters()) as spent:
        outcome = search(request.param, task)
    again = search(request.param, make(ScriptedTarget([]), "concurrency=1"))
    return Searched(task, target, outcome, again, spent)


def test_every_call_is_in_the_budget_and_in_the_counters(searched: Searched) -> None:
    spent = searched.spent
    assert searched.task.budget.spent.calls == len(searched.target.requests) == spent.sent
    assert spent.lm_calls == searched.outcome.counters["lm_calls"] == spent.sent + spent.replayed


def test_what_is_found_beats_the_baseline_and_can_be_saved(searched: Searched, tmp_path: Path) -> None:
    task, outcome = searched.task, searched.outcome
    program = event_loop.run(outcome.program(task))
    compiled = CompiledProgram.of(program, provenance={}, recipe=task.recipe.to_toml(), run={})
    compiled.save(tmp_path / "out", program)
    again = load(tmp_path / "out").build(task.runtime)
    assert again.answer.fingerprint == program.answer.fingerprint
    assert bool(again.answer.demos) == (outcome.name in ("mipro", "random"))
    assert max(outcome.trials) == 1.0 > outcome.trials[0]
    assert ("the colour alone" in again.answer.signature.instructions) == (outcome.name != "random")
    assert again(question=task.test[0].question).answer == task.test[0].answers[0]


@pytest.mark.parametrize("name", list(PEERS))
def test_a_target_that_goes_away_is_an_error_and_no_score(make: Make, name: str) -> None:
    count = iter(range(10**6))

    def going(request: ChatRequest) -> Reply:
        if next(count) > 30:
            raise TargetUnavailable("the server is gone")
        return Teacher()(request)

    with pytest.raises(TargetUnavailable, match="the server is gone"):
        search(name, make(ScriptedTarget(going)))


@pytest.mark.parametrize("name", ["mipro", "gepa", "random"])
def test_an_unreadable_reply_is_a_wrong_answer(make: Make, name: str) -> None:
    def half(request: ChatRequest) -> Reply:
        lost = names(request) == {"answer"} and any("number13?" in m.content for m in request.messages)
        return Reply("") if lost else Teacher()(request)

    outcome = search(name, make(ScriptedTarget(half, capabilities=("schema",))))
    assert max(outcome.trials) < 1.0


def test_dev_questions_may_lack_a_gold_answer(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    bare = [row if row["split"] == "train" else {**row, "answers": []} for row in rows]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in bare), "utf-8")
    sets = ('search.objectives=["recall@3"]', 'metrics.report=["recall@3"]')
    outcome = search("random", make(ScriptedTarget(Teacher()), *sets))
    assert outcome.trials


def test_an_unreadable_reply_is_no_good_one_where_less_is_better(make: Make) -> None:
    def reply(request: ChatRequest) -> Any:
        number = re.findall(r"thing number(\d+)\?", request.messages[-1].content)[-1]
        if len(request.messages) > 2:
            return "%%%"
        return {"answer": COLOURS[int(number) % 5] if int(number) % 2 else "none of them"}

    sets = ['search.objectives=["-crag_halluc"]', 'metrics.report=["crag_halluc"]']
    sets += ['metrics.crag_judge="none"']
    outcome = search("random", make(ScriptedTarget(reply), *sets))
    assert not any(choice.demos for choice in outcome.predictors.values())
    assert (max(outcome.trials), min(outcome.trials)) == (-0.5, -1)


def test_the_teacher_writes_and_main_answers(make: Make) -> None:
    main, teacher = ScriptedTarget(Teacher()), ScriptedTarget(Teacher(), identity="teacher")
    text = RECIPE.replace("[metrics]", '[targets.teacher]\nkind = "embedded"\n[metrics]')
    search("mipro", make(main, text=text, teacher=teacher))
    assert {frozenset(names(request)) for request in main.requests} == {frozenset({"answer"})}
    assert {"proposed_instruction"} in [names(request) for request in teacher.requests]


def test_without_schemas_the_teacher_is_read_as_chat(make: Make) -> None:
    def chat(request: ChatRequest) -> Reply:
        field = re.findall(r"\[\[ ## (\w+) ## \]\]", request.messages[-1].content)
        if not field:
            return Teacher()(ChatRequest(request.messages, schema={"properties": {"answer": {}}}))
        fields = "".join(f"[[ ## {name} ## ]]\nGive the colour alone.\n\n" for name in field)
        return Reply(fields + "[[ ## completed ## ]]")

    outcome = search("mipro", make(ScriptedTarget(chat, capabilities=())))
    assert max(outcome.trials) == 1.0


def test_a_search_keeps_dspy_as_it_was_and_prints_nothing(make: Make, capfd: Any) -> None:
    before = dspy.settings.lm, len(dspy.clients.base_lm.GLOBAL_HISTORY), threading.active_count()
    for name in PEERS:
        search(name, make(ScriptedTarget(Teacher())))
    assert dspy.settings.lm is before[0]
    assert len(dspy.clients.base_lm.GLOBAL_HISTORY) == before[1]
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_what_a_peer_lacks_is_said_in_one_sentence(make: Make) -> None:
    target = ScriptedTarget([])
    with pytest.raises(UnknownName, match="Did you mean 'mipro'"):
        search("miprov2", make(target))
    with pytest.raises(UsageError, match=r"needs train questions, found none; set data\.train"):
        search("gepa", make(target, "search.demos=0", "data.train=0"))
    answering = ScriptedTarget(Teacher())
    with pytest.raises(UsageError, match=r"search\.demos is 0"):
        search("random", make(answering, "search.demos=0"))


def names(request: ChatRequest) -> set[str]:
    return set(request.schema["properties"]) if request.schema else set()


def test_both_sources_propose_and_the_present_instruction_comes_first(make: Make) -> None:
    target = ScriptedTarget(Teacher())
    task = make(target)
    program = task.method.build(task.runtime)
    proposals = event_loop.run(propose_instructions(program, task, n=5))
    assert set(proposals) == {"answer"}
    assert proposals["answer"][0] == program.answer.signature.instructions
    assert len(proposals["answer"]) == len(set(proposals["answer"])) == 5
    field_sets = [names(request) for request in target.requests]
    assert {"proposed_instruction"} in field_sets
    assert {"new_instruction"} in field_sets


def test_reflection_sees_what_went_wrong_and_why(make: Make) -> None:
    target = ScriptedTarget(Teacher())
    task = make(target)
    event_loop.run(propose_instructions(task.method.build(task.runtime), task, n=3))
    prompt = next(r.messages[-1].content for r in target.requests if names(r) == {"new_instruction"})
    assert "Score: 0 of 1 by em." in prompt
    assert "words around it that should not be there" in prompt
    assert "The expected answer stands in [1]" in prompt


def test_a_spent_budget_ends_the_proposing(make: Make) -> None:
    task = make(ScriptedTarget(Teacher()), "budget.lm_calls=20")
    with pytest.raises(BudgetExhausted, match="20 LM calls"):
        event_loop.run(propose_instructions(task.method.build(task.runtime), task, n=4))
    assert task.budget.spent.calls == 20


def teacher(target: ScriptedTarget, seed: int = 0) -> Any:
    return teacher_lm(Runtime({"main": target}, store=CallStore(None)), seed=seed)


def test_a_search_that_is_cancelled_sends_nothing_more(make: Make) -> None:
    target = ScriptedTarget(Teacher())
    begun = threading.Event()

    def answering(request: ChatRequest) -> Reply:
        if len(target.requests) > 15:
            begun.set()
        return Teacher()(request)

    target._function = answering
    task = make(target, "search.trials=40")

    async def cut() -> None:
        work = asyncio.ensure_future(optimize("random", task, limit=asyncio.Semaphore(8), progress=Silent()))
        await asyncio.to_thread(begun.wait)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    event_loop.run(cut())
    event_loop.run(asyncio.sleep(0.3))
    sent = len(target.requests)
    event_loop.run(asyncio.sleep(0.3))
    assert len(target.requests) == sent
