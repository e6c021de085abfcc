"""openai-json: a chat request of OpenAI's API with `{{slots}}`, and the input of each slot.

All slots are replaced in one pass by the inputs' values in their style. Slot names are chosen so that no
fixed text contains one.
"""

from __future__ import annotations

from typing import Any

from ragc.exports.formats.base import json_bytes, per_prompt
from ragc.exports.loading import ExportedPrompt
from ragc.exports.write import Format
from ragc.prompts.model import CompiledPrompt, ExportedProgram, Slot

SUFFIX = ".openai.json"
STYLES = {
    "plain": "the value as it is; a number in decimal; a flag as one of `words`",
    "lines": "`[1] item` a line, numbered from 1, LF between them; `none` for an empty list",
    "json": "a JSON array, `, ` between items; characters beyond ASCII as they are",
}


def marks(prompt: CompiledPrompt) -> dict[str, Slot]:
    """Returns the text of each slot: `{{name}}`, with a number if a fixed text or slot contains that."""
    fixed = "\n".join(str(p) for m in prompt.messages for p in m.parts if not isinstance(p, Slot))
    slots: dict[str, Slot] = {}
    for slot in dict.fromkeys(slot for message in prompt.messages for slot in message.slots):
        names = [slot.name, *(f"{slot.name}_{n}" for n in range(2, len(fixed) + len(slots) + 3))]
        mark = next(m for m in (f"{{{{{name}}}}}" for name in names) if m not in slots and m not in fixed)
        slots[mark] = slot
    return slots


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> bytes:
    from ragc.prompts.model import reading, with_source

    slots = marks(prompt)
    texts = {slot: mark for mark, slot in slots.items()}
    messages = [
        {"role": m.role, "content": "".join(texts[p] if isinstance(p, Slot) else p for p in m.parts)}
        for m in prompt.messages
    ]
    document: dict[str, Any] = {
        "about": f"The prompt {prompt.name} of {program.method}. Replace every slot, all in one pass.",
        "program": program.fingerprint,
        **({"note": program.note} if program.note else {}),
        "request": {
            "model": program.openai_model(prompt),
            "messages": messages,
            **prompt.parameters(),
        },
        "slots": {mark: _slot(slot) for mark, slot in slots.items()},
        "styles": {style: STYLES[style] for style in dict.fromkeys(slot.style for slot in slots.values())},
        "input_schema": prompt.input_schema,
        "output_schema": dict(prompt.output_schema),
        "reply": reading(prompt),
    }
    return json_bytes(with_source(prompt, document))


def _slot(slot: Slot) -> dict[str, Any]:
    return {"input": slot.name, "style": slot.style, "words": list(slot.words)}


def load(at: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        "import json, pathlib",
        f"made = json.loads(pathlib.Path({at.file}).read_text('utf-8'))",
        "body = made['request']  # replace its slots as made['slots'] says, all in one pass: "
        + ", ".join(marks(at.prompt)),
    )


KIND = Format(
    id="openai-json",
    about="a chat request of OpenAI's API with {{slots}} for the inputs, and what each slot stands for",
    suffix=SUFFIX,
    consumer="openai 2.54, any OpenAI-compatible server",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
