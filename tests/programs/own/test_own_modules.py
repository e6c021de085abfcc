"""A user's own DSPy module in a recipe: searched, compiled, asked, exported, kept from strangers."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import dspy
import pytest

import ragc
from ragc import recipe as recipes
from ragc.cli.main import main
from ragc.errors import BudgetExhausted, RagcError, RecipeError, Untrusted, UsageError
from ragc.optimizers import compile as compiling
from ragc.optimizers.plan.estimate import estimate
from ragc.programs.own.program import OwnProgram
from ragc.programs.runtime import Runtime
from ragc.records import Passage
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, ScriptedTarget
from tests import processes
from tests.programs.own.common import HEAD, MODULE, drop_package, number_in, script
from tests.support.loopback import Loopback

FORMATS = ("jinja2", "openai-json", "prompty", "dotprompt", "promptfoo", "langchain",
           "llamaindex", "haystack", "baml", "mlflow", "openai-batch", "python")  # fmt: skip


def compiled_in(folder: Path, *sets: str, **more: Any) -> tuple[Any, ScriptedTarget]:
    target = ScriptedTarget(script)
    recipe = recipes.load(folder / "recipe.toml", sets)
    return compiling.compile(recipe, folder / "out", targets={"main": target}, **more), target


def test_a_module_of_a_recipe_is_searched_and_compiled_and_a_second_run_sends_nothing(folder: Path) -> None:
    result, target = compiled_in(folder)
    assert result.test["em"].mean == 1 > result.baseline["em"].mean
    state = json.loads((folder / "out" / "program.json").read_text("utf-8"))
    assert state["method"] == "my_package.my_module:TwoHops"
    assert {"hops", "share", "shout", "tone"} <= set(state["knobs"])
    assert set(state["predictors"]) == {"plan", "answer.predict"}
    assert state["predictors"]["answer.predict"]["demos"]
    assert (folder / "out" / "prompts" / "plan.md").is_file()
    sent = len(target.requests)
    assert sent > 0
    again = compiling.compile(recipes.load(folder / "recipe.toml"), folder / "out2", targets={"main": target})
    assert (again.test, again.baseline) == (result.test, result.baseline)
    assert len(target.requests) == sent
    written = [folder / name / "program.json" for name in ("out", "out2")]
    assert written[0].read_bytes() == written[1].read_bytes()


def test_instructions_are_proposed_for_its_predictors(folder: Path) -> None:
    seen = list[str]()

    def answer(request: ChatRequest) -> Any:
        fields = set((request.schema or {}).get("properties", {}))
        if fields & {"query", "answer"}:
            return script(request)
        seen.append(request.messages[-1].content)
        names = list((request.schema or {}).get("properties", {}))
        return {name: f"Answer with care and look at the {name} first." for name in names}

    target = ScriptedTarget(answer)
    sets = ["search.instructions=1", "search.demos=0", "search.knobs=[]", "search.trials=3"]
    recipe = recipes.load(folder / "recipe.toml", sets)
    compiling.compile(recipe, folder / "out", targets={"main": target})
    sent = "\n".join(request.messages[0].content for request in target.requests)
    assert "Answer with care" in sent
    assert any("for _ in range(self.hops)" in text for text in seen), "the proposer reads the user's code"


def test_the_budget_holds_even_where_the_code_catches_every_error(folder: Path) -> None:
    with pytest.raises(BudgetExhausted):
        compiled_in(folder, "budget.lm_calls=5")
    (folder / "my_package" / "my_module.py").write_text(
        HEAD + "class TwoHops(dspy.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.answer = dspy.Predict('question -> answer')\n"
        "    def forward(self, question):\n"
        "        try:\n"
        "            return self.answer(question=question)\n"
        "        except Exception:\n"
        "            return dspy.Prediction(answer='unknown')\n",
        "utf-8",
    )
    drop_package()
    with pytest.raises(BudgetExhausted):
        compiled_in(folder, "search.knobs=[]", "budget.lm_calls=3", "seed=5", include_seen=True)


def test_a_plan_estimates_its_calls(folder: Path) -> None:
    plan = estimate(recipes.load(folder / "recipe.toml", ["search.demos=0", "data.train=0"]), None)
    assert plan["lm_calls_about"] > 0


def test_declared_values_shape_the_module_and_retrieve_searches_the_source(folder: Path) -> None:
    recipe = recipes.load(folder / "recipe.toml")
    passages = [Passage(f"p{n}", "Numbers", f"Number {n} is a{n}.") for n in range(5)]
    runtime = Runtime({"main": ScriptedTarget(script)}, {"local": ListSource(passages)})
    program = recipe.method.build(runtime, {"hops": 2, "shout": True})
    prediction = program(question="What is number 3?")
    assert prediction.answer == "A3"
    assert prediction.counters["lm_calls"] == 3
    assert prediction.counters["searches"] == 2
    kinds = [next(name for name in ("call", "search") if name in e.to_json()) for e in prediction.trace]
    assert kinds == ["call", "search", "call", "search", "call"]
    assert prediction.passages == ["Numbers\nNumber 0 is a0.", "Numbers\nNumber 1 is a1."] * 2
    shown = [passage.id for passage in program.shown_passages(prediction)]
    assert shown == ["p0", "p1"] * 2, "known by their text"
    assert program.most_calls() == 3
    names = [knob.name for knob in recipe.method.knobs.list_knobs()]
    assert names[-4:] == ["hops", "share", "shout", "tone"]
    module = sys.modules["my_package.my_module"].TwoHops()
    assert (module.hops, module.share, module.shout, module.tone) == (1, 0.5, False, "plain")
    with pytest.raises(UsageError, match="hops must be between 1 and 3"):
        recipe.method.knobs.of({"hops": 9})


def test_the_commands_compile_ask_score_trust_list_and_export(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(body: Any) -> str:
        number = number_in(str(body["messages"][-1]["content"]))
        right = len(body["messages"]) > 2 or int(number) % 3 == 0
        values = {"query": f"number {number}", "reasoning": "So.", "answer": f"a{number}" if right else "no"}
        return "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in values.items())

    monkeypatch.chdir(folder)
    with Loopback(latency_s=0.0, answer=answer) as server:
        text = (folder / "recipe.toml").read_text("utf-8")
        served = f'kind = "vllm"\nmodel = "loopback"\nbase_url = "{server.url}"'
        (folder / "recipe.toml").write_text(text.replace('kind = "embedded"', served), "utf-8")
        assert main(["compile", "recipe.toml", "--out", "out"]) == 0
        sent = server.answer_count
        assert main(["compile", "recipe.toml", "--out", "out2"]) == 0
        assert server.answer_count == sent
        capsys.readouterr()
        assert main(["ask", "out", "What is number 50?"]) == 0
        assert "a50" in capsys.readouterr().out
        (folder / "chatty.py").write_text(
            "print('imported')\ndef score(prediction, question):\n    print('scored')\n    return 1\n"
        )
        chatty = ["--split", "dev", "--set", 'metrics.report=["chatty:score"]', "--json"]
        assert main(["eval", "recipe.toml", *chatty]) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["metrics"]["chatty:score"]["mean"] == 1
        assert "imported" in err
        assert "scored" in err
        assert main(["eval", "out", "--split", "test"]) == 0
        assert main(["list", "knobs", "my_package.my_module:TwoHops"]) == 0
        assert "hops" in capsys.readouterr().out
        foreign = stranger(folder)
        assert main(["ask", str(foreign), "What is number 50?"]) != 0
        assert "--trust-code" in capsys.readouterr().err
        assert not (foreign / "my_package" / "loaded").exists()
        assert main(["ask", str(foreign), "What is number 50?", "--trust-code", "--trust-targets"]) == 0
        assert "a50" in capsys.readouterr().out
        assert (foreign / "my_package" / "loaded").exists()


def stranger(folder: Path) -> Path:
    """What `folder` compiled as somebody else would hand it over, and nothing of it imported."""
    foreign = folder.parent / "foreign"
    shutil.copytree(folder / "out", foreign)
    ignored = shutil.ignore_patterns("loaded")
    shutil.copytree(folder / "my_package", foreign / "my_package", ignore=ignored, dirs_exist_ok=True)
    for file in ("corpus.jsonl", "questions.jsonl"):
        shutil.copy(folder / file, foreign / file)
    provenance = json.loads((foreign / "provenance.json").read_text("utf-8"))
    (foreign / "provenance.json").write_text(json.dumps({**provenance, "seed": 99}), "utf-8")
    drop_package()
    return foreign


def test_a_directory_from_elsewhere_imports_nothing_without_leave(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled_in(folder)
    foreign = stranger(folder)
    loaded = foreign / "my_package" / "loaded"
    for use in (
        lambda: ragc.ask(foreign, "What is number 1?"),
        lambda: ragc.evaluate(foreign),
        lambda: ragc.export(foreign, "jinja2", foreign.parent / "prompts"),
        lambda: ragc.ask(foreign, "What is number 1?", sets=["seed=3"], access=ragc.Access(targets=True)),
    ):
        with pytest.raises(Untrusted, match=r"program = 'my_package\.my_module:TwoHops'.*code=True"):
            use()
        assert not loaded.exists()
    code = "import sys, ragc\nprint('\\n'.join(ragc.trust_listing(sys.argv[1]).lines()))"
    listed = processes.run(["-c", code, str(foreign)], cwd=Path.cwd(), environment=os.environ)
    assert listed.returncode == 0, listed.stderr
    assert "program = 'my_package.my_module:TwoHops': imports this module and runs it" in listed.stdout
    code = (
        "import sys, ragc\nprint(ragc.study_status(sys.argv[1]).to_json())\n"
        "assert 'my_package' not in sys.modules"
    )
    status = processes.run(["-c", code, str(folder / "out")], cwd=Path.cwd(), environment=os.environ)
    assert status.returncode == 0, status.stderr
    assert "'searched': ['hops', 'shout']" in status.stdout
    assert not loaded.exists(), "listing imports nothing"
    exported = ragc.export(foreign, "jinja2", foreign.parent / "prompts", access=ragc.Access(code=True))
    assert exported.written
    assert loaded.exists()
    loaded.unlink()
    drop_package()
    ragc.trust(foreign)
    assert ragc.export(foreign, "jinja2", foreign.parent / "again").written


def test_its_prompts_are_exported_in_every_format_and_python_says_what_is_missing(folder: Path) -> None:
    compiled_in(folder)
    target = folder.parent / "exports"
    exported = ragc.export(folder / "out", "all", target)
    assert set(exported.written) | set(exported.refused) == set(FORMATS)
    assert set(exported.refused) <= {"openai-batch"}, exported.refused
    assert (
        "cases" in exported.refused.get("openai-batch", "cases")
        or "questions" in exported.refused["openai-batch"]
    )
    assert set(ragc.check_export(folder / "out", target).split(", ")) == set(exported.written)
    readme = (target / "jinja2" / "README.md").read_text("utf-8")
    note = (
        "What happens between the calls is the code of my_package.my_module:TwoHops, which no export holds."
    )
    assert note in readme
    code = (target / "python" / "my_package_my_module_TwoHops.py").read_text("utf-8")
    assert note in code
    assert "def answer(" not in code


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("my_package.my_modul:TwoHops", RecipeError, "neither beside the recipe"),
        ("my_package.my_module:TwoHop", RecipeError, "Did you mean 'TwoHops'"),
        ("my_package.my_module:pathlib", RecipeError, "is module, no class of a dspy.Module"),
        ("my_package.my_module:Plan", RecipeError, "is Plan, no class of a dspy.Module"),
        ("my_package/my_module.py", RecipeError, "No program is named"),
    ],
)
def test_what_is_no_program_is_one_sentence(
    folder: Path, name: str, kind: type[RagcError], says: str
) -> None:
    with pytest.raises(kind, match=says) as error:
        compiled_in(folder, f"program={name}", "search.knobs=[]")
    assert "\n" not in str(error.value)


PREDICTOR = "self.answer = dspy.Predict('question -> answer')"


def module_of(body: str, init: str = PREDICTOR, declares: str = "") -> str:
    lines = [
        HEAD,
        "class TwoHops(dspy.Module):",
        f"    {declares or 'pass'}",
        "    def __init__(self):",
        "        super().__init__()",
        *(f"        {line}" for line in init.split("\n")),
        *(f"    {line}" for line in body.split("\n")),
    ]
    return "\n".join(lines) + "\n"


PLAIN = "def forward(self, question):\n    return self.answer(question=question)"
GIVES = "def forward(self, question): return {}"


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("import nowhere_to_be_seen\n" + MODULE, "imports 'nowhere_to_be_seen', which is not installed"),
        ("1 / 0\n" + MODULE, "ZeroDivisionError: division by zero; mend the module"),
        ("def broken(:\n" + MODULE, "SyntaxError"),
        (
            module_of(PLAIN, declares="n = ragc.number('three', 1, 9, 'x')"),
            "holds 'three', which is no number",
        ),
        (module_of(PLAIN, declares="n = ragc.number(True, 0, 9, 'x')"), "holds True, which is no number"),
        (module_of(PLAIN, declares="n = ragc.number(float('nan'), 0, 9)"), "holds nan, which is no number"),
        (module_of(PLAIN, declares="n = ragc.number(3)"), r"ragc.number\(3\) has no range"),
        (module_of(PLAIN, declares="n = ragc.number(12, 1, 9, 'x')"), "its default does not lie in"),
        (module_of(PLAIN, declares="n = ragc.number(3, 9, 1, 'x')"), "its default does not lie in"),
        (module_of(PLAIN, declares="n = ragc.switch('yes', 'x')"), "neither True nor False"),
        (module_of(PLAIN, declares="n = ragc.choice('a', (), 'x')"), "has no options"),
        (module_of(PLAIN, declares="n = ragc.choice('a', ('b', 'c'), 'x')"), "not among its options"),
        (
            module_of(PLAIN, declares="temperature = ragc.number(3, 1, 9)"),
            "declares 'temperature', which every",
        ),
        (module_of(PLAIN, PREDICTOR + "\nself.n = ragc.number(3, 1, 9)"), "declares 'n' in __init__"),
        (module_of(PLAIN, init="pass"), "has no predictors to compile"),
        (module_of("def run(self, question): pass"), "has no forward"),
        (module_of(GIVES.format("'x'")), "must return a dspy.Prediction, and it returned str"),
        (module_of(PLAIN, declares="most_calls = 'many'"), "gives 'many' as most_calls"),
        (
            module_of(PLAIN, PREDICTOR + "\nself.by = {'a/b': dspy.Predict('question -> answer')}"),
            "has a name that no file can have",
        ),
        (
            module_of(PLAIN).replace("def __init__(self)", "def __init__(self, size)"),
            "cannot be built without arguments: TypeError: .*; give every argument of __init__ a default",
        ),
        (
            module_of(PLAIN, PREDICTOR + "\nopen('no_such_notes.txt')"),
            "FileNotFoundError: .*; correct its __init__",
        ),
    ],
)
def test_what_cannot_be_compiled_is_one_sentence(folder: Path, module: str, says: str) -> None:
    (folder / "my_package" / "my_module.py").write_text(module, "utf-8")
    with pytest.raises(RagcError, match=says) as error:
        compiled_in(folder, "search.knobs=[]", "search.demos=0", "data.train=0")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 420


def test_a_study_goes_on_only_with_the_module_that_it_began_with(folder: Path) -> None:
    target = ScriptedTarget(script)

    def go_on(*sets: str) -> Any:
        recipe = recipes.load(folder / "recipe.toml", sets)
        return compiling.compile(recipe, folder / "out", resume=True, targets={"main": target})

    with pytest.raises(BudgetExhausted):
        go_on("budget.lm_calls=5")
    go_on("budget.lm_calls=500")
    (folder / "my_package" / "my_module.py").write_text(MODULE + "\n# changed\n", "utf-8")
    drop_package()
    with pytest.raises(UsageError, match=r"changed since the study.*the module of 'my_package"):
        go_on("budget.lm_calls=500")


def test_two_folders_may_have_modules_of_one_name(tmp_path: Path, folder: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    changed = MODULE.replace("answer=answer.upper() if self.shout else answer", "answer='other'")
    (other / "my_package" / "my_module.py").write_text(changed, "utf-8")
    first, second = (recipes.load(at / "recipe.toml") for at in (folder, other))
    runtime = Runtime({"main": ScriptedTarget(script)}, {"local": ListSource([])})
    answers = [r.method.build(runtime)(question="What is number 3?").answer for r in (second, first, second)]
    assert answers == ["other", "a3", "other"]


def test_it_is_built_in_python_by_name_class_and_instance(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    parts: dict[str, Any] = {"main": ScriptedTarget(script), "local": ListSource([]), "store": False}
    named = ragc.program("my_package.my_module:TwoHops", hops=2, **parts)
    assert isinstance(named, OwnProgram)
    cls = sys.modules["my_package.my_module"].TwoHops
    mine = cls()
    mine.answer.predict.demos = [dspy.Example(question="q", notes=[], reasoning="r", answer="a")]
    for own in (named, ragc.program(cls, hops=2, **parts), ragc.program(mine, hops=2, **parts)):
        assert own(question="What is number 3?").counters["lm_calls"] == 3
    assert not hasattr(mine.plan, "runtime"), "an instance stays as it is"
    with pytest.raises(UsageError, match=r"or a dspy\.Module, found int"):
        ragc.program(3, **parts)
