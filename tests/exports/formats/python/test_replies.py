"""python: the generated file reads replies as our own readers do, or asks again."""

from __future__ import annotations

import ast
import contextlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.exports.formats.python import format as python_format
from ragc.programs import Method, method
from ragc.programs.calls.reading.refusals import holds_no_answer
from ragc.programs.knobs import LAYOUTS
from tests.examples import examples
from tests.exports.common import build_program
from tests.exports.formats.python.replies import (
    UNREAD,
    damage,
    outputs_of,
    read_as_program,
    validated,
    write_reply,
)
from tests.exports.formats.python.test_format import every, load_module, slow


@every
@settings(slow, max_examples=examples(8))
@given(data=st.data())
def test_a_reply_that_fits_is_read_as_we_read_it(entry: Method, data: Any) -> None:
    program = build_program(entry, layout=data.draw(st.sampled_from(LAYOUTS)))
    module = load_module(derive_export(program))
    for name, call in program.named_predictors():
        outputs = data.draw(outputs_of(call))
        reply = write_reply(call, outputs)
        expected = read_as_program(call, reply)
        blank = any(holds_no_answer(value, output) for output, value in outputs.items())
        # a marker or rare line break inside a value, or a text such as "<name>": asked again, or read alike
        if call.layout == "chat" or blank:
            with contextlib.suppress(module.ReplyError):
                assert validated(call, module.parse(name, reply)) == expected
        elif expected == UNREAD:  # xml cannot say every character
            assert call.layout == "xml" or "..." in reply  # which stands for no value
            with pytest.raises(module.ReplyError):
                module.parse(name, reply)
        else:
            assert validated(call, module.parse(name, reply)) == expected


@every
@settings(slow, max_examples=examples(25))
@given(data=st.data())
def test_no_reply_is_read_otherwise_than_we_read_it(entry: Method, data: Any) -> None:
    program = build_program(entry, layout=data.draw(st.sampled_from(LAYOUTS)))
    module = load_module(derive_export(program))
    name, call = data.draw(st.sampled_from(program.named_predictors()))
    again, cut = data.draw(st.booleans()), data.draw(st.booleans())
    good = write_reply(call, data.draw(outputs_of(call)))
    text = data.draw(damage(good))
    try:
        outputs = module.parse(name, module.Cut(text) if cut else text, again=again)
    except module.ReplyError:
        return
    assert validated(call, outputs) == read_as_program(call, text, truncated=cut, again=again)


MENDED = [
    '{"answer": "Paris"}',
    ' \n{"answer": "Paris", "more": 1}\n',
    'Sure: {"answer": "Paris"}. Done',
    '```json\n{"answer": "Paris"}\n```',
    '{"answer": "one\ntwo"}',
    '{"answer": "Paris", "mo',
    '{"answer": "Paris"',
    "Paris",
    "**Answer:** Paris",
    '{"Answer": ["Paris", "Lyon"]}',
    "[[ ## Answer ## ]] Paris",
    "<answer>Paris & Lyon",
    '{"result": {"answer": 1912}}',
]


@pytest.mark.parametrize("reply", MENDED)
@pytest.mark.parametrize("cut", [False, True])
def test_a_reply_with_small_faults_is_mended(reply: str, cut: bool) -> None:
    program = build_program(method("vanilla"))
    module = load_module(derive_export(program))
    (call,) = program.predictors()
    outputs = module.parse("answer", module.Cut(reply) if cut else reply)
    assert outputs == read_as_program(call, reply, truncated=cut) != UNREAD


@pytest.mark.parametrize("reply", ['{"answer": "Paris', '{"answer": "Paris [1], in Fra', '{"answer":'])
def test_a_value_that_ends_in_its_midst_is_read_only_where_the_reply_is_known_to_be_cut(reply: str) -> None:
    program = build_program(method("vanilla"))
    module = load_module(derive_export(program))
    (call,) = program.predictors()
    assert module.parse("answer", module.Cut(reply)) == read_as_program(call, reply, truncated=True) != UNREAD
    assert read_as_program(call, reply, truncated=False) == UNREAD
    with pytest.raises(module.ReplyError):
        module.parse("answer", reply)


def test_of_a_list_that_was_cut_inside_a_text_the_finished_items_are_read() -> None:
    program = build_program(method("rankgpt"))
    module = load_module(derive_export(program))
    ((name, call),) = ((name, call) for name, call in program.named_predictors() if name != "answer")
    reply = '{"order": ["3", "12", "1'
    assert module.parse(name, module.Cut(reply)) == read_as_program(call, reply, truncated=True)
    assert module.parse(name, module.Cut(reply)) == {"order": [3, 12]}


def test_an_exported_file_defines_each_name_once() -> None:
    program = derive_export(build_program(method("vanilla")))
    tree = ast.parse(next(iter(python_format.write(program).values())))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names += [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    assert [name for name, count in Counter(names).items() if count > 1] == []
