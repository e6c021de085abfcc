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
from ragc.exports.formats.promptfoo import METRICS, folders, why_not_scored
from ragc.exports.formats.promptfoo import build_variables as variables
from ragc.exports.write import format_of
from ragc.metrics import short_answer
from ragc.programs import METHODS, method
from ragc.programs.knobs import LAYOUTS
from ragc.prompts.model import Case, ExportedProgram, Input, Slot, TemplateMessage
from ragc.prompts.render import escaped_inputs
from tests.examples import examples
from tests.exports.common import build_program, texts

SOURCE = resources("ragc.exports").joinpath("templates/promptfoo_metric.py.txt").read_bytes()
promptfoo_metric = ModuleType("metric")
exec(compile(SOURCE, "metric.py", "exec"), promptfoo_metric.__dict__)
CASE = Case("dev-1", "answer", {"question": "Who?", "passages": ["{{a}}\u2028", "file:///b"]}, ("An A", "B"))


def export_files(program: ExportedProgram) -> dict[str, bytes]:
    """The files of the export."""
    return dict(format_of("promptfoo").files(program))


def with_cases(*cases: Case, metric: str = "f1", **knobs: Any) -> ExportedProgram:
    """The vanilla program with cases, compiled for a metric."""
    return replace(derive_export(build_program(method("vanilla"), **knobs)), cases=cases, metric=metric)


def score_reply(output: Any, config: dict[str, Any]) -> float:
    """The score that promptfoo gets for a reply."""
    return float(promptfoo_metric.get_assert(output, {"vars": {}, "config": config}))


def _number(value: Any) -> Any:
    """Numbers are given as texts to promptfoo."""
    return float(value) if value == "1.0" else value


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
def test_every_prompt_has_a_folder_with_its_own_inputs(entry: Any) -> None:
    out = derive_export(build_program(entry))
    files = export_files(out)
    assert files == export_files(out)
    for prompt, folder in zip(out, folders(out), strict=True):
        config = yaml.safe_load(files[f"{folder}/promptfooconfig.yaml"])
        assert config["prompts"] == [{"id": "file://chat.json", "label": prompt.name}]
        assert config["providers"][0] == {"id": "echo"}
        (example,) = config["tests"]
        escaped_inputs(prompt, {name: _number(value) for name, value in example["vars"]["inputs"].items()})
        provider_config = config["providers"][1]["config"]
        schema = json.loads(files[f"{folder}/response_format.json"])
        assert {**provider_config["passthrough"], "response_format": schema} == prompt.parameters
        source = files[f"{folder}/chat.json"].decode()
        assert all(f"inputs.{one.name}" in source for one in prompt.inputs)
        assert [m["role"] for m in json.loads(source)] == [m.role for m in prompt.messages]


def test_dev_questions_are_tests_with_the_metric_as_assertion() -> None:
    files = export_files(with_cases(CASE))
    assert yaml.safe_load(files["answer/promptfooconfig.yaml"])["tests"] == "file://tests.json"
    (test,) = json.loads(files["answer/tests.json"])
    assert test == {
        "description": "dev-1",
        "vars": {"inputs": CASE.inputs},
        "assert": [
            {
                "type": "python",
                "value": "file://metric.py",
                "metric": "f1",
                "config": {"metric": "f1", "field": "answer", "style": "json", "golds": ["An A", "B"]},
            }
        ],
    }
    assert files["answer/tests.json"].isascii()
    assert files["answer/metric.py"] == SOURCE


def test_tests_are_in_the_folder_of_their_prompt() -> None:
    case = Case("q", "chat", {"question": "Who?"}, ("A",))
    files = export_files(replace(derive_export(build_program(method("slimplm"))), cases=(case,), metric="em"))
    assert [name for name in files if name.endswith("tests.json")] == ["chat/tests.json"]
    assert yaml.safe_load(files["answer/promptfooconfig.yaml"])["tests"][0]["description"] == "an example"


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("", "the metric that the program was compiled for is not known"),
        ("rougeL", "the metric rougeL needs more than the answer, its golds and plain Python"),
        ("recall@5", "the metric recall@5 needs more"),
    ],
)
def test_a_metric_that_cannot_be_said_is_told_and_left_out(metric: str, why: str) -> None:
    files = export_files(with_cases(CASE, metric=metric))
    assert f"# No assertion: {why}" in files["answer/promptfooconfig.yaml"].decode()
    assert "answer/metric.py" not in files
    assert "assert" not in json.loads(files["answer/tests.json"])[0]


def test_a_prompt_without_an_answer_is_not_scored() -> None:
    out = replace(derive_export(build_program(method("slimplm"))), metric="em")
    assert why_not_scored(out, out.prompt("draft")) == "the replies to this prompt have no text called answer"
    assert why_not_scored(out, out.prompt("answer")) == ""


def test_all_metrics_of_text_are_there_but_those_that_need_a_library() -> None:
    texts_only = {one.id for one in short_answer.METRICS}
    assert METRICS == promptfoo_metric.METRICS.keys() == texts_only - {"rqrag_f1"}


