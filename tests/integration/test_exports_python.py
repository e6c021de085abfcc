"""python: 200 generated inputs and more replies, with the generated files run alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragc.exports.derive import exported
from ragc.programs import METHODS
from ragc.programs.knobs import LAYOUTS
from tests.exports.common import CALM, inputs_for, made, sent, with_demos
from tests.exports.formats.python.replies import broken, ours, outputs_of, written
from tests.exports.formats.python.test_format import alone, loaded, shown_by, source

pytestmark = pytest.mark.integration
slow = settings(suppress_health_check=CALM, deadline=None)


@settings(slow, max_examples=200)
@given(data=st.data())
def test_any_program_renders_any_input_as_it_is_sent(data: Any, tmp_path_factory: Any) -> None:
    entry, layout = data.draw(st.sampled_from(METHODS)), data.draw(st.sampled_from(LAYOUTS))
    program = with_demos(made(entry, layout=layout, icl_n=2), data)
    assume("\ue000" not in shown_by(program))  # which the core refuses
    out = exported(program)
    prompt = data.draw(st.sampled_from(out.prompts))
    inputs = data.draw(inputs_for(prompt))
    file: Path = tmp_path_factory.mktemp("python") / "generated.py"
    file.write_text(source(out), "utf-8", newline="")
    wanted = [list(message) for message in sent(program, prompt.name, inputs)]
    assert alone([(str(file), [(prompt.name, inputs)])]) == [[wanted]]


@settings(slow, max_examples=2000)
@given(data=st.data())
def test_no_reply_is_read_otherwise_than_we_read_it(data: Any) -> None:
    entry, layout = data.draw(st.sampled_from(METHODS)), data.draw(st.sampled_from(LAYOUTS))
    program = made(entry, layout=layout)
    name, call = data.draw(st.sampled_from(program.named_predictors()))
    module = loaded(exported(program))
    text = data.draw(broken(written(call, data.draw(outputs_of(call)))))
    cut, again = data.draw(st.booleans()), data.draw(st.booleans())
    try:
        found = module.parse(name, module.Cut(text) if cut else text, again=again)
    except module.ReplyError:
        return
    assert found == ours(call, text, truncated=cut, again=again)
