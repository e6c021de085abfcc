"""openai-batch: the cases of a program as a batch of requests for OpenAI and vLLM, one per line.

A line is `{"custom_id", "method", "url", "body"}`; the body is what ragc's own targets send for the case. The
custom id is the id of the question, so that replies can be matched.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from itertools import count

from ragc.exports.formats.base import ExportedPrompt, Format
from ragc.prompts.model import CompiledPrompt, ExportedProgram, NotExpressible
from ragc.prompts.render import render

SUFFIX = ".batch.jsonl"
URL = "/v1/chat/completions"


def write(program: ExportedProgram) -> dict[str, bytes]:
    """Returns one file for each prompt that has cases; raises NotExpressible without cases."""
    if not program.cases:
        why = "openai-batch writes a request for each question; add --questions N for N dev questions"
        raise NotExpressible("A program without questions", why, ("every other format",))
    files = {f"{prompt.name}{SUFFIX}": "".join(_lines(program, prompt)).encode() for prompt in program}
    return {name: content for name, content in files.items() if content}


def _lines(program: ExportedProgram, prompt: CompiledPrompt) -> Iterator[str]:
    """Yields one line per case, in order; ASCII only, so that no reader splits a text at a line separator."""
    cases = [case for case in program.cases if case.prompt == prompt.name]
    taken = {case.id for case in cases}
    used: set[str] = set()
    for case in cases:
        numbered = (f"{case.id}#{n}" for n in count(2))
        repeated = case.id in used
        id = next(name for name in numbered if name not in used | taken) if repeated else case.id
        used.add(id)
        messages = [{"role": m.role, "content": m.content} for m in render(prompt, case.inputs)]
        body = {"model": prompt.openai_model, "messages": messages, **prompt.parameters}
        request = {"custom_id": id, "method": "POST", "url": URL, "body": body}
        yield json.dumps(request, allow_nan=False) + "\n"


def load(place: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    model = shlex.quote(place.prompt.openai_model)
    return (
        "import pathlib, openai",
        f"held = openai.OpenAI().files.create(file=pathlib.Path({place.file}), purpose='batch')",
        f"openai.OpenAI().batches.create(input_file_id=held.id, endpoint='{URL}', completion_window='24h')",
        f"$ python -m vllm.entrypoints.openai.run_batch -i {place.shell} -o replies.jsonl --model {model}",
    )


KIND = Format(
    id="openai-batch",
    about="a batch of chat requests, one line a question, as OpenAI and vLLM's run_batch take it",
    suffix=SUFFIX,
    consumer="openai 2.54 and vllm 0.32, `python -m vllm.entrypoints.openai.run_batch`",
    write=write,
    load=load,
    folder=True,
    alone=True,
    cases=True,
    escapes=True,
)
