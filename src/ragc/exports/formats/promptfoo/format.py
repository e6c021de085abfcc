"""promptfoo: a folder for each prompt, with a config, a chat template, and dev questions as tests.

A prompt's inputs are the fields of one variable, `inputs`: promptfoo changes variables that are texts (it
loads `file://`, fills in `{{name}}` and drops a final line break), but not the fields of an object.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from importlib.resources import files as resources
from typing import Any

from ragc.exports.formats.baml.types import line
from ragc.exports.formats.promptfoo.metric import METRICS
from ragc.exports.loading import ExportedPrompt, example_inputs
from ragc.exports.write import Format
from ragc.prompts.model import Case, CompiledPrompt, ExportedProgram, Input, Kind, Slot, TemplateMessage

VERSION = "0.119.0"
CONFIG, TEMPLATE, TESTS = "promptfooconfig.yaml", "chat.json", "tests.json"
SCHEMA, METRIC = "response_format.json", "metric.py"
ANSWER = "answer"
"""The output that metrics score."""

_EXACT = 2**53 - 1
_HOLDS = """\
# The inputs of the prompt are the fields of the variable `inputs`:
{inputs}
# A number other than an integer is given as the text that stands in the prompt.
"""


def write(program: ExportedProgram) -> dict[str, bytes]:
    """Returns the files of each prompt, in a folder of the prompt's name."""
    files: dict[str, bytes] = {}
    for prompt, folder in zip(program, folders(program), strict=True):
        cases = [case for case in program.cases if case.prompt == prompt.name]
        files[f"{folder}/{CONFIG}"] = _config(program, prompt, cases).encode()
        files[f"{folder}/{TEMPLATE}"] = _json([_message(prompt, one) for one in prompt.messages], indent=2)
        if prompt.enforced:
            files[f"{folder}/{SCHEMA}"] = _json(prompt.parameters()["response_format"], indent=2)
        if cases:
            files[f"{folder}/{TESTS}"] = _json([_test(program, prompt, case) for case in cases], indent=1)
        if cases and not why_not_scored(program, prompt):
            source = resources("ragc.exports.formats.promptfoo").joinpath("metric.py").read_text("utf-8")
            files[f"{folder}/{METRIC}"] = source.encode()
    return files


def folders(program: ExportedProgram) -> tuple[str, ...]:
    """Returns the name of each prompt's folder: the prompt's name, with a number if it is taken."""
    names: list[str] = []
    for prompt in program:
        plain = name = re.sub(r"[^A-Za-z0-9_-]", "_", prompt.name)
        while name.lower() in map(str.lower, names):
            name = f"{plain}_{len(names) + 1}"
        names.append(name)
    return tuple(names)


