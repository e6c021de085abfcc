"""mlflow: the arguments that register a prompt: `mlflow.genai.register_prompt(**json.load(file))`.

MLflow renders a prompt with Jinja2 when one of its messages contains a block. Otherwise it replaces one input
after the other, also inside values inserted before. So a last message without a block gets an empty one at
its end. MLflow renders a missing input as nothing, and its list of `variables` contains only names between
double braces.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ragc.exports.formats.base import CAN, json_bytes, metadata, per_prompt, refuse_inputs
from ragc.exports.loading import ExportedPrompt
from ragc.exports.write import Format
from ragc.prompts.model import CompiledPrompt, ExportedProgram, NotExpressible

SUFFIX = ".mlflow.json"
MOST = 100_000
"""Maximum length of a prompt in MLflow's store: its messages as ASCII JSON, in characters."""

TAKEN = ("self", "allow_partial", "use_jinja_sandbox")
"""Reserved arguments of `format`."""

_BLOCK = "{% raw %}{% endraw %}"
_NAMES = {"model": "model_name", "stop": "stop_sequences"}
"""Parameters with another name in MLflow."""


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> bytes:
    """Returns the arguments, by which the prompt is called `METHOD-PROMPT`.

    Raises NotExpressible for an input named like an argument of `format`, and for messages of more than MOST
    characters.
    """
    refuse_inputs(prompt, TAKEN, "MLflow")
    how = "Render it with format, and give every input: a missing one is written as nothing."
    more = metadata(program, prompt, how)
    document: dict[str, Any] = {
        "name": re.sub(r"[^a-zA-Z0-9_.-]", "-", f"{program.method}-{prompt.name}"),
        "template": _template(prompt),
        "commit_message": " ".join(more[name] for name in ("about", "note") if name in more),
        "tags": {f"ragc_{name}": _tag(more[name]) for name in _TAGS if name in more},
        **({"response_format": more["output_schema"]} if prompt.enforced else {}),
        "model_config": _config(more["model"], more["parameters"]),
    }
    return json_bytes(document)


_TAGS = ("program", "note", "input_schema", "output_schema", "reply")


def _tag(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _template(prompt: CompiledPrompt) -> list[dict[str, str]]:
    from ragc.prompts.render import template

    messages = [{"role": message.role, "content": template(prompt, message)} for message in prompt.messages]
    # fixed text never contains this, since it is written as an expression
    if "{%" not in messages[-1]["content"]:
        messages[-1]["content"] += _BLOCK
    if (size := len(json.dumps(messages))) > MOST:
        why = f"its messages take {size:,} characters and MLflow stores {MOST:,}"
        raise NotExpressible(f"The prompt {prompt.name!r}", why, CAN)
    return messages


def _config(model: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Returns the model and its parameters by MLflow's names; the reply's schema is stored separately."""
    body = {"model": model, **parameters}
    return {_NAMES.get(name, name): value for name, value in body.items() if name != "response_format"}


def load(at: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        at.inputs,
        "import json, pathlib, mlflow",
        f"made = mlflow.genai.register_prompt(**json.loads(pathlib.Path({at.file}).read_text('utf-8')))",
        "messages = made.format(**inputs)",
    )


KIND = Format(
    id="mlflow",
    about="the arguments of mlflow.genai.register_prompt, with parameters, schemas and a Jinja2 template",
    suffix=SUFFIX,
    consumer="mlflow 3.17.2, mlflow.genai.register_prompt(**json.load(file))",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
