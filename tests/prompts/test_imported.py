"""Files of `[prompts]`: an export comes back whole, its source may be edited, and the rest is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragc
from ragc.errors import DataError, UnknownName, UsageError
from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs import METHODS, Method, method
from ragc.programs.base import RagProgram
from ragc.programs.knobs import LAYOUTS
from ragc.prompts.imported import import_prompt
from ragc.testing import ScriptedTarget
from tests.examples import examples
from tests.exports.common import CALM, build_program, with_demos

FORMATS = ("jinja2", "openai-json")
MARKER = re.compile(r"\[\[ ## \w+ ## \]\]|</?(?:question|passages|answer|completed)>")
DEMO = {"question": "Who wrote it?", "passages": ["One.", "Two [2] and\n[7] more."], "answer": "Ann"}


def answering(**knobs: Any) -> RagProgram:
    return build_program(method("vanilla"), **{"icl_n": 2, **knobs})


def with_prompt(path: Path, program: RagProgram | None = None) -> Any:
    """The exported prompt `answer` of a program that got the prompt at `path`."""
    program = program or answering()
    import_prompt(path).apply(program, "answer")
    return derive_export(program).prompt("answer")


def exported(folder: Path, change: Callable[[dict[str, Any]], object], format: str = "openai-json") -> Path:
    """An export with a demonstration, after `change` of its document."""
    program = answering()
    dict(program.named_predictors())["answer"].demos = [DEMO]
    ((name, content),) = format_of(format).files(derive_export(program)).items()
    document = json.loads(content)
    change(document)
    (folder / name).write_text(json.dumps(document), "utf-8")
    return folder / name


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, "utf-8")
    return folder / name


@pytest.mark.parametrize("format", [*FORMATS])
@settings(max_examples=examples(5), suppress_health_check=CALM)
@given(data=st.data())
def test_an_export_comes_back_as_it_was(
    format: str, data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    knobs = {"layout": data.draw(st.sampled_from(LAYOUTS)), "icl_n": 3, "temperature": 0.5}
    before = derive_export(with_demos(answering(**knobs), data))
    ((name, content),) = format_of(format).files(before).items()
    path, again = tmp_path_factory.mktemp("export") / name, answering(**knobs)
    path.write_bytes(content)
    if MARKER.search(str(before.prompts[0].demonstrations) + before.prompts[0].instructions):
        return  # refused, as a test below says
    import_prompt(path).apply(again, "answer")
    (prompt,), (other,) = before, derive_export(again)
    assert (other.messages, other.fingerprint) == (prompt.messages, prompt.fingerprint)


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
def test_every_prompt_of_an_export_comes_back(entry: Method, tmp_path: Path) -> None:
    before = derive_export(build_program(entry))
    files, again = format_of("openai-json").files(before), build_program(entry, wording="brief")
    for prompt in before:
        path = tmp_path / f"{prompt.name}.openai.json"
        path.write_bytes(files[path.name])
        import_prompt(path).apply(again, prompt.name, as_laid_out=True)
    assert [p.messages for p in derive_export(again)] == [p.messages for p in before]


@pytest.mark.parametrize("format", [*FORMATS])
def test_an_edited_source_is_what_is_sent(format: str, tmp_path: Path) -> None:
    def edit(document: dict[str, Any]) -> None:
        document["about"] = "Ours."
        document["source"]["instructions"] = "Say it shortly."
        document["source"]["fields"]["answer"] = "in small letters"
        document["source"]["demonstrations"].append({**DEMO, "answer": "Bo"})

    prompt = with_prompt(exported(tmp_path, edit, format))
    assert prompt.instructions == "Say it shortly."
    assert prompt.outputs["answer"] == "in small letters"
    assert [demo["answer"] for demo in prompt.demonstrations] == ["Ann", "Bo"]


@pytest.mark.parametrize(
    "edit",
    [
        lambda document: document["request"]["messages"][0].update(content="Else."),
        lambda document: document["request"].update(temperature=0.7),
        lambda document: document["output_schema"]["properties"].pop("answer"),
        lambda document: document.update(more=1),
        lambda document: document["source"].pop("digest"),
    ],
)
def test_an_edit_beside_the_source_is_refused_with_the_way_out(
    edit: Callable[[dict[str, Any]], object], tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"edited beside its 'source'.*edit the instructions"):
        import_prompt(exported(tmp_path, edit))


@pytest.mark.parametrize("name", ["mine.txt", "mine.md"])
def test_a_text_is_the_instructions_and_the_rest_stays(name: str, tmp_path: Path) -> None:
    program = answering()
    dict(program.named_predictors())["answer"].demos = [DEMO]
    before = derive_export(program).prompt("answer")
    prompt = with_prompt(written(tmp_path, name, "\ufeffSay it shortly.\nIn a word.\n"), program)
    assert prompt.instructions == "Say it shortly.\nIn a word."
    assert (prompt.demonstrations, prompt.inputs, prompt.outputs) == (
        before.demonstrations,
        before.inputs,
        before.outputs,
    )


def test_a_toml_file_holds_instructions_fields_and_demonstrations(tmp_path: Path) -> None:
    text = (
        'instructions = "Say it shortly."\nfields.question = "what is asked"\n'
        '[[demonstrations]]\nquestion = "Who?"\npassages = ["Ann."]\nanswer = "Ann"\n'
    )
    prompt = with_prompt(written(tmp_path, "mine.toml", text))
    assert prompt.instructions == "Say it shortly."
    assert {one.name: one.about for one in prompt.inputs}["question"] == "what is asked"
    assert prompt.demonstrations == ({"question": "Who?", "passages": ["Ann."], "answer": "Ann"},)
    none = with_prompt(written(tmp_path, "none.toml", "demonstrations = []\n"))
    assert (none.demonstrations, none.instructions) == (
        (),
        derive_export(answering()).prompt("answer").instructions,
    )


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("demonstrations = [{ question = 'Q', passages = ['P'], answer = 5 }]", UsageError, "valid string"),
        ("demonstrations = [{ question = 'Q', passages = 'P', answer = 'A' }]", UsageError, "valid array"),
        (
            "demonstrations = [{ question = 'Q' }]",
            UsageError,
            "demonstration 1 has none of the fields",
        ),
        ("demonstrations = [{ questoin = 'Q', answer = 'A' }]", UnknownName, "question"),
        ("fields.anwser = 'x'", UnknownName, "answer"),
        ("instructions = 'Say [[ ## answer ## ]]'", UsageError, "which marks a field"),
        ("instruction = 'Say.'", DataError, "Did you mean 'instructions'"),
        ("instructions = 5", DataError, "instructions: Input should be a valid string"),
        ("instructions = ", DataError, "it is no TOML"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, error: type[Exception], words: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=re.escape(words)):
        with_prompt(written(tmp_path, "mine.toml", text))


def test_a_predictor_of_a_users_module_takes_a_prompt(tmp_path: Path) -> None:
    program = ragc.program(dspy.Predict("question -> answer"), store=False, main=ScriptedTarget([]))
    text = 'instructions = "Say it."\n[[demonstrations]]\nquestion = "Who?"\nanswer = "Ann"\n'
    import_prompt(written(tmp_path, "mine.toml", text)).apply(program, "self", as_laid_out=True)
    (prompt,) = derive_export(program)
    assert (prompt.instructions, prompt.demos) == ("Say it.", 1)


def test_an_export_that_is_laid_out_otherwise_is_refused(tmp_path: Path) -> None:
    prompt = import_prompt(
        exported(tmp_path, lambda document: document["source"].update(instructions="Say."))
    )
    prompt.apply(answering(wording="brief", temperature=0.5), "answer", as_laid_out=True)
    for knobs in ({"query_pos": "both"}, {"layout": "chat"}, {"cot": True}, {"answer_format": "yesno"}):
        prompt.apply(answering(**knobs), "answer")
        with pytest.raises(UsageError, match=r"lay its messages out otherwise .* delete 'laid_out' in"):
            prompt.apply(answering(**knobs), "answer", as_laid_out=True)


def test_another_predictor_and_too_many_demonstrations_are_refused(tmp_path: Path) -> None:
    path = exported(tmp_path, lambda document: None)
    with pytest.raises(UsageError, match="the program shows 0; give fewer, or set the knob icl_n"):
        import_prompt(path).apply(answering(icl_n=0), "answer")
    with pytest.raises(UnknownName, match="'reply'"):
        import_prompt(path).apply(answering(), "reply")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("messages.json", json.dumps([{"role": "user", "content": "{{ question }}"}])),
        ("object.json", json.dumps({"messages": [{"role": "user", "content": "{{ question }}"}]})),
        ("mine.jinja", "Question: {{ question }}"),
    ],
)
def test_messages_of_ones_own_are_refused_with_what_is_wanted(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"wanted is instructions \(\.txt, \.md\), a \.toml file"):
        import_prompt(written(tmp_path, name, text))
