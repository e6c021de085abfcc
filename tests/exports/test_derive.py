"""What is taken from a compiled program: slots, types, schemas, sampling, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dspy
import pydantic
import pytest

import ragc
from ragc.compiled.base import CompiledProgram, load
from ragc.errors import ArtefactError, ParseFailure, UsageError
from ragc.exports.derive import derive_export, models, prompt_of, runtime, tables
from ragc.exports.write import format_of
from ragc.programs import METHODS, Method, method
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import LAYOUTS, WORDINGS
from ragc.programs.runtime import Runtime
from ragc.prompts.model import NotExpressible
from ragc.targets.wire import body_of
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.exports.common import build_program, built
from tests.programs.own.test_as_in_dspy import Engine, lm_of

every = pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
VANILLA = method("vanilla")

RECIPE = """
program = "vanilla"
[data]
dataset = "hotpotqa"
questions = "/home/someone/questions.jsonl"
[search]
pick = "f1"
[sources.local]
kind = "bm25"
[targets.main]
kind = "vllm"
model = "Qwen/Qwen2.5-7B-Instruct"
base_url = "http://10.1.2.3:8000/v1"
[targets.judge]
kind = "embedded"
model = "/home/someone/models/small.gguf"
"""


def compiled(entry: Method, recipe: str = "", **knobs: Any) -> CompiledProgram:
    return CompiledProgram.of(build_program(entry, **knobs), provenance={}, recipe=recipe, run={})


@every
@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_compiled_program_and_the_program_itself_give_the_same(
    entry: Method, layout: str, wording: str
) -> None:
    knobs = {"layout": layout, "wording": wording}
    assert derive_export(compiled(entry, **knobs)) == derive_export(build_program(entry, **knobs))


@every
@pytest.mark.parametrize("layout", ["minimal", "chat"])
def test_parameters_are_the_request_that_is_sent(entry: Method, layout: str) -> None:
    program = build_program(entry, layout=layout, temperature=0.5)
    for name, call in program.named_predictors():
        prompt = derive_export(program).prompt(name)
        body = body_of(call.request(**prompt.placeholders()), "m")
        assert prompt.parameters == {k: v for k, v in body.items() if k not in ("model", "messages")}
        assert ("response_format" in body) == prompt.enforced == (layout == "minimal")


class Note(pydantic.BaseModel):
    """A note whose keys are not in the order of the alphabet."""

    text: str
    sources: list[str]


class Noted(dspy.Signature):
    """Answer with notes."""

    question: str = dspy.InputField()
    notes: list[Note] = dspy.OutputField()
    answer: str = dspy.OutputField()


class Noting(dspy.Module):
    """A user's program with objects in its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.note = dspy.Predict(Noted)

    def forward(self, question: str) -> Any:
        return self.note(question=question)


class ShownEngine(Engine):
    """A model that is right when it is shown an example, and for every second question."""

    def _reply(self, request: Any) -> str:
        lucky = re.search(r"Colour \d*[02468]\?", str(request.messages[-1].parts[0].text))
        answer = "red" if lucky or len(request.messages) > 1 else "It may be red."
        return (
            f'[[ ## notes ## ]]\n[{{"text": "{answer}", "sources": ["s"]}}]\n\n[[ ## answer ## ]]\n{answer}'
        )


def test_a_module_with_objects_is_exported_as_it_was_measured(tmp_path: Path) -> None:
    engine = ShownEngine()
    examples = [
        dspy.Example(question=f"Colour {i}?", answer="red").with_inputs("question") for i in range(60)
    ]
    with dspy.context(lm=lm_of(engine, max_tokens=300), adapter=None):
        compiler = ragc.Compile(metric="em", demos=1, trials=2, out=tmp_path / "out")
        compiler.compile(Noting(), trainset=examples)
    out = derive_export(load(tmp_path / "out"))
    (prompt,) = out
    assert (prompt.model, prompt.parameters) == ("mine/model", {"max_tokens": 300})
    assert list(prompt.demonstrations[0]["notes"][0]) == ["text", "sources"]
    system, *fixed = [str(message.fixed_text) for message in prompt.messages[:-1]]
    sent = [[str(r.system), *("".join(p.text for p in m.parts) for m in r.messages)] for r in engine.requests]
    assert [system, *fixed] in [texts[:-1] for texts in sent]


def test_the_schema_that_dspy_sends_for_objects_is_exported_as_it_is() -> None:
    engine = Engine(schema=True)
    with dspy.context(lm=lm_of(engine), adapter=dspy.JSONAdapter()):
        program = ragc.program(Noting(), store=False)
        (prompt,) = derive_export(program)
        with pytest.raises(ParseFailure):
            program(question="Which?")
    strict = prompt.parameters["response_format"]["json_schema"]
    sent: Any = engine.requests[0].config.response_format
    assert {name: sent[name] for name in strict} == strict