def build_variables(prompt: CompiledPrompt, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the variables of a test for `inputs`; values that JavaScript would format differently are
    texts.
    """
    return {"inputs": {name: _input_value(prompt.input(name), value) for name, value in inputs.items()}}


def why_not_scored(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    """Returns why the metric of `program` is not asserted on replies to `prompt`; "" when it is."""
    if not program.metric:
        return "the metric that the program was compiled for is not known"
    if program.metric not in METRICS:
        return f"the metric {program.metric} needs more than the answer, its golds and plain Python"
    fields = {one.name: one.schema for one in prompt.outputs}
    if fields.get(ANSWER, {}).get("type") != "string":
        return f"the replies to this prompt have no text called {ANSWER}"
    return ""


def _config(program: ExportedProgram, prompt: CompiledPrompt, cases: list[Case]) -> str:
    reason = why_not_scored(program, prompt)
    fields = "\n".join(f"# - {one.name}: {_kind(one)}" for one in prompt.inputs)
    note = f"# {line(program.note)}\n" if program.note else ""
    untested = f"# No assertion: {reason}.\n" if reason else ""
    example = f"tests: # made up; export with --questions N for N dev questions\n  - {_example(prompt)}"
    sent = {name: value for name, value in prompt.parameters().items() if name != "response_format"}
    schema = f"      response_format: file://{SCHEMA}\n" if prompt.enforced else ""
    return f"""\
# Program {program.fingerprint}.
{note}{_HOLDS.format(inputs=fields)}{untested}\
description: {_quote(f"The prompt {prompt.name} of {program.method}")}
prompts:
  - id: file://{TEMPLATE}
    label: {_quote(prompt.name)}
providers:
  # shows the messages: promptfoo eval --filter-providers echo
  - id: echo
  # asks a server with OpenAI's API that has this model: OPENAI_BASE_URL names it, OPENAI_API_KEY its key
  - id: {_quote(f"openai:chat:{program.openai_model(prompt)}")}
    config:
      passthrough: {json.dumps(sent)}
{schema}defaultTest:
  options:
    disableVarExpansion: true
{f"tests: file://{TESTS}" if cases else example}
"""


def _example(prompt: CompiledPrompt) -> str:
    """Returns a test with a placeholder value for each input, as YAML."""
    test = {"description": "an example", "vars": build_variables(prompt, example_inputs(prompt))}
    return json.dumps(test)


def _kind(one: Input) -> str:
    return f"{'a list, each ' if one.many else ''}{one.kind}{f'; {line(one.about)}' if one.about else ''}"


def _test(program: ExportedProgram, prompt: CompiledPrompt, case: Case) -> dict[str, Any]:
    from ragc.prompts.model import style

    test: dict[str, Any] = {"description": case.id, "vars": build_variables(prompt, case.inputs)}
    if not why_not_scored(program, prompt):
        config = {
            "metric": program.metric,
            "field": ANSWER,
            "style": style(prompt),
            "golds": list(case.answers),
        }
        scored = {"type": "python", "value": f"file://{METRIC}", "metric": program.metric, "config": config}
        test["assert"] = [scored]
    return test


def _input_value(one: Input, value: Any) -> Any:
    if one.many:
        return [_item(one.kind, item) for item in value]
    return _item(one.kind, value)


def _item(kind: Kind, value: Any) -> Any:
    exact = kind != "number" and not (kind == "integer" and abs(value) > _EXACT)
    return value if exact else str(value)


def _message(prompt: CompiledPrompt, message: TemplateMessage) -> dict[str, str]:
    from ragc.prompts.render import literal

    content, after = "", False
    for part in message.parts:
        if isinstance(part, Slot):
            content += _slot(prompt.input(part.name), part)
        else:
            content += literal(part, after_block=after, rest=part is not message.parts[-1])
        after = content.endswith("%}")
    if content.startswith("file://"):  # promptfoo would load such a file
        content = f'{{{{ "f" }}}}{content[1:]}'
    return {"role": message.role, "content": content}


def _slot(one: Input, slot: Slot) -> str:
    """Returns the source of a slot in Nunjucks."""
    from ragc.prompts.render import guard, loop

    plain = re.fullmatch("(?!(?:none|null|true|false)$)[A-Za-z_][A-Za-z0-9_]*", one.name)
    name = f"inputs.{one.name}" if plain else f"inputs[{json.dumps(one.name, ensure_ascii=False)}]"
    if slot.style == "plain":
        return _expression(one.kind, name, slot.words)
    item, refusal = _expression(one.kind, "item", ("true", "false")), guard(one.name, name)
    if slot.style == "json" and one.kind == "text":
        item = "{{ item | dump }}"
    return refusal + loop(slot, name, item)


def _expression(kind: Kind, name: str, words: tuple[str, str]) -> str:
    return f'{{{{ "{words[0]}" if {name} else "{words[1]}" }}}}' if kind == "flag" else f"{{{{ {name} }}}}"


def _quote(text: str) -> str:
    """Returns `text` as YAML."""
    return json.dumps(text)


def _json(value: Any, *, indent: int) -> bytes:
    """Returns JSON in ASCII: promptfoo reads some of it as YAML, which has no raw control characters."""
    return (json.dumps(value, indent=indent) + "\n").encode()


def _folder(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    return dict(zip((one.name for one in program), folders(program), strict=True))[prompt.name]


def load(at: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        f"$ cd {shlex.quote(str(at.path.parent))}",
        f"$ npx promptfoo@{VERSION} eval --filter-providers echo  # shows the messages",
        f"$ OPENAI_BASE_URL=... OPENAI_API_KEY=... npx promptfoo@{VERSION} eval --filter-providers openai",
    )


KIND = Format(
    id="promptfoo",
    about="a promptfoo config and chat template for each prompt, with dev questions and the metric as tests",
    suffix=CONFIG,
    consumer=f"promptfoo {VERSION}: promptfoo eval in a prompt's folder",
    write=write,
    load=load,
    cases=True,
    named=lambda program, prompt: f"{_folder(program, prompt)}/{CONFIG}",
    folder=True,
)
