"""Instructions that evolve inside a study: what the teacher sees, what races, and that nothing else moves."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.cli.main import main
from ragc.errors import RecipeError, UsageError
from ragc.optimizers import compile as compiling
from ragc.optimizers.candidates.instructions.filters import MAX_CHARACTERS
from ragc.optimizers.candidates.instructions.rounds import combine
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.compile import Compiled
from ragc.optimizers.search.storage import study_directory
from ragc.optimizers.status import status
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import ScriptedTarget
from tests.examples import cases, thorough
from tests.optimizers.colours import Run, colour_of, identical

ROUNDS = ("search.instructions=2", "search.instruction_rounds=3", "search.demos=0", "search.knobs=[]")
RULES = ("one word", "small letters")


def is_reflection(request: ChatRequest) -> bool:
    return "new_instruction" in json.dumps(request.schema or {})


def prompt_of(request: ChatRequest) -> str:
    return "\n".join(message.content for message in request.messages)


def evolving(request: ChatRequest) -> dict[str, Any]:
    """Needs both rules for a right answer to every second question, one for the others.

    As a teacher it adds one rule to those that it reads.
    """
    prompt = prompt_of(request)
    if is_reflection(request):
        rules = [rule for rule in RULES if f"Use {rule}." in prompt]
        missing = [rule for rule in RULES if rule not in rules]
        mark = int(sha256(f"{prompt}{request.sample}".encode()).hexdigest()[:8], 16)
        rules += [missing[mark % len(missing)]] if missing else []
        text = " ".join(["Name the colour.", *(f"Use {rule}." for rule in sorted(rules))])
        return {"new_instruction": text}
    rules = [rule for rule in RULES if f"Use {rule}." in prompt]
    number = int(re.findall(r"thing number(\d+)\?", prompt)[-1])
    right = colour_of(request)
    return {"answer": right if len(rules) > number % 2 else f"It may be {right}"}


def attributes(compiled: Compiled) -> list[dict[str, Any]]:
    """All trials of the study that led to `compiled`."""
    trials: list[dict[str, Any]] = json.loads((study_directory(compiled.path) / "trials.json").read_text())
    return trials


def instructions_of(compiled: Compiled) -> str:
    return compiled.program.state.predictors["answer"].instructions


def test_rounds_reach_what_one_reflection_does_not(run: Run) -> None:
    compiled = run(sets=ROUNDS, target=ScriptedTarget(evolving))
    assert all(f"Use {rule}." in instructions_of(compiled) for rule in RULES)
    assert compiled.test["em"].mean == 1.0
    assert compiled.baseline["em"].mean == 0.0
    stands = status(compiled.path)
    assert stands.rounds is not None
    assert (stands.rounds["held"], stands.rounds["of"]) == (3, 3)
    assert f"3 of 3 held, {stands.rounds['texts']} instruction" in "\n".join(stands.lines())


def test_the_teacher_reads_failures_on_train_questions_and_nothing_of_dev_or_test(run: Run) -> None:
    target = ScriptedTarget(evolving)
    run(sets=ROUNDS, target=target)
    prompts = [prompt_of(request) for request in target.requests if is_reflection(request)]
    seen = {int(number) for prompt in prompts for number in re.findall(r"thing number(\d+)\?", prompt)}
    assert prompts
    assert seen
    assert max(seen) < 15  # train; dev begins at 15
    assert all("Score: 0 of 1 by em." in prompt for prompt in prompts)


def test_the_teacher_role_writes_where_there_is_one(folder: Path) -> None:
    text = (folder / "recipe.toml").read_text("utf-8")
    (folder / "recipe.toml").write_text(
        text.replace("[metrics]", '[targets.teacher]\nkind = "embedded"\n[metrics]'), "utf-8"
    )
    main, teacher = ScriptedTarget(evolving), ScriptedTarget(evolving, identity="teacher")
    recipe = recipes.load(folder / "recipe.toml", ROUNDS)
    compiling.compile(
        recipe, folder / "out", store=CallStore(None), targets={"main": main, "teacher": teacher}
    )
    assert not any(map(is_reflection, main.requests))
    assert teacher.requests
    assert all(map(is_reflection, teacher.requests))


def test_children_race_beside_knobs_and_demonstrations(run: Run) -> None:
    sets = ("search.instructions=1", "search.instruction_rounds=3", "search.trials=12")
    compiled = run(sets=sets, target=ScriptedTarget(evolving))
    candidates = [trial["candidate"] for trial in attributes(compiled)]
    assert candidates[1]["instructions"] == {"answer": 1}  # a child is the first trial after the baseline
    assert any(c.get("instructions") and c["knobs"] != candidates[0]["knobs"] for c in candidates)
    assert any(c["demos"] for c in candidates)
    numbers = {c.get("instructions", {}).get("answer", 0) for c in candidates}
    assert max(numbers) <= 3


SMALL = (*ROUNDS, "data.dev=10", "data.test=6")


@pytest.mark.parametrize("calls", cases(range(24, 108, 12), 4))
def test_a_round_leaves_enough_of_the_budget_to_race_its_texts(run: Run, calls: int) -> None:
    sets, target = (*SMALL, f"budget.lm_calls={calls}"), ScriptedTarget(evolving)
    compiled = run(sets=sets, target=target)
    assert len(target.requests) <= calls
    assert compiled.verdict != "not measured"
    written = any(map(is_reflection, target.requests))
    assert written == any(trial["candidate"].get("instructions") for trial in attributes(compiled))
    assert written == (calls >= 60)  # the baseline, a race of two, both on test, and a reflection
    again = run("again", sets=sets, target=ScriptedTarget([]))
    assert identical(compiled.path, again.path)


HOSTILE = {
    "braces": "Write {{ question }} {% for x in y %} {answer} {0} {# c #} ${x} <% x %> \"\"\" ''' ## system",
    "surrogates": "\ud800 half \udfff",
    "control": "\x1b[31m \x00 \x9b \u202e \u2028 \r",
    "1 MB": "x y " * 250_000,
}


@thorough
@pytest.mark.parametrize("kind", HOSTILE)
def test_what_a_hostile_teacher_writes_is_a_bounded_text_or_nothing(
    kind: str, run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = "Use one word. Use small letters. "

    def hostile(request: ChatRequest) -> Any:
        return {"new_instruction": rules + HOSTILE[kind]} if is_reflection(request) else evolving(request)

    compiled = run(sets=SMALL, target=ScriptedTarget(hostile))
    written = instructions_of(compiled)
    assert written.startswith(rules.strip()) == (kind != "surrogates")
    assert len(written) <= MAX_CHARACTERS
    assert all(line.isprintable() for line in written.split("\n"))
    assert identical(compiled.path, run("again", sets=SMALL, target=ScriptedTarget([])).path)
    exported = main(["export", str(compiled.path), "--to", "jinja2", "--out", str(folder / "prompts")])
    assert exported == 0, capsys.readouterr().err  # an export proves that its prompts are the program's


def test_a_teacher_that_cannot_be_read_leaves_the_present_instruction(run: Run) -> None:
    def mute(request: ChatRequest) -> Any:
        return Reply("") if is_reflection(request) else evolving(request)

    compiled = run(sets=(*ROUNDS, "search.knobs=['top_k']"), target=ScriptedTarget(mute))
    assert instructions_of(compiled) == instructions_of(run("plain", sets=("search.demos=0",)))


def test_a_teacher_that_copies_train_questions_changes_nothing(run: Run) -> None:
    def parrot(request: ChatRequest) -> Any:
        if not is_reflection(request):
            return evolving(request)
        question = re.findall(r"What colour is thing number\d+\?", prompt_of(request))[0]
        return {"new_instruction": f"Use one word. Use small letters. For example: {question}"}

    compiled = run(sets=ROUNDS, target=ScriptedTarget(parrot))
    assert "For example" not in instructions_of(compiled)


def test_rounds_without_instructions_and_without_train_questions_are_refused(run: Run) -> None:
    with pytest.raises(RecipeError, match=r"instruction_rounds needs search\.instructions"):
        run(sets=("search.instruction_rounds=3",), target=ScriptedTarget([]))
    with pytest.raises(UsageError, match="needs train questions, found none"):
        run(sets=(*ROUNDS, "data.train=0"), target=ScriptedTarget([]))


def lead(number: int, **instructions: int) -> TrialResult:
    return TrialResult(number, Candidate({}, instructions=instructions), ({"em": 1.0},), (1.0,), True, {})


def test_two_parents_that_rewrote_different_calls_are_combined_without_a_request() -> None:
    united = combine(lead(1, query=2), lead(2, answer=3))
    assert united is not None
    assert united.instructions == {"query": 2, "answer": 3}
    united = combine(lead(1, query=2, answer=1), lead(2, query=4, answer=3))
    assert united is not None
    assert united.instructions == {"answer": 1, "query": 4}
    assert combine(lead(1, answer=2), lead(2, answer=3)) is None
    assert combine(lead(1, answer=2), lead(2)) is None


def test_two_texts_of_one_call_are_united_by_the_teacher(run: Run) -> None:
    """Each of two rules is right for other questions; the teacher writes both only where it reads both."""

    def split(request: ChatRequest) -> Any:
        prompt = prompt_of(request)
        if is_reflection(request):
            mark = int(sha256(f"{prompt}{request.sample}".encode()).hexdigest()[:8], 16)
            unite = "The other instruction" in prompt
            rules = [rule for rule in RULES if f"Use {rule}." in prompt] if unite else [RULES[mark % 2]]
            return {"new_instruction": " ".join(["Name the colour.", *(f"Use {rule}." for rule in rules)])}
        number = int(re.findall(r"thing number(\d+)\?", prompt)[-1])
        right = colour_of(request)
        return {"answer": right if f"Use {RULES[number % 2]}." in prompt else f"It may be {right}"}

    target = ScriptedTarget(split)
    compiled = run(sets=(*ROUNDS, "search.trials=12", "search.instruction_rounds=6"), target=target)
    united = [
        p for p in map(prompt_of, filter(is_reflection, target.requests)) if "The other instruction" in p
    ]
    assert united
    assert all(all(f"Use {rule}." in text for rule in RULES) for text in united)
    assert compiled.test["em"].mean == 1.0
