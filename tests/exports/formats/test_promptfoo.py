"""promptfoo: what its folders hold, and that the metric beside the tests scores as ragc does.

That promptfoo itself takes them is proved in tests/integration/test_exports_promptfoo.py.
"""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files as resources
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc import metrics
from ragc.exports.derive import derive_export
from ragc.exports.formats.promptfoo import METRICS, folders
from ragc.exports.write import format_of
from ragc.metrics import short_answer
from ragc.programs import METHODS, method
from ragc.programs.calls.layouts import adapter
from ragc.programs.knobs import LAYOUTS
from ragc.prompts.model import Case, ExportedProgram, TemplateMessage, style
from ragc.prompts.render import escaped_inputs
from tests.examples import examples
from tests.exports.common import build_program, texts

SOURCE = resources("ragc.exports").joinpath("templates/promptfoo_metric.py.txt").read_bytes()
metric_file = ModuleType("metric")
exec(compile(SOURCE, "metric.py", "exec"), metric_file.__dict__)
CASE = Case("dev-1", "answer", {"question": "Who?", "passages": ["{{a}}\u2028", "file:///b"]}, ("An A", "B"))


def export_files(program: ExportedProgram) -> dict[str, bytes]:
    """The files of the export."""
    return dict(format_of("promptfoo").files(program))


def with_cases(*cases: Case, metric: str = "f1", id: str = "vanilla") -> ExportedProgram:
    """A program with cases, compiled for a metric."""
    return replace(derive_export(build_program(method(id))), cases=cases, metric=metric)


def score_reply(output: Any, metric: str, golds: list[str], style: str = "json") -> float:
    """The score that promptfoo gets for a reply."""
    config = {"metric": metric, "field": "answer", "style": style, "golds": golds}
    return float(metric_file.get_assert(output, {"vars": {}, "config": config}))


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
def test_every_prompt_has_a_folder_with_its_own_inputs(entry: Any) -> None:
    out = derive_export(build_program(entry))
    files = export_files(out)
    for prompt, folder in zip(out, folders(out), strict=True):
        config = yaml.safe_load(files[f"{folder}/promptfooconfig.yaml"])
        assert config["prompts"] == [{"id": "file://chat.json", "label": prompt.name}]
        assert config["providers"][0] == {"id": "echo"}
        (example,) = config["tests"]
        given = example["vars"]["inputs"].items()  # numbers are given as texts to promptfoo
        escaped_inputs(prompt, {name: float(value) if value == "1.0" else value for name, value in given})
        schema = json.loads(files[f"{folder}/response_format.json"])
        passthrough = config["providers"][1]["config"]["passthrough"]
        assert {**passthrough, "response_format": schema} == prompt.parameters
        chat = json.loads(files[f"{folder}/chat.json"])
        assert [m["role"] for m in chat] == [m.role for m in prompt.messages]


def test_dev_questions_are_tests_with_the_metric_as_assertion() -> None:
    marked = replace(CASE, id="dev-2", inputs={"question": "<|im_start|>", "passages": ["a\n[2] b"]})
    files = export_files(with_cases(CASE, marked))
    assert yaml.safe_load(files["answer/promptfooconfig.yaml"])["tests"] == "file://tests.json"
    first, second = json.loads(files["answer/tests.json"])
    config = {"metric": "f1", "field": "answer", "style": "json", "golds": ["An A", "B"]}
    scored = {"type": "python", "value": "file://metric.py", "metric": "f1", "config": config}
    assert first == {"description": "dev-1", "vars": {"inputs": CASE.inputs}, "assert": [scored]}
    assert second["vars"] == {"inputs": {"question": "< |im_start|>", "passages": ["a\n[ 2] b"]}}
    assert files["answer/tests.json"].isascii()
    assert files["answer/metric.py"] == SOURCE


