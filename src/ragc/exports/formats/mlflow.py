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

from ragc.exports.formats.base import ExportedPrompt, Format, json_text, metadata, per_prompt, refuse_inputs
from ragc.prompts.model import ALL_CAN, CompiledPrompt, ExportedProgram, NotExpressible
from ragc.prompts.render import template

SUFFIX = ".mlflow.json"
MOST = 100_000
"""Maximum length of a prompt in MLflow's store: its messages as ASCII JSON, in characters."""

TAKEN = ("self", "allow_partial", "use_jinja_sandbox")
"""Reserved arguments of `format`."""

_TAGS = ("program", "note", "input_schema", "output_schema", "reply")
_NAMES = {"model": "model_name", "stop": "stop_sequences"}
"""Parameters with another name in MLflow."""


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    """Returns the arguments, by which the prompt is called `METHOD-PROMPT`."""
    refuse_inputs(prompt, TAKEN, "MLflow")
    messages = [{"role": m.role, "content": template(prompt, m)} for m in prompt.messages]
    if "{%" not in messages[-1]["content"]:  # fixed text never contains this: it is written as an expression
        messages[-1]["content"] += "{% raw %}{% endraw %}"
    if (size := len(json.dumps(messages))) > MOST:
        why = f"its messages take {size:,} characters and MLflow stores {MOST:,}"
        raise NotExpressible(f"The prompt {prompt.name!r}", why, ALL_CAN)
    how = "Render it with format, and give every input: a missing one is written as nothing."
    facts = metadata(program, prompt, how)
    sent = {"model": prompt.model, **prompt.sampling}
    return json_text(
        {
            "name": re.sub(r"[^a-zA-Z0-9_.-]", "-", f"{program.method}-{prompt.name}"),
            "template": messages,
            "commit_message": " ".join(facts[name] for name in ("about", "note") if name in facts),
            "tags": {f"ragc_{name}": _tag(facts[name]) for name in _TAGS if name in facts},
            **({"response_format": facts["output_schema"]} if prompt.enforced else {}),
            "model_config": {_NAMES.get(name, name): value for name, value in sent.items()},
        }
    )


def _tag(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def load(place: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        place.inputs,
        "import json, pathlib, mlflow",
        f"prompt = mlflow.genai.register_prompt(**json.loads(pathlib.Path({place.file}).read_text('utf-8')))",
        "messages = prompt.format(**inputs)",
    )


KIND = Format(
    id="mlflow",
    about="the arguments of mlflow.genai.register_prompt, with parameters, schemas and a Jinja2 template",
    suffix=SUFFIX,
    consumer="mlflow 3.17.2, mlflow.genai.register_prompt(**json.load(file))",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
