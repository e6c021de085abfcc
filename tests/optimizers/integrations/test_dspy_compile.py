"""ragc as an optimizer of DSPy's kind: a program, examples in memory, a metric, and a better program."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import dspy
import pytest
from dspy.teleprompt import Teleprompter

import ragc
from ragc.cli.main import main
from ragc.compiled.access import Access
from ragc.compiled.resolve import Opening, resolve
from ragc.errors import DataError, NothingAnswered, RagcError, RecipeError, UsageError
from ragc.optimizers.integrations import dspy_compile
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.records import Passage
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, ScriptedTarget
from tests.optimizers.colours import needs_demos
from tests.support.colours import COLOURS

pytestmark = pytest.mark.usefixtures("home")

THINGS = [Passage(f"d{i}", f"Thing {i}", f"Thing number{i} is {COLOURS[i % 5]}.") for i in range(40)]


def example(n: int, **more: Any) -> dspy.Example:
    values = {"question": f"What colour is thing number{n}?", "answer": COLOURS[n % 5], **more}
    return dspy.Example(**values).with_inputs("question")


def with_passages(*numbers: int) -> list[dspy.Example]:
    return [example(n, passages=[f"{THINGS[n].text} It is old.", "Nothing else."]) for n in numbers]


TRAIN, VAL = with_passages(*range(12)), with_passages(*range(12, 30))


def exact(gold: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
    return bool(prediction.answer == gold.answer)


def write_things(folder: Path) -> Path:
    path = folder / "things.jsonl"
    passages = ({"id": one.id, "title": one.title, "text": one.text} for one in THINGS)
    path.write_text("".join(json.dumps(one) + "\n" for one in passages), "utf-8")
    return path


def build_program(target: ScriptedTarget | None = None, **knobs: Any) -> RagProgram:
    target = target or ScriptedTarget(needs_demos)
    runtime = Runtime({"main": target}, {"local": ListSource(THINGS)}, store=CallStore(None))
    return method("vanilla").build(runtime, knobs)


def test_the_example_of_its_own_page_runs(tmp_path: Path) -> None:
    text = (dspy_compile.__doc__ or "").split("\n\n", 1)[1].rpartition("\n\nThe program that comes back")[0]
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        names: dict[str, Any] = {}
        exec(compile(dedent(text), "example", "exec"), names)
    finally:
        os.chdir(before)
    assert names["compiled"](question="Capital of France?").answer == "Paris"
    again = ragc.load(tmp_path / "compiled" / "france").build(names["program"].runtime)
    assert again(question="Capital of France?").answer == "Paris"


def test_what_was_compiled_in_python_is_of_use_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    compiled = ragc.Compile(metric=exact, trials=2, demos=1, out=out).compile(
        build_program(), trainset=TRAIN, valset=VAL
    )

    def ran(*words: str) -> str:
        code = main(list(words))
        printed = capsys.readouterr()
        return printed.out if code == 0 else printed.err

    status = ran("study", "status", str(out))
    assert re.search(r"^state +finished$", status, re.MULTILINE)
    assert re.search(r"^objectives +metric$", status, re.MULTILINE)
    assert "18 questions" in ran("report", str(out), "--out", str(tmp_path / "report.html"))
    rows = (tmp_path / "report.jsonl").read_text("utf-8").splitlines()
    shown = [one for one in map(json.loads, rows) if one["row"] == "question"]
    assert {one["question"] for one in shown} == {one.question for one in VAL}
    assert "is trusted on this machine" in ran("trust", str(out))
    assert "promptfoo" in ran("export", str(out), "--to", "promptfoo", "--out", str(tmp_path / "export"))
    config = (tmp_path / "export/answer/promptfooconfig.yaml").read_text("utf-8")
    assert compiled.predictors()[0].demos[0]["answer"] in config
    lacking = ran("ask", str(out), "What colour is thing number3?")
    assert "program 'vanilla' needs [targets.main], which was an object in Python" in lacking
    assert "--set targets.main.kind=embedded" in lacking
    assert "--set sources.local.kind=bm25" in lacking
    corpus = write_things(tmp_path)
    sets = {
        "targets.main": "{kind = 'hosted', model = 'openai/x', base_url = 'http://127.0.0.1:9'}",
        "targets.main.options": "{tries = 1}",
        "sources.local": f"{{kind = 'bm25', corpus = {str(corpus)!r}}}",
    }
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    assert "127.0.0.1:9" in ran("ask", str(out), "What colour is thing number3?", *words)


@pytest.mark.parametrize("search", [{"knobs": ["top_k"]}, {"ranges": {"top_k": [1, 3]}}])
def test_what_searches_knobs_begins_with_those_of_the_program(search: dict[str, Any]) -> None:
    target = ScriptedTarget(needs_demos)
    ragc.Compile(metric=exact, trials=1, demos=0, **search).compile(
        build_program(target, top_k=2), trainset=[], valset=[example(n) for n in range(20)]
    )
    first = target.requests[0].messages[-1].content
    assert "[2] " in first
    assert "[3] " not in first


@pytest.mark.parametrize("metric", [exact, "em"])
def test_a_better_program_comes_back_and_the_given_one_stays_as_it_was(metric: Any) -> None:
    target = ScriptedTarget(needs_demos)
    program = build_program(target, top_k=2)
    optimizer = ragc.Compile(metric=metric, trials=4, demos=2, seed=1)
    compiled = optimizer.compile(program, trainset=TRAIN, valset=VAL)
    assert isinstance(compiled, RagProgram)
    assert compiled is not program
    assert dict(program.named_predictors())["answer"].demos == []
    assert len(dict(compiled.named_predictors())["answer"].demos) in (1, 2)
    assert compiled.runtime is program.runtime
    assert compiled.knobs == program.knobs
    assert optimizer.compiled is not None
    dev = optimizer.compiled.provenance["dev"]
    (name,) = dev["winner"]
    assert dev["winner"][name]["mean"] == 1 > dev["baseline"][name]["mean"]
    demos = dict(compiled.named_predictors())["answer"].demos
    assert all("It is old." in demo["passages"][0] for demo in demos), "examples bring their passages"


def test_both_kinds_of_metric_and_a_second_run_give_the_same_program() -> None:
    states = []
    for metric in (exact, exact, "em"):
        optimizer = ragc.Compile(metric=metric, trials=3, demos=2, knobs=["top_k"])
        optimizer.compile(build_program(), trainset=TRAIN, valset=VAL)
        assert optimizer.compiled is not None
        states.append(optimizer.compiled.state)
    assert states[0] == states[1] == states[2]


def test_what_is_searched_are_the_sources_of_the_program_where_examples_bring_no_passages() -> None:
    target = ScriptedTarget(needs_demos)
    questions = [example(n) for n in range(20)]
    ragc.Compile(metric=exact, trials=1, demos=0, knobs=["top_k"]).compile(
        build_program(target), trainset=[], valset=questions
    )
    assert "[1] Thing 0\n" in target.requests[0].messages[-1].content


def test_it_is_evaluated_by_the_metrics_that_are_named_in_place_of_the_function(tmp_path: Path) -> None:
    out, target = tmp_path / "out", ScriptedTarget(needs_demos)
    ragc.Compile(metric=exact, trials=2, demos=1, out=out).compile(
        build_program(target), trainset=TRAIN, valset=VAL
    )
    rows = (
        {"id": f"q{n}", "question": example(n).question, "answers": [example(n).answer]} for n in range(4)
    )
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    write_things(tmp_path)
    sets = [
        "data.questions='questions.jsonl'", "data.train=0", "data.dev=0", "data.test=4",
        "sources.local={kind = 'bm25', corpus = 'things.jsonl'}",
    ]  # fmt: skip
    how = Opening(tuple(sets), Access(tmp_path))
    assert resolve(ragc.load(out), how, stand_ins=True).metrics.report == ("em",)
    how = Opening((*sets, "metrics.report=['f1', 'recall@5']"), Access(tmp_path))
    assert resolve(ragc.load(out), how, stand_ins=True).metrics.report == ("f1", "recall@5")
    with pytest.raises(RecipeError, match=r"needs \[targets.main\]"):
        resolve(ragc.load(out), how)


def test_the_id_of_a_function_is_no_metric_to_name() -> None:
    with pytest.raises(RecipeError, match="metric"):
        ragc.Compile(metric="metric", trials=1, demos=0).compile(build_program(), trainset=[], valset=VAL)


def test_progress_ends_with_what_was_chosen() -> None:
    lines: list[str] = []
    ragc.Compile(metric=exact, trials=2, demos=1, progress=lines.append).compile(
        build_program(), trainset=TRAIN, valset=VAL
    )
    assert re.search(r"chosen: .*; metric 1\.000 on 18 questions of the valset, which flatter it", lines[-1])


def test_without_a_valset_four_fifths_of_the_trainset_are_compared_on() -> None:
    optimizer = ragc.Compile(metric=exact, trials=1, demos=1)
    optimizer.compile(build_program(), trainset=VAL[:10])
    assert optimizer.compiled is not None
    sizes = {name: held["n"] for name, held in optimizer.compiled.provenance["data"].items()}
    assert sizes == {"train": 2, "dev": 8}


def test_without_a_valset_examples_of_one_question_stay_together() -> None:
    optimizer = ragc.Compile(metric=exact, trials=1, demos=1)
    optimizer.compile(build_program(), trainset=[*map(example, range(12)), *map(example, range(6))])
    assert optimizer.compiled is not None
    sizes = {name: held["n"] for name, held in optimizer.compiled.provenance["data"].items()}
    assert sum(sizes.values()) == 18
    assert 0 < sizes["train"] <= 4


def test_a_study_does_not_go_on_with_another_metric(tmp_path: Path) -> None:
    def half(gold: dspy.Example, prediction: dspy.Prediction) -> float:
        return 0.5

    def compiling(metric: Any, *, resume: bool = True) -> None:
        optimizer = ragc.Compile(metric=metric, trials=1, demos=0, out=tmp_path / "out", resume=resume)
        optimizer.compile(build_program(), trainset=[], valset=VAL[:4])

    compiling(exact, resume=False)
    with pytest.raises(UsageError, match="The metrics of the recipe changed since the study began"):
        compiling(half)
    compiling(exact)


def test_it_is_a_teleprompter_and_a_compiled_program_is_one_of_dspys(tmp_path: Path) -> None:
    optimizer = ragc.Compile(metric=exact, trials=2, demos=1, out=tmp_path / "out")
    assert isinstance(optimizer, Teleprompter)
    compiled = optimizer.compile(build_program(), trainset=TRAIN, valset=VAL)
    assert compiled._compiled
    compiled.save(tmp_path / "state.json")
    other = build_program()
    other.load(tmp_path / "state.json")
    assert other.dump_state() == compiled.dump_state()
    saved = ragc.load(tmp_path / "out")
    assert saved.build(other.runtime).dump_state() == compiled.dump_state()
    assert json.loads((tmp_path / "out" / "provenance.json").read_text("utf-8"))["search"]["trials"] == 2


def test_a_peer_stands_behind_the_same_call() -> None:
    optimizer = ragc.Compile(metric=exact, optimizer="random", trials=1, demos=2)
    compiled = optimizer.compile(build_program(), trainset=TRAIN, valset=VAL)
    assert dict(compiled.named_predictors())["answer"].demos
    assert optimizer.compiled is not None
    assert optimizer.compiled.provenance["search"]["optimizer"] == "random"


def test_its_budget_is_hard_and_instructions_of_the_callers_own_are_kept() -> None:
    target = ScriptedTarget(needs_demos)
    program = build_program(target)
    call = dict(program.named_predictors())["answer"]
    call.signature = call.signature.with_instructions("Name the colour.")
    optimizer = ragc.Compile(metric=exact, trials=9, demos=2, budget={"lm_calls": 40})
    compiled = optimizer.compile(program, trainset=TRAIN, valset=VAL)
    assert len(target.requests) <= 40
    assert all("Name the colour." in request.messages[0].content for request in target.requests)
    assert dict(compiled.named_predictors())["answer"].signature.instructions == "Name the colour."


def test_a_metric_may_call_models_and_programs_itself() -> None:
    def knows(request: ChatRequest) -> dict[str, str]:
        number = re.findall(r"thing number(\d+)\?", request.messages[-1].content)[-1]
        return {"answer": COLOURS[int(number) % 5]}

    judge = build_program(ScriptedTarget(knows))

    def judged(gold: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> float:
        return float(judge(question=gold.question).answer == prediction.answer)

    optimizer = ragc.Compile(metric=judged, trials=2, demos=1)
    optimizer.compile(build_program(), trainset=TRAIN, valset=VAL[:4])
    assert optimizer.compiled is not None
    assert optimizer.compiled.provenance["dev"]["winner"]["metric"]["mean"] == 1


class Mine(dspy.Module):
    pass


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        ({"program": Mine()}, UsageError, "Mine has no LM; set one with"),
        ({"teacher": Mine()}, UsageError, "no teacher"),
        ({"valset": []}, UsageError, "give it a valset"),
        ({"trainset": []}, UsageError, "trainset, which is empty"),
        ({"valset": TRAIN[:3]}, DataError, "share"),
        ({"valset": [dspy.Example(query="Why?")]}, UsageError, "needs `question`, found query"),
        (
            {"valset": [dspy.Example(question="Why?", answer=None)], "metric": "em"},
            UsageError,
            "`answer`, found question, answer = None",
        ),
        ({"valset": ["Why?"]}, UsageError, "found str"),
        ({"valset": [*VAL[:2], example(31)]}, UsageError, "valset come with passages and some do not"),
        ({"valset": [example(31, passages=[3])]}, UsageError, "a text or has a `text`, found 3"),
        (
            {"trainset": [], "valset": [example(31, id="a"), example(32, id="a")]},
            UsageError,
            "Two examples of the valset have the id 'a'",
        ),
        (
            {
                "trainset": [example(31, passages=[{"id": "0", "text": "One."}])],
                "valset": [example(32, passages=[{"id": "0", "text": "Another."}])],
            },
            UsageError,
            "Two different passages of the examples have the id '0'",
        ),
    ],
)
def test_what_it_cannot_work_with_is_one_clear_sentence(
    change: dict[str, Any], kind: type[RagcError], says: str
) -> None:
    arguments = {"program": build_program(), "trainset": TRAIN, "valset": VAL, "metric": exact, **change}
    demos = 4 if arguments["trainset"] or "valset" not in change else 0
    optimizer = ragc.Compile(metric=arguments.pop("metric"), demos=demos)
    with pytest.raises(kind, match=says):
        optimizer.compile(arguments.pop("program"), **arguments)


def test_settings_that_cannot_be_are_told_at_once() -> None:
    optimizer = ragc.Compile(metric="emm", trials=0, knobs=["topk"], budget={"calls": 3}, tials=3)
    with pytest.raises(RecipeError) as error:
        optimizer.compile(build_program(), trainset=TRAIN, valset=VAL)
    for part in ("emm", "trials", "top_k", "lm_calls", "tials"):
        assert part in str(error.value)


def test_arguments_of_another_type_are_told_before_anything_is_compiled() -> None:
    with pytest.raises(UsageError, match=r"budget is a table of limits.* found 50"):
        ragc.Compile(budget=50)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"is NoneType, no function"):
        ragc.Compile(metric=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metric", "says"),
    [
        (lambda gold, prediction: None, "gave None, which is no number; return one, as for all of the first"),
        (lambda gold, prediction: {"value": 1}, "gave {'value': 1}, which is no number"),
        (
            lambda gold, prediction: gold.colour,
            "raised AttributeError: .*colour.*all of the first 18 questions",
        ),
        (lambda gold: 1, r"called as \(example, prediction\)"),
        (dspy.Prediction, "is type, no function"),
    ],
)
def test_compile_of_a_metric_that_scores_nothing_ends_with_a_sentence(metric: Any, says: str) -> None:
    target = ScriptedTarget(needs_demos)
    with pytest.raises(UsageError, match=says):
        ragc.Compile(metric=metric, demos=4).compile(build_program(target), trainset=TRAIN, valset=VAL)
    assert len(target.requests) <= len(VAL)


def test_a_reply_that_cannot_be_read_scores_nothing_and_asks_no_metric() -> None:
    def broken(request: ChatRequest) -> str:
        return "[]"

    seen = list[dspy.Prediction]()

    def sees(gold: dspy.Example, prediction: dspy.Prediction) -> float:
        seen.append(prediction)
        return 1.0

    optimizer = ragc.Compile(metric=sees, demos=0)
    with pytest.raises(NothingAnswered, match="3 of 3 questions failed"):
        optimizer.compile(build_program(ScriptedTarget(broken)), trainset=[], valset=VAL[:3])
    assert seen == []

    def once(request: ChatRequest) -> Any:
        return {"answer": "red"} if VAL[0].question in request.messages[-1].content else "[]"

    optimizer.compile(build_program(ScriptedTarget(once)), trainset=[], valset=VAL[:3])
    assert len(seen) == 1
    assert optimizer.compiled is not None
    assert optimizer.compiled.provenance["dev"]["baseline"]["metric"]["mean"] == pytest.approx(1 / 3)
    assert optimizer.compiled.provenance["failures"]["dev"]["winner"]["n"] == 2