@pytest.mark.parametrize(("domain", "refused"), [("any", False), ("same", True), ("cross", True)])
def test_demonstrations_that_the_question_chooses_are_refused(domain: str, refused: bool) -> None:
    program = build_program(method("ragx"), icl_n=2, icl_domain=domain, icl_invalid=1, source_policy="llm")
    demo = {"question": "q", "query_time": "t", "domain": "music", "answer": "a"}
    dict(program.named_predictors())["answer"].demos = [demo]
    if not refused:
        assert derive_export(program).prompt("answer").demos == 1
        return
    with pytest.raises(NotExpressible, match=rf"'answer' cannot be exported: .*{domain}.*No format can"):
        derive_export(program)


@pytest.mark.parametrize(
    ("signature", "why"),
    [
        (("pairs: list[list[str]] -> answer: str",), r"its input 'pairs' is of the type list\[list\[str\]\]"),
        (("question -> answer", "Say \ue000."), r"hold U\+E000"),
    ],
)
def test_what_is_no_fixed_template_is_refused(signature: Any, why: str) -> None:
    call = RagPredict(dspy.Signature(*signature), Runtime({"main": ScriptedTarget([])}))
    with pytest.raises(NotExpressible, match=why):
        prompt_of("own", call)


def test_neither_model_nor_source_is_asked() -> None:
    program = VANILLA.build(runtime(VANILLA, {}))
    assert program.runtime.target("judge").context_tokens > 10**6
    with pytest.raises(UsageError, match="An export makes no"):
        program(question="What is it?")


def test_models_are_named_without_paths_and_addresses() -> None:
    names = {"main": "Qwen/Qwen2.5-7B-Instruct", "judge": "small.gguf"}
    assert models(tables(RECIPE), {}) == {role: (id, id) for role, id in names.items()}
    default = tables('[targets.main]\nkind = "embedded"')
    provenance = {"targets": {"main": {"name": "embedded Small-135M.Q4"}}}
    assert models(default, provenance) == {"main": ("Small-135M.Q4", "Small-135M.Q4")}
    of_dspy = {"targets": {"main": {"name": "dspy openai/gpt-4o"}}}
    assert models({}, of_dspy) == {"main": ("openai/gpt-4o", "gpt-4o")}
    assert tables("not = = toml") == {}


@pytest.mark.parametrize(
    ("kind", "id", "sent"),
    [
        ("hosted", "openai/gpt-4o-mini", "gpt-4o-mini"),
        ("hosted", "openai/openai/gpt-oss-20b", "openai/gpt-oss-20b"),
        ("vllm", "openai/gpt-oss-20b", "openai/gpt-oss-20b"),
    ],
)
def test_a_request_to_openai_names_the_model_as_openai_does(kind: str, id: str, sent: str) -> None:
    recipe = f'[targets.main]\nkind = "{kind}"\nmodel = "{id}"\n'
    out = derive_export(compiled(VANILLA, recipe))
    for name in ("openai-json", "prompty", "python", "baml", "promptfoo"):
        text = "".join(content.decode() for content in format_of(name).files(out).values())
        assert re.search(rf"(?<![/\w]){sent}\b", text), name
        assert id == sent or id not in text, name
    assert out.prompts[0].model == id


def test_data_and_metric_are_told_and_the_licence_only_of_demonstrations() -> None:
    plain = derive_export(compiled(VANILLA, RECIPE))
    assert (plain.note, plain.metric, plain.prompts[0].model) == ("", "f1", "Qwen/Qwen2.5-7B-Instruct")
    program = build_program(VANILLA, icl_n=1)
    program.predictors()[0].demos = [{"question": "q", "passages": ["p"], "answer": "a"}]
    shown = derive_export(CompiledProgram.of(program, provenance={}, recipe=RECIPE, run={}))
    assert "hotpotqa" in shown.note
    assert "CC BY-SA 4.0" in shown.note


def test_a_program_of_another_version_is_refused() -> None:
    state = compiled(VANILLA).state.model_copy(update={"predictors": {}})
    with pytest.raises(ArtefactError, match="compile it again"):
        derive_export(CompiledProgram(state, {}, "", {}))


@every
def test_every_setting_is_a_fixed_template(entry: Method) -> None:
    for knob in entry.knobs.list_knobs():
        for value in {"switch": (False, True), "choice": knob.options}.get(knob.kind, ()):
            if program := built(entry, {knob.name: value}, SchemaReplies()):
                assert derive_export(program).prompts