WORDS = st.sampled_from(
    ["a", "the", "The", "an", "yes", "no", "noanswer", "Yes.", "1", "B", "x", "X", "İ", "ß", "a-b", " ", ".",
     "[1]", "IL-2 (p40)", "Σίσυφος", "\x1c", "\u3000", "the\u0301"]
)  # fmt: skip
ANSWERS = st.lists(WORDS, max_size=4).map(" ".join) | texts()


@settings(max_examples=examples(300), deadline=None)
@given(
    answer=ANSWERS,
    golds=st.lists(ANSWERS, max_size=3),
    metric=st.sampled_from(sorted(promptfoo_metric.METRICS)),
)
def test_the_metric_scores_as_ragc_does(answer: str, golds: list[str], metric: str) -> None:
    config = {"metric": metric, "field": "answer", "style": "json", "golds": golds}
    reply = json.dumps({"answer": answer})
    assert score_reply(reply, config) == metrics.score(metric, answer, golds)
    assert score_reply({"answer": answer}, config) == metrics.score(metric, answer, golds)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_it_finds_the_answer_where_the_program_does(layout: str, data: Any) -> None:
    from ragc.programs.calls.layouts import adapter
    from ragc.prompts.model import style

    program = build_program(method("vanilla"), layout=layout, cot=True)
    ((_, call),) = program.named_predictors()
    text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
    outputs = {"reasoning": data.draw(text), "answer": data.draw(text)}
    layouts = adapter(layout)
    reply = layouts.format_assistant_message_content(call.signature, outputs)
    read = layouts.parse(call.signature, reply)["answer"]
    (prompt,) = derive_export(program)
    assert promptfoo_metric.answer_in(reply, "answer", style(prompt)) == read


@pytest.mark.parametrize("style", ["json", "markers", "tags"])
def test_a_reply_that_cannot_be_read_scores_0(style: str) -> None:
    config = {"metric": "slim_em", "field": "answer", "style": style, "golds": [""]}
    assert score_reply("I think < it is {B}.", config) == 0.0
    assert score_reply('Sure: {"answer": ["B"]}', config) == 0.0


def test_prose_around_the_reply_is_cut_off() -> None:
    config = {"metric": "em", "field": "answer", "style": "json", "golds": ["B"]}
    assert score_reply('Sure:\n```json\n{"answer": "B"}\n```', config) == 1.0


def test_inputs_of_other_kinds_are_given_as_they_stand_in_the_prompt() -> None:
    inputs = (
        Input("n", "number"),
        Input("i", "integer"),
        Input("f", "flag"),
        Input("l", "number", many=True),
    )
    (prompt,) = derive_export(build_program(method("vanilla")))
    parts = (Slot("n"), Slot("f", "plain", ("Yes", "No")), Slot("l", "json"), Slot("i"))
    message = TemplateMessage("user", parts)
    prompt = replace(prompt, inputs=inputs, messages=(message,))
    assert variables(prompt, {"n": 2.0, "i": 2**60, "f": True, "l": [1.0, 1e16]}) == {
        "inputs": {"n": "2.0", "i": str(2**60), "f": True, "l": ["1.0", "1e+16"]}
    }
    assert variables(prompt, {"n": 1, "i": 7, "f": False, "l": []})["inputs"]["i"] == 7


def test_a_message_that_begins_as_a_file_does_is_not_loaded() -> None:
    out = with_cases()
    (prompt,) = out
    messages = (TemplateMessage("system", ("file:///etc/hosts",)), *prompt.messages[1:])
    files = export_files(replace(out, prompts=(replace(prompt, messages=messages),)))
    assert json.loads(files["answer/chat.json"])[0]["content"] == '{{ "f" }}ile:///etc/hosts'


def test_what_is_told_of_an_input_stays_a_comment() -> None:
    out = with_cases()
    (prompt,) = out
    inputs = (replace(prompt.inputs[0], about="one\u2028\ntests: [1]\x00"), *prompt.inputs[1:])
    config = export_files(replace(out, prompts=(replace(prompt, inputs=inputs),)))[
        "answer/promptfooconfig.yaml"
    ]
    assert len(yaml.safe_load(config)["tests"]) == 1
    assert b"# - question: text; one tests: [1]\n" in config


def test_prompts_with_awkward_names_have_folders_of_their_own() -> None:
    out = with_cases()
    (prompt,) = out
    many = replace(out, prompts=tuple(replace(prompt, name=name) for name in ("hops[0]", "hops_0_", "ü")))
    assert folders(many) == ("hops_0_", "hops_0__2", "_")


def test_it_holds_the_licence_and_no_address() -> None:
    out = replace(with_cases(CASE), note="Demonstrations: licence: CC BY-SA 4.0.", models={"main": "org/m"})
    config = export_files(out)["answer/promptfooconfig.yaml"].decode()
    assert f"# Program {out.fingerprint}.\n# {out.note}\n" in config
    assert '"openai:chat:org/m"' in config
    assert "http" not in config
