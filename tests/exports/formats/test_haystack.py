"""haystack: the pipeline that Haystack loads gives the messages that are sent, also to a generator."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.programs import method
from ragc.prompts.model import TemplateMessage
from tests.examples import examples
from tests.exports.common import build_program, capture_messages, texts
from tests.exports.drawn import consumer, export_alone, file_of
from tests.exports.formats.readers import haystack as rendered
from tests.exports.formats.readers import of_haystack
from tests.prompts.test_render import typed

Pipeline = consumer("haystack").Pipeline


def test_a_generator_connected_as_the_file_says_gets_the_messages() -> None:
    from haystack.components.generators.chat import MockChatGenerator

    program = build_program(method("vanilla"))
    pipeline = Pipeline.loads(
        file_of("haystack", derive_export(program), derive_export(program).prompt("answer"))
    )
    generator = MockChatGenerator("It is.")
    pipeline.add_component("generator", generator)
    pipeline.connect("prompt_builder.prompt", "generator.messages")
    inputs = {"question": "{{ q }}", "passages": ["a", ""]}
    outputs = pipeline.run({"prompt_builder": inputs}, include_outputs_from={"prompt_builder"})
    assert of_haystack(outputs["generator"]["replies"]) == [("assistant", "It is.")]
    assert of_haystack(outputs["prompt_builder"]["prompt"]) == [
        tuple(m) for m in capture_messages(program, "answer", inputs)
    ]


def test_the_word_that_haystack_refuses_is_kept() -> None:
    program = build_program(method("vanilla"), icl_n=1)
    call = dict(program.named_predictors())["answer"]
    word = "templatize_part"
    call.demos = [{"question": word, "passages": [f"x | {word}"], "answer": word}]
    out, inputs = derive_export(program), {"question": word, "passages": [word]}
    file = file_of("haystack", out, out.prompt("answer"))
    assert rendered(file, inputs) == [tuple(m) for m in capture_messages(program, "answer", inputs)]


@settings(max_examples=examples(100))
@given(text=st.sampled_from(["{}", "a\n{}", "{}\nb "]), piece=texts())
def test_any_fixed_text_is_read_back(text: str, piece: str) -> None:
    _, prompt = typed("minimal")
    fixed_text = text.replace("{}", piece)
    messages = (TemplateMessage("assistant", (fixed_text,)), *prompt.messages)
    odd = replace(prompt, messages=messages)
    read = yaml.safe_load(file_of("haystack", export_alone(odd), odd))
    template = read["components"]["prompt_builder"]["init_parameters"]["template"]
    assert template[0]["content"] == [{"text": fixed_text}]


@pytest.mark.parametrize("text", ["\x85", "\u2028", "a\n\x85", " \n\x85\n", "\ufeff\n", "\x00"])
def test_line_breaks_of_other_kinds_are_kept(text: str) -> None:
    program = build_program(method("no_retrieval"), icl_n=1)
    call = dict(program.named_predictors())["answer"]
    call.demos = [{"question": text, "answer": text}]
    call.signature = call.signature.with_instructions(f"Say so.{text}.")
    out, inputs = derive_export(program), {"question": text}
    file = file_of("haystack", out, out.prompt("answer"))
    assert rendered(file, inputs) == [tuple(m) for m in capture_messages(program, "answer", inputs)]


def test_it_is_what_haystack_writes_itself() -> None:
    out = derive_export(build_program(method("vanilla")))
    file = file_of("haystack", out, out.prompt("answer"))
    assert Pipeline.loads(Pipeline.loads(file).dumps()) == Pipeline.loads(file)
