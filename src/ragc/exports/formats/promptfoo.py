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

from ragc.exports.formats.base import ExportedPrompt, Format, distinct, line, page
from ragc.prompts.model import INPUTS, Case, CompiledPrompt, ExportedProgram, Slot, TemplateMessage, style
from ragc.prompts.render import compose, escaped_inputs, slot_source

VERSION = "0.119.0"
CONFIG = "promptfooconfig.yaml"
ANSWER = "answer"
"""The output that metrics score."""

METRICS = frozenset(
    """
    em f1 acc hotpot_em hotpot_f1 prefrag_acc bioasq_acc choice_acc popqa_match slim_em hit1
    """.split()  # noqa: SIM905
)
"""The metrics of `templates/promptfoo_metric.py.txt`: those that need a text and its golds alone."""

_EXACT = 2**53 - 1


def write(program: ExportedProgram) -> dict[str, bytes]:
    """Returns the files of each prompt, in a folder of the prompt's name."""
    files: dict[str, bytes] = {}
    for prompt, folder in zip(program, folders(program), strict=True):
        cases = [case for case in program.cases if case.prompt == prompt.name]
        why = why_not_scored(program, prompt)
        files[f"{folder}/{CONFIG}"] = _config(program, prompt, why, tested=bool(cases)).encode()
        files[f"{folder}/chat.json"] = _json([_message(prompt, message) for message in prompt.messages])
        if "response_format" in prompt.parameters:
            files[f"{folder}/response_format.json"] = _json(prompt.parameters["response_format"])
        if cases:
            files[f"{folder}/tests.json"] = _json([_test(program, prompt, case, why) for case in cases])
        if cases and not why:
            text = resources("ragc.exports").joinpath("templates", "promptfoo_metric.py.txt").read_bytes()
            files[f"{folder}/metric.py"] = text
    return files


def folders(program: ExportedProgram) -> tuple[str, ...]:
    """Returns the name of each prompt's folder: the prompt's name, with a number if it is taken."""
    names: list[str] = []
    for prompt in program:
        names.append(distinct(re.sub(r"[^A-Za-z0-9_-]", "_", prompt.name), names))
    return tuple(names)


def why_not_scored(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    """Returns why the metric of `program` is not asserted on replies to `prompt`; "" when it is."""
    if not program.metric:
        return "the metric that the program was compiled for is not known"
    if program.metric not in METRICS:
        return f"the metric {program.metric} needs more than the answer, its golds and plain Python"
    text = prompt.output_schema["properties"].get(ANSWER, {}).get("type") == "string"
    return "" if text else f"the replies to this prompt have no text called {ANSWER}"


def build_variables(prompt: CompiledPrompt, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the variables of a test; values that JavaScript would format differently are texts."""

    def value(kind: str, item: Any) -> Any:
        return str(item) if kind == "number" or (kind == "integer" and abs(item) > _EXACT) else item

    values: dict[str, Any] = {}
    for name, content in inputs.items():
        kind, many = prompt.input(name).kind, prompt.input(name).many
        values[name] = [value(kind, item) for item in content] if many else value(kind, content)
    return {"inputs": values}


def _config(program: ExportedProgram, prompt: CompiledPrompt, why: str, *, tested: bool) -> str:
    return str(
        page("promptfooconfig.yaml.j2").render(
            program=program,
            prompt=prompt,
            why=why,
            tested=tested,
            inputs=INPUTS,
            model=prompt.openai_model,
            line=line,
            quote=json.dumps,
            example={"description": "an example", "vars": build_variables(prompt, prompt.placeholders())},
        )
    )


def _test(program: ExportedProgram, prompt: CompiledPrompt, case: Case, why: str) -> dict[str, Any]:
    test: dict[str, Any] = {
        "description": case.id,
        "vars": build_variables(prompt, escaped_inputs(prompt, case.inputs)),
    }
    if not why:
        config = {
            "metric": program.metric,
            "field": ANSWER,
            "style": style(prompt),
            "golds": list(case.answers),
        }
        scored = {"type": "python", "value": "file://metric.py", "metric": program.metric, "config": config}
        test["assert"] = [scored]
    return test


def _message(prompt: CompiledPrompt, message: TemplateMessage) -> dict[str, str]:
    """Returns a message in Nunjucks."""

    def slot(part: Slot) -> str:
        plain = re.fullmatch("(?!(?:none|null|true|false)$)[A-Za-z_][A-Za-z0-9_]*", part.name)
        name = f"inputs.{part.name}" if plain else f"inputs[{json.dumps(part.name, ensure_ascii=False)}]"
        return slot_source(prompt.input(part.name), part, name, in_json="{{ item | dump }}")

    content = compose(message, slot)
    if content.startswith("file://"):  # promptfoo would load such a file
        content = f'{{{{ "f" }}}}{content[1:]}'
    return {"role": message.role, "content": content}


def _json(value: Any) -> bytes:
    """Returns JSON in ASCII: promptfoo reads some of it as YAML, which has no raw control characters."""
    return (json.dumps(value, indent=2) + "\n").encode()


def _named(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    return f"{folders(program)[program.prompts.index(prompt)]}/{CONFIG}"


def load(place: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        f"$ cd {shlex.quote(str(place.path.parent))}",
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
    named=_named,
    folder=True,
    consumer_folders=("__pycache__",),
)
