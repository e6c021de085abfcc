"""What is taken from a compiled program: slots, types, schemas, sampling, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import dspy
import pytest

from ragc.compiled.base import CompiledProgram
from ragc.errors import ArtefactError, UsageError
from ragc.exports.derive import derive_export, models, prompt_of, runtime, tables
from ragc.exports.formats.base import format_of
from ragc.programs import METHODS, Method, method
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import LAYOUTS, WORDINGS
from ragc.programs.runtime import Runtime
from ragc.prompts.model import AGAIN, Input, NotExpressible, Slot, reading
from ragc.targets.wire import body_of
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.exports.common import build_program, built

every = pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)

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
def test_all_slots_stand_in_the_last_message_and_each_input_has_one(entry: Method) -> None:
    for prompt in derive_export(build_program(entry)):
        *fixed, last = prompt.messages
        assert all(message.fixed_text is not None for message in fixed)
        assert last.role == "user"
        assert {slot.name for slot in last.slots} == {one.name for one in prompt.inputs}
        assert all(a != "" and not (isinstance(a, str) and isinstance(b, str))
                   for a, b in zip(last.parts, (*last.parts[1:], Slot("")), strict=True))  # fmt: skip


@every
@pytest.mark.parametrize("layout", ["minimal", "chat"])
def test_parameters_are_the_request_that_is_sent(entry: Method, layout: str) -> None:
    program = build_program(entry, layout=layout, temperature=0.5)
    calls = dict(program.named_predictors())
    for prompt in derive_export(program):
        inputs = {one.name: [] if one.many else {"text": "", "integer": 1}[one.kind] for one in prompt.inputs}
        body = body_of(calls[prompt.name].request(**inputs), "m")
        assert prompt.parameters == {k: v for k, v in body.items() if k not in ("model", "messages")}
        assert ("response_format" in body) == prompt.enforced == (layout == "minimal")


def test_a_prompt_says_what_its_inputs_and_outputs_are() -> None:
    prompt = derive_export(build_program(method("prefrag"))).prompt("step")
    assert prompt.input("tools").many
    assert prompt.input("max_step").kind == "integer"
    assert prompt.input_schema["required"] == ["tools", "max_step", "question", "trajectory", "steps_left"]
    assert prompt.input_schema["properties"]["tools"]["type"] == "array"
    assert list(prompt.output_schema["properties"]) == list(prompt.outputs)
    assert Input("sure", "flag", about="or not").schema() == {"type": "boolean", "description": "or not"}


def test_prompts_come_in_the_order_of_the_calls() -> None:
    assert [p.name for p in derive_export(build_program(method("self_ask")))] == ["step", "read", "answer"]


def test_a_prompt_cannot_be_changed() -> None:
    (prompt,) = derive_export(build_program(method("vanilla")))
    with pytest.raises(FrozenInstanceError):
        prompt.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(("domain", "refused"), [("any", False), ("same", True), ("cross", True)])
def test_demonstrations_that_the_question_chooses_are_refused(domain: str, refused: bool) -> None:
    program = build_program(method("ragx"), icl_n=2, icl_domain=domain, icl_invalid=1, source_policy="llm")
    assert derive_export(program).prompt("answer").demos == 0
    demo = {"question": "q", "query_time": "t", "domain": "music", "answer": "a"}
    dict(program.named_predictors())["answer"].demos = [demo]
    if not refused:
        assert derive_export(program).prompt("answer").demos == 1
        return
    with pytest.raises(
        NotExpressible, match=rf"prompt 'answer' cannot be exported: .*{domain}.*No format can"
    ):
        derive_export(program)


def test_an_input_that_is_no_text_number_or_flag_is_refused() -> None:
    signature = dspy.Signature("pairs: list[list[str]] -> answer: str")
    call = RagPredict(signature, Runtime({"main": ScriptedTarget([])}))
    with pytest.raises(NotExpressible, match=r"its input 'pairs' is of the type list\[list\[str\]\]"):
        prompt_of("own", call)


def test_text_that_marks_inputs_is_refused_where_it_could_be_mistaken() -> None:
    call = RagPredict(
        dspy.Signature("question -> answer", "Say \ue000."), Runtime({"main": ScriptedTarget([])})
    )
    with pytest.raises(NotExpressible, match=r"hold U\+E000"):
        prompt_of("own", call)


def test_neither_model_nor_source_is_asked() -> None:
    program = method("vanilla").build(runtime(method("vanilla"), {}))
    for role in ("main", "judge"):
        assert program.runtime.target(role).context_tokens > 10**6
    with pytest.raises(UsageError, match="An export makes no"):
        program(question="What is it?")


def test_models_are_named_without_paths_and_addresses() -> None:
    model_names = models(tables(RECIPE), {})
    assert model_names == {"main": "Qwen/Qwen2.5-7B-Instruct", "judge": "small.gguf"}
    default = tables('[targets.main]\nkind = "embedded"')
    assert models(default, {"targets": {"main": {"name": "embedded Small-135M.Q4"}}}) == {
        "main": "Small-135M.Q4"
    }
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
    out = derive_export(compiled(method("vanilla"), recipe))
    for name in ("openai-json", "prompty", "python", "baml", "promptfoo"):
        text = "".join(content.decode() for content in format_of(name).files(out).values())
        assert re.search(rf"(?<![/\w]){sent}\b", text), name
        assert id == sent or id not in text, name
    assert out.model(out.prompts[0]) == id


def test_data_and_metric_are_told_and_the_licence_only_of_demonstrations() -> None:
    program = build_program(method("vanilla"), icl_n=1)
    plain = derive_export(CompiledProgram.of(program, provenance={}, recipe=RECIPE, run={}))
    assert (plain.note, plain.metric, plain.model(plain.prompts[0])) == ("", "f1", "Qwen/Qwen2.5-7B-Instruct")
    program.predictors()[0].demos = [{"question": "q", "passages": ["p"], "answer": "a"}]
    exported_program = derive_export(CompiledProgram.of(program, provenance={}, recipe=RECIPE, run={}))
    assert "hotpotqa" in exported_program.note
    assert "CC BY-SA 4.0" in exported_program.note


def test_a_program_of_another_version_is_refused() -> None:
    entry = method("vanilla")
    odd = compiled(entry)
    state = odd.state.model_copy(update={"predictors": {}})
    with pytest.raises(ArtefactError, match="compile it again"):
        derive_export(CompiledProgram(state, {}, "", {}))


@pytest.mark.parametrize(
    ("layout", "style"), [("minimal", "json"), ("json", "json"), ("chat", "markers"), ("xml", "tags")]
)
def test_how_a_reply_is_read_is_told(layout: str, style: str) -> None:
    (prompt,) = derive_export(build_program(method("vanilla"), layout=layout))
    rules = reading(prompt)
    assert rules["style"] == style
    marker = {"json": None, "markers": "[[ ## answer ## ]]", "tags": "<answer>"}[style]
    assert rules["fields"]["answer"].get("marker") == marker


def test_the_repair_is_what_is_sent() -> None:
    replies = iter(["[]", '{"answer": "a"}'])
    program = build_program(method("no_retrieval"), lambda request: next(replies))
    program(question="What is it?")
    target: Any = program.runtime.target("main")
    (prompt,) = derive_export(program)
    before, _, after = AGAIN.partition("{error}")
    text = target.requests[1].messages[-1].content
    assert text.startswith(before)
    assert text.endswith(after.format(fields=reading(prompt)["repair"]["fields"]))


@every
def test_every_setting_is_a_fixed_template(entry: Method) -> None:
    for knob in entry.knobs.list_knobs():
        for value in {"switch": (False, True), "choice": knob.options}.get(knob.kind, ()):
            if program := built(entry, {knob.name: value}, SchemaReplies()):
                assert derive_export(program).prompts


def test_the_types_load_without_an_lm_library() -> None:
    code = "import sys, ragc.exports.write as b; [b.format_of(f) for f in b.FORMATS]; "
    code += "print('dspy' in sys.modules, 'jinja2' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["False", "False"]
