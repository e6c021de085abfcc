"""python: 200 generated inputs and more replies, with the generated files run alone."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.programs import METHODS
from ragc.programs.knobs import LAYOUTS, WORDINGS
from tests.exports.common import (
    CALM,
    NASTY,
    build_program,
    capture_messages,
    inputs_for,
    programs,
    with_demos,
)
from tests.exports.formats.python.replies import damage, outputs_of, read_as_program, validated, write_reply
from tests.exports.formats.python.test_format import load_module, nasty, run_alone, shown_by, source

pytestmark = pytest.mark.integration
slow = settings(suppress_health_check=CALM, deadline=None)


def test_all_programs_render_what_is_sent_with_the_standard_library_alone(tmp_path: Path) -> None:
    draw, work, wanted = random.Random(8), [], []
    for i, program in enumerate(programs()):
        out = derive_export(program)
        file = tmp_path / f"p{i}.py"
        file.write_text(source(out), "utf-8", newline="")
        calls = [(prompt.name, nasty(prompt, draw)) for prompt in out]
        work.append((str(file), calls))
        wanted.append([[list(m) for m in capture_messages(program, *call)] for call in calls])
    assert run_alone(work) == wanted


def test_ruff_and_the_compiler_have_nothing_to_say(tmp_path: Path) -> None:
    pytest.importorskip("ruff", reason="needs ruff")
    for i, program in enumerate(programs()):
        call = program.predictors()[0]
        call.signature = call.signature.with_instructions("".join(NASTY))
        (tmp_path / f"p{i}.py").write_text(source(derive_export(program)), "utf-8", newline="")
    files = "for f in pathlib.Path(sys.argv[1]).iterdir()"
    compiled = f"import pathlib, sys; [compile(f.read_bytes(), f.name, 'exec') {files}]"
    strict = "-m ruff check --isolated --no-cache --extend-select I,B,PL,RUF022 --ignore PLR"
    form = "-m ruff format --isolated --no-cache --line-length 110 --check"
    for command in (["-W", "error", "-c", compiled], strict.split(), form.split()):
        process = subprocess.run(
            [sys.executable, *command, str(tmp_path)], capture_output=True, encoding="utf-8", check=False
        )
        assert process.returncode == 0, process.stdout + process.stderr


@settings(slow, max_examples=200)
@given(data=st.data())
def test_any_program_renders_any_input_as_it_is_sent(data: Any, tmp_path_factory: Any) -> None:
    entry, layout = data.draw(st.sampled_from(METHODS)), data.draw(st.sampled_from(LAYOUTS))
    program = with_demos(
        build_program(entry, layout=layout, wording=data.draw(st.sampled_from(WORDINGS)), icl_n=2), data
    )
    assume("\ue000" not in shown_by(program))  # which the core refuses
    out = derive_export(program)
    prompt = data.draw(st.sampled_from(out.prompts))
    inputs = data.draw(inputs_for(prompt))
    file: Path = tmp_path_factory.mktemp("python") / "generated.py"
    file.write_text(source(out), "utf-8", newline="")
    expected = [list(message) for message in capture_messages(program, prompt.name, inputs)]
    assert run_alone([(str(file), [(prompt.name, inputs)])]) == [[expected]]


@settings(slow, max_examples=2000)
@given(data=st.data())
def test_no_reply_is_read_otherwise_than_we_read_it(data: Any) -> None:
    entry, layout = data.draw(st.sampled_from(METHODS)), data.draw(st.sampled_from(LAYOUTS))
    program = build_program(entry, layout=layout, wording=data.draw(st.sampled_from(WORDINGS)))
    name, call = data.draw(st.sampled_from(program.named_predictors()))
    module = load_module(derive_export(program))
    text = data.draw(damage(write_reply(call, data.draw(outputs_of(call)))))
    cut, again = data.draw(st.booleans()), data.draw(st.booleans())
    try:
        outputs = module.parse(name, module.Cut(text) if cut else text, again=again)
    except module.ReplyError:
        return
    assert validated(call, outputs) == read_as_program(call, text, truncated=cut, again=again)