@pytest.mark.parametrize(
    ("id", "prompt", "metric", "why"),
    [
        ("vanilla", "answer", "", "the metric that the program was compiled for is not known"),
        ("vanilla", "answer", "rougeL", "the metric rougeL needs more than the answer, its golds and plain"),
        ("slimplm", "draft", "em", "the replies to this prompt have no text called answer"),
    ],
)
def test_a_metric_that_cannot_be_said_is_told_and_left_out(
    id: str, prompt: str, metric: str, why: str
) -> None:
    out = with_cases(metric=metric, id=id)
    files = export_files(replace(out, cases=(Case("q", prompt, out.prompt(prompt).placeholders(), ("A",)),)))
    assert f"# No assertion: {why}" in files[f"{prompt}/promptfooconfig.yaml"].decode()
    assert f"{prompt}/metric.py" not in files
    assert "assert" not in json.loads(files[f"{prompt}/tests.json"])[0]


WORDS = st.sampled_from(
    ["a", "the", "The", "an", "yes", "no", "noanswer", "Yes.", "1", "B", "x", "X", "İ", "ß", "a-b", " ", ".",
     "[1]", "IL-2 (p40)", "Σίσυφος", "\x1c", "\u3000", "the\u0301"]
)  # fmt: skip
ANSWERS = st.lists(WORDS, max_size=4).map(" ".join) | texts()


@settings(max_examples=examples(300), deadline=None)
@given(answer=ANSWERS, golds=st.lists(ANSWERS, max_size=3), metric=st.sampled_from(sorted(METRICS)))
def test_the_metric_scores_as_ragc_does(answer: str, golds: list[str], metric: str) -> None:
    expected = metrics.score(metric, answer, golds)
    assert score_reply(json.dumps({"answer": answer}), metric, golds) == expected
    assert score_reply({"answer": answer}, metric, golds) == expected
    assert METRICS == metric_file.METRICS.keys() == {one.id for one in short_answer.METRICS} - {"rqrag_f1"}


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_it_finds_the_answer_where_the_program_does(layout: str, data: Any) -> None:
    program = build_program(method("vanilla"), layout=layout, cot=True)
    (call,) = program.predictors()
    text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
    outputs = {"reasoning": data.draw(text), "answer": data.draw(text)}
    reply = adapter(layout).format_assistant_message_content(call.signature, outputs)
    (prompt,) = derive_export(program)
    answer = adapter(layout).parse(call.signature, reply)["answer"]
    assert metric_file.answer_in(reply, "answer", style(prompt)) == answer


@pytest.mark.parametrize("style", ["json", "markers", "tags"])
def test_a_reply_that_cannot_be_read_scores_0_and_prose_is_cut_off(style: str) -> None:
    assert score_reply("I think < it is {B}.", "slim_em", [""], style) == 0.0
    assert score_reply('Sure: {"answer": ["B"]}', "slim_em", [""], style) == 0.0
    assert score_reply('Sure:\n```json\n{"answer": "B"}\n```', "em", ["B"]) == 1.0


def test_no_text_is_loaded_as_a_file_or_leaves_its_comment() -> None:
    out = replace(with_cases(), note="One\nNote: licence.")
    prompt = replace(out.prompts[0], openai_model="org/m")
    system = TemplateMessage("system", ("file:///etc/hosts",))
    inputs = (replace(prompt.inputs[0], about="one\u2028\ntests: [1]\x00"), *prompt.inputs[1:])
    odd = replace(prompt, inputs=inputs, messages=(system, *prompt.messages[1:]))
    files = export_files(replace(out, prompts=(odd,)))
    assert json.loads(files["answer/chat.json"])[0]["content"] == '{{ "f" }}ile:///etc/hosts'
    config = files["answer/promptfooconfig.yaml"].decode()
    assert len(yaml.safe_load(config)["tests"]) == 1
    assert "# - question: text; one tests: [1]\n" in config
    assert f"# Program {out.fingerprint}.\n# One Note: licence.\n" in config
    assert '"openai:chat:org/m"' in config
