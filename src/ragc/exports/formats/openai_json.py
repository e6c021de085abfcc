"""openai-json: a chat request of OpenAI's API with `{{slots}}`, and the input of each slot.

All slots are replaced in one pass by the inputs' values in their style. Slot names are chosen so that no
fixed text contains one.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from ragc.exports.formats.base import ExportedPrompt, Format, json_text, metadata, per_prompt
from ragc.prompts.model import CompiledPrompt, ExportedProgram, Slot, with_source

SUFFIX = ".openai.json"
STYLES = {
    "plain": "the value as it is; a number in decimal; a flag as one of `words`",
    "lines": "`[1] item` a line, numbered from 1, LF between them; `none` for an empty list",
    "json": "a JSON array, `, ` between items; characters beyond ASCII as they are",
}


def marks(prompt: CompiledPrompt) -> dict[Slot, str]:
    """Returns the text of each slot: `{{name}}`, with a number if a fixed text or slot contains that."""
    fixed = "\n".join(part for m in prompt.messages for part in m.parts if isinstance(part, str))
    texts: dict[Slot, str] = {}
    for slot in dict.fromkeys(prompt.messages[-1].slots):
        candidates = (f"{{{{{slot.name}{f'_{n}' if n > 1 else ''}}}}}" for n in count(1))
        texts[slot] = next(mark for mark in candidates if mark not in texts.values() and mark not in fixed)
    return texts


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    facts, texts = metadata(program, prompt, "Replace every slot, all in one pass."), marks(prompt)
    head: dict[str, Any] = {key: facts.pop(key) for key in ("about", "program", "note") if key in facts}
    del facts["model"]
    messages = [
        {"role": m.role, "content": "".join(texts[p] if isinstance(p, Slot) else p for p in m.parts)}
        for m in prompt.messages
    ]
    document: dict[str, Any] = {
        **head,
        "request": {"model": prompt.openai_model, "messages": messages, **facts.pop("parameters")},
        "slots": {
            mark: {"input": slot.name, "style": slot.style, "words": list(slot.words)}
            for slot, mark in texts.items()
        },
        "styles": {slot.style: STYLES[slot.style] for slot in texts},
        **facts,
    }
    return json_text(with_source(prompt, document))


def load(place: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        "import json, pathlib",
        f"export = json.loads(pathlib.Path({place.file}).read_text('utf-8'))",
        "body = export['request']  # replace its slots as export['slots'] says, all in one pass: "
        + ", ".join(marks(place.prompt).values()),
    )


KIND = Format(
    id="openai-json",
    about="a chat request of OpenAI's API with {{slots}} for the inputs, and what each slot stands for",
    suffix=SUFFIX,
    consumer="openai 2.54, any OpenAI-compatible server",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
