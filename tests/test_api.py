"""The public names of ragc, programs without a recipe, and what each object says of itself."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_overloads

import dspy
import pytest

import ragc
from ragc.cli.commands import COMMANDS
from ragc.cli.main import module_of
from ragc.core.display import VALUE, WHOLE, describe
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import begun, needs_demos, written
from tests.paths import ROOT
from tests.support.colours import COLOURS
from tests.support.rows import write_rows

PASSAGES = [
    {"id": "stop", "title": "Iterators", "text": "StopIteration ends an iterator."},
    {"id": "key", "title": "Mappings", "text": "KeyError is raised for a key that is not there."},
    {"id": "zero", "title": "Numbers", "text": "ZeroDivisionError follows a division by zero."},
]
QUESTION = "Which exception ends an iterator?"
KEY = "sk-abcdefghij0123456789"


def answers(request: ChatRequest) -> dict[str, str]:
    """The exception that the first passage of the prompt names."""
    words = request.messages[-1].content.split()
    return {"answer": next(word for word in words if word.endswith(("Error", "Iteration")))}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def handbook(home: Path) -> Path:
    path = home / "handbook.jsonl"
    write_rows(path, PASSAGES)
    return path


def vanilla(target: Any = None, **more: Any) -> ragc.RagProgram:
    local = more.pop("local", None) or ragc.source("bm25", corpus=PASSAGES)
    return ragc.program("vanilla", main=target or ScriptedTarget(answers), local=local, **more)


# Names


def test_names_are_sorted_each_once_and_each_says_what_it_is() -> None:
    assert ragc.__all__ == sorted(set(ragc.__all__))
    for name in ragc.__all__:
        value = getattr(ragc, name)
        assert name in dir(ragc)
        if name != "__version__":
            text = inspect.getdoc(value) or ""
            assert text.partition("\n")[0].strip(), f"{name} has no docstring"
            assert not text.startswith(f"{name}("), f"{name} has the docstring that dataclasses write"


def test_what_type_checkers_see_is_what_is_imported_when_used() -> None:
    tree = ast.parse(Path(ragc.__file__).read_text("utf-8"))
    seen = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == ragc._MODULE_OF
    for name, module in seen.items():
        assert getattr(ragc, name) is getattr(importlib.import_module(str(module)), name)


def functions_called(command: Path) -> set[tuple[str, str]]:
    """The public functions that the file of a command calls: their modules and names."""
    tree = ast.parse(command.read_text("utf-8"))
    modules = {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "ragc.api"
        for alias in node.names
    }
    return {
        (f"ragc.api.{node.func.value.id}", node.func.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in modules
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_calls_public_functions(command: str) -> None:
    called = functions_called(ROOT / f"src/{module_of(command).replace('.', '/')}.py")
    assert called
    for module, name in called:
        assert name in ragc.__all__
        assert getattr(ragc, name) is getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("name", ["compile", "grid", "headroom", "new", "reproduce", "training_data"])
def test_functions_that_spend_take_a_dry_run(name: str) -> None:
    with_plan, result = get_overloads(getattr(ragc, name))
    assert inspect.signature(with_plan).parameters["dry_run"].annotation == "Literal[True]"
    assert inspect.signature(with_plan).return_annotation == "dict[str, Any]"
    assert inspect.signature(result).return_annotation in ragc.__all__
    names = list(inspect.signature(getattr(ragc, name)).parameters)
    assert (
        names == list(inspect.signature(with_plan).parameters) == list(inspect.signature(result).parameters)
    )


def test_training_data_needs_a_file_unless_nothing_is_written() -> None:
    write: Any = ragc.training_data
    with pytest.raises(ragc.UsageError, match="Training data needs `out`, the file"):
        write("prefrag-dpo", "recipe.toml")
    with pytest.raises(ragc.UsageError, match="Demonstrations send nothing, so there is nothing to plan"):
        write("demonstrations", "compiled", dry_run=True)


def test_names_are_listed_by_kind() -> None:
    assert {"id", "about"} <= ragc.list_names("sources")[0].keys()
    assert "top_k" in {row["id"] for row in ragc.list_names("knobs", "vanilla")}
    with pytest.raises(ragc.UnknownName, match="Did you mean 'metrics'"):
        ragc.list_names("metric")


def test_the_machine_is_examined_with_or_without_a_recipe(home: Path) -> None:
    (home / "questions.jsonl").write_text('{"id": "q", "question": "Why?", "answers": ["so"]}\n')
    (home / "recipe.toml").write_text(
        'program = "no_retrieval"\nmetrics.report = ["em"]\n'
        '[data]\nquestions = "questions.jsonl"\ntrain = 0\ndev = 1\ntest = 0\n'
        '[targets.main]\nkind = "vllm"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    machine = ragc.examine()
    assert {"python", "cpus"} <= {check.id for check in machine}
    checks = ragc.examine("recipe.toml")
    assert [check.id for check in checks[-2:]] == ["recipe", "main"]
    assert not checks[-1].ok
    with pytest.raises(ragc.UsageError, match="`sets` is for the targets of a recipe"):
        ragc.examine(sets=["seed=1"])


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ragc' has no attribute 'compil'"):
        ragc.compil  # noqa: B018


def test_importing_the_package_imports_no_heavy_library() -> None:
    heavy = ("dspy", "optuna", "numpy", "litellm", "pydantic")
    code = f"import sys, ragc; ragc.program; ragc.Hit; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("use", ["metrics.score('em', 'Red.', ['red'])", "recipe.load"])
def test_packages_that_hold_public_functions_need_no_import_of_their_own(use: str) -> None:
    subprocess.run([sys.executable, "-c", f"import ragc; assert ragc.{use}"], check=True)


# Programs without a recipe


def test_a_program_answers_from_a_file_of_the_working_directory(handbook: Path) -> None:
    program = vanilla(local=ragc.source("bm25", corpus="handbook.jsonl"), top_k=1)
    assert isinstance(program, dspy.Module)
    assert isinstance(program, ragc.RagProgram)
    prediction = program(question=QUESTION)
    assert prediction.answer == "StopIteration"
    assert [passage.id for passage in prediction.passages] == ["stop"]
    assert prediction.counters["lm_calls"] == 1
    assert [type(event).__name__ for event in prediction.trace] == ["Search", "Call"]


@pytest.mark.parametrize(
    "corpus",
    [
        PASSAGES,
        iter(PASSAGES),
        [ragc.Passage(row["id"], row["title"], row["text"]) for row in PASSAGES],
        [row["text"] for row in PASSAGES],
        [{"text": row["text"]} for row in PASSAGES],
    ],
    ids=["mappings", "iterator", "records", "texts", "without ids"],
)
def test_a_corpus_may_be_in_memory(corpus: Any) -> None:
    assert (
        vanilla(local=ragc.source("bm25", corpus=corpus), top_k=1)(question=QUESTION).answer
        == "StopIteration"
    )


def test_the_columns_of_a_table_are_mapped(home: Path) -> None:
    (home / "pages.csv").write_text("page,body\n1,StopIteration ends an iterator.\n", "utf-8")
    local = ragc.source("bm25", corpus=home / "pages.csv", fields={"id": "page", "text": "body"})
    assert vanilla(local=local)(question=QUESTION).passages[0].id == "1"


def test_replies_are_kept_for_the_next_program_unless_they_should_not_be() -> None:
    first, second, third = (ScriptedTarget(answers) for _ in range(3))
    assert vanilla(first)(question=QUESTION).counters["sent"] == 1
    assert vanilla(second)(question=QUESTION).counters["replayed"] == 1
    assert vanilla(third, store=False)(question=QUESTION).counters["sent"] == 1
    assert [len(target.requests) for target in (first, second, third)] == [1, 0, 1]


class Slow(ScriptedTarget):
    """A target whose context is known once it is open."""

    opened = 0

    async def open(self, progress: Any = None) -> None:
        self.opened += 1
        await asyncio.sleep(0.01)


def test_targets_are_opened_once_at_the_first_question_whoever_asks() -> None:
    target = Slow(answers)
    program = vanilla(target)
    assert target.opened == 0
    questions = [f"{QUESTION} {number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda text: program(question=text).answer, questions))
    assert replies == ["StopIteration"] * 8
    assert asyncio.run(program.acall(question=QUESTION)).answer == "StopIteration"
    assert target.opened == 1


class Shut(Slow):
    """A target that cannot be opened at first."""

    async def open(self, progress: Any = None) -> None:
        await super().open()
        if self.opened == 1:
            raise ragc.TargetUnavailable("no server answers")


def test_a_target_that_could_not_be_opened_is_tried_again() -> None:
    program = vanilla(Shut(answers))
    with pytest.raises(ragc.TargetUnavailable, match="no server answers"):
        program(question=QUESTION)
    assert program(question=QUESTION).answer == "StopIteration"


def test_dspy_evaluates_and_ragc_compiles_such_a_program() -> None:
    things = [(f"thing number{i}", COLOURS[i % 5]) for i in range(18)]
    corpus = [f"{thing.capitalize()} is {colour}." for thing, colour in things]
    program = vanilla(ScriptedTarget(needs_demos), local=ragc.source("bm25", corpus=corpus))
    examples = [
        dspy.Example(question=f"What colour is {thing}?", answer=colour).with_inputs("question")
        for thing, colour in things
    ]
    evaluate = dspy.Evaluate(devset=examples, metric=lambda example, reply: example.answer == reply.answer)
    before = evaluate(program).score
    compiled = ragc.Compile(metric="em", trials=2, demos=2).compile(
        program, trainset=examples[:8], valset=examples[8:]
    )
    assert evaluate(compiled).score > before


def test_targets_and_sources_of_each_kind_are_those_of_recipes() -> None:
    lm = ragc.target("vllm", model="Qwen/Qwen2.5-7B-Instruct", base_url="http://127.0.0.1:8000/v1", tries=2)
    assert (lm.name, lm.concurrency) == ("vllm Qwen/Qwen2.5-7B-Instruct", 64)
    assert ragc.target("embedded", context=512).context_tokens == 512
    assert ragc.target("hosted", model="openai/gpt-4o-mini").model == "openai/gpt-4o-mini"
    assert ragc.source("bm25", corpus=PASSAGES, titles=True, rerank="bm25").kind == "bm25"
    assert ragc.source("given", corpus=PASSAGES).kind == "given"


def test_a_target_may_fall_back_on_one_of_another_name() -> None:
    lm = ragc.target("vllm", model="m", base_url="http://127.0.0.1:8000/v1", fallbacks=["spare"])
    program = ragc.program("no_retrieval", main=lm, spare=ScriptedTarget(answers))
    assert program.runtime.gateway.fallbacks[lm] == (program.runtime.targets["spare"],)


# Bad input

LM, LOCAL = ScriptedTarget(answers), ragc.source("bm25", corpus=PASSAGES)
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "program": (lambda: ragc.program("vanila"), "No program is named 'vanila'. Did you mean 'vanilla'?"),
    "no target": (
        lambda: ragc.program("vanilla", local=LOCAL),
        "A target with the role 'main' is needed, found none; pass main=ragc.target(...).",
    ),
    "no source": (
        lambda: ragc.program("vanilla", main=LM),
        "A source named 'local' is needed, found none; pass local=ragc.source(...).",
    ),
    "role": (
        lambda: ragc.program("vanilla", mian=LM, local=LOCAL),
        "No target role is named 'mian'. Did you mean 'main'?",
    ),
    "source": (
        lambda: ragc.program("vanilla", main=LM, locl=LOCAL),
        "No source of vanilla is named 'locl'. Did you mean 'local'?",
    ),
    "knob": (
        lambda: ragc.program("vanilla", main=LM, local=LOCAL, topk=3),
        "No knob of vanilla is named 'topk'. Did you mean 'top_k'?",
    ),
    "range": (
        lambda: ragc.program("vanilla", main=LM, local=LOCAL, top_k=300),
        "knob top_k must be between 1 and 20, found 300",
    ),
    "text for a source": (
        lambda: ragc.program("vanilla", main=LM, local="bm25"),
        "Program 'vanilla' takes a source as 'local', found str; pass local=ragc.source(...) or a function.",
    ),
    "source for a target": (
        lambda: ragc.program("vanilla", main=LOCAL, local=LOCAL),
        "Program 'vanilla' takes a target as 'main', found Bm25Source; pass main=ragc.target(...) or a dspy.LM.",  # noqa: E501
    ),
    "target kind": (
        lambda: ragc.target("embeded"),
        "No target kind is named 'embeded'. Did you mean 'embedded'?",
    ),
    "target option": (
        lambda: ragc.target("embedded", contxt=512),
        "contxt: unknown key. Did you mean 'context'?",
    ),
    "target argument": (
        lambda: ragc.target("embedded", modle="handbook.gguf"),
        "No argument of ragc.target is named 'modle'. Did you mean 'model'?",
    ),
    "sets as a text": (
        lambda: ragc.compile(Path("handbook.jsonl"), sets="search.trials=3"),
        "sets is a list of overrides, such as sets=['search.trials=5', 'seed=2'], found str.",
    ),
    "weights": (
        lambda: ragc.target("embedded", model="handbook.jsn"),
        "model = 'handbook.jsn': there is no such file. Did you mean 'handbook.jsonl'?",
    ),
    "key": (
        lambda: ragc.target("hosted", model="openai/gpt-4o-mini", api_key=KEY),
        "api_key: unknown key. Did you mean 'api_key_env'?",
    ),
    "key in the place of a variable": (
        lambda: ragc.target("hosted", model="openai/gpt-4o-mini", api_key_env=KEY),
        "The option api_key_env of a target names an environment variable, such as OPENAI_API_KEY",
    ),
    "source kind": (
        lambda: ragc.source("bm26", corpus=PASSAGES),
        "No source kind is named 'bm26'. Did you mean 'bm25'?",
    ),
    "source option": (
        lambda: ragc.source("bm25", corpus=PASSAGES, title_bost=3),
        "title_bost: unknown key. Did you mean 'title_boost'?",
    ),
    "no corpus": (
        lambda: ragc.source("bm25"),
        "A source of kind 'bm25' searches a corpus; pass corpus= the path of a file or a list of passages.",
    ),
    "mapping": (
        lambda: ragc.source("bm25", corpus={"paris": "Paris is in France."}),
        "corpus: is a mapping; pass a list of passages",
    ),
    "empty corpus": (lambda: ragc.source("bm25", corpus=[]), "holds no passage"),
    "corpus file": (
        lambda: ragc.source("bm25", corpus="handbok.jsonl"),
        "corpus = 'handbok.jsonl': there is no such file. Did you mean 'handbook.jsonl'?",
    ),
    "corpus of the web": (
        lambda: ragc.source("web", corpus=PASSAGES),
        "A source of kind 'web' searches no corpus of passages; leave corpus out.",
    ),
    "fields of a list": (
        lambda: ragc.source("bm25", corpus=PASSAGES, fields={"id": "page"}),
        "`fields` maps the columns of a file; a list of passages has none, so leave it out.",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_is_one_sentence_that_names_what_is_near(case: str, handbook: Path) -> None:
    call, text = WRONG[case]
    with pytest.raises(ragc.UsageError) as caught:
        call()
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_everything_that_is_wrong_in_a_corpus_is_told_at_once() -> None:
    with pytest.raises(ragc.DataError) as caught:
        ragc.source("bm25", corpus=[3, {"txt": "a"}, {"text": 4}, "fine"])  # type: ignore[list-item]
    assert caught.value.problems == (
        "item 0: a number is no passage; pass texts, mappings or ragc.Passage",
        "item 1: `text` is missing. Did you mean 'txt'?",
    )


# What objects say of themselves


def test_programs_sources_and_targets_say_what_they_are() -> None:
    local = ragc.source("bm25", corpus=PASSAGES, titles=True, rerank="bm25")
    program = ragc.program("vanilla", main=ragc.target("embedded"), local=local, top_k=2, cot=True)
    assert repr(program) == (
        "RagProgram('vanilla', main=embedded SmolLM2-135M-Instruct, "
        "local=RerankedSource(TitleSource(Bm25Source(3 passages, k1=0.9, b=0.4, title_boost=1)), "
        "reranker=Bm25Reranker, pool=50), cot=True, top_k=2)"
    )
    assert repr(ragc.target("embedded")) == "EmbeddedTarget('SmolLM2-135M-Instruct', context=4096)"
    server = ragc.target("vllm", model="m", base_url="http://user:pass@127.0.0.1:8000/v1?key=k3y")
    assert repr(server) == "ChatTarget('http://127.0.0.1:8000/v1', 'm')"
    assert repr(ragc.target("vllm", model="m", serve=True)) == "ServedTarget('m')"
    assert repr(ragc.source("given", corpus=PASSAGES)) == "GivenSource(3 passages, k1=0.9, b=0.4)"
    assert repr(ragc.source("bm25", corpus=["one"], chunk_size=100)) == (
        "Bm25Source(1 passage, k1=0.9, b=0.4, title_boost=1, chunk_size=100)"
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ragc.Compiled:
    folder = written(tmp_path_factory.mktemp("colours"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGC_HOME", str(folder / "home"))
        return begun(folder)(sets=("search.trials=2",))


def test_what_a_compile_gives_says_what_it_is(
    compiled: ragc.Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGC_HOME", str(compiled.path.parent / "home"))
    program = compiled.program
    assert repr(compiled).startswith(f"Compiled('{compiled.path}'"[:VALUE])
    assert "program=vanilla" in repr(compiled)
    assert f"verdict={compiled.verdict}, em=" in repr(compiled)
    assert repr(program).startswith("CompiledProgram(program=vanilla, ")
    assert f"verdict={compiled.verdict})" in repr(program)
    assert repr(ragc.load(compiled.path)).startswith("CompiledProgram('/")
    assert compiled.example is not None
    assert repr(compiled.example[0]).startswith("Row('What colour is thing number")
    status = ragc.study_status(compiled.path)
    assert "finished, 2 of 2 trials" in repr(status)


def test_an_evaluation_and_a_comparison_say_what_they_are(compiled: ragc.Compiled) -> None:
    from ragc.compiled import evaluate
    from ragc.compiled.opened import open_program

    opened = open_program(
        compiled.path, targets={"main": ScriptedTarget(needs_demos)}, access=ragc.Access(compiled.path.parent)
    )
    scores = evaluate.score(opened, "dev")
    assert repr(scores).startswith("Evaluation(20 questions, em=")
    rows = compiled.path.parent / "rows.jsonl"
    rows.write_text("".join(json.dumps(row.to_json()) + "\n" for row in scores.rows), "utf-8")
    unchanged = ", ".join(f"{name}=not shown to be better" for name in ("em", "f1", "recall@5"))
    assert repr(ragc.compare(rows, rows)).endswith(f"rose=0, fell=0, by=em, {unchanged})")


def test_no_description_is_long_or_tells_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hidden-by-its-name")
    text = describe("Thing", "x" * 1000, url="http://me:secret@host/", key=KEY, own="hidden-by-its-name")
    assert len(text) <= WHOLE
    assert not [secret for secret in ("secret", KEY, "hidden-by-its-name") if secret in text]
    assert len(describe("Thing", *["y" * 50] * 100)) <= WHOLE
    program = vanilla(temperature=0.5, top_p=0.9, cot=True, layout="chat", query_pos="both", noise_n=3)
    program.predictors()[0].demos = [{"question": "q" * 5000, "answer": "a"}] * 3
    assert len(repr(program)) <= WHOLE
    assert "demos=3" in repr(program)
