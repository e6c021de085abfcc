"""openai-batch: the cases of a program as a batch of requests for OpenAI and vLLM, one per line.

A line is `{"custom_id", "method", "url", "body"}`; the body is what ragc's own targets send for the case. The
custom id is the id of the question, so that replies can be matched.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator

from ragc.exports.loading import ExportedPrompt
from ragc.exports.write import Format
from ragc.prompts.model import Case, CompiledPrompt, ExportedProgram, NotExpressible

SUFFIX = ".batch.jsonl"
URL = "/v1/chat/completions"


def write(program: ExportedProgram) -> dict[str, bytes]:
    """Returns one file for each prompt that has cases; raises NotExpressible without cases."""
    if not program.cases:
        raise NotExpressible(
            "A program without questions",
            "openai-batch writes a request for each question; add --questions N for N dev questions",
            ("every other format",),
        )
    prompts_with_cases = {case.prompt for case in program.cases}
    return {
        f"{prompt.name}{SUFFIX}": _file(program, prompt)
        for prompt in program
        if prompt.name in prompts_with_cases
    }


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> bytes:
    return "".join(_lines(program, prompt)).encode()


def _lines(program: ExportedProgram, prompt: CompiledPrompt) -> Iterator[str]:
    """Yields one line per case, in order; ASCII only, so that no reader splits a text at a line separator."""
    from ragc.prompts.render import render

    taken = {case.id for case in program.cases if case.prompt == prompt.name}
    used: set[str] = set()
    for case in program.cases:
        if case.prompt == prompt.name:
            id = _id(case, used, taken)
            used.add(id)
            messages = [{"role": m.role, "content": m.content} for m in render(prompt, case.inputs)]
            body = {"model": program.openai_model(prompt), "messages": messages, **prompt.parameters()}
            request = {"custom_id": id, "method": "POST", "url": URL, "body": body}
            yield json.dumps(request, allow_nan=False) + "\n"


def _id(case: Case, used: Collection[str], taken: Collection[str]) -> str:
    """Returns the id of the case, with a number appended if an earlier case has the same id."""
    if case.id not in used:
        return case.id
    numbered = (f"{case.id}#{n}" for n in range(2, len(used) + len(taken) + 3))
    return next(id for id in numbered if id not in used and id not in taken)


def load(at: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    model = shlex.quote(at.program.openai_model(at.prompt))
    return (
        "import pathlib, openai",
        f"held = openai.OpenAI().files.create(file=pathlib.Path({at.file}), purpose='batch')",
        f"openai.OpenAI().batches.create(input_file_id=held.id, endpoint='{URL}', completion_window='24h')",
        f"$ python -m vllm.entrypoints.openai.run_batch -i {at.shell} -o replies.jsonl --model {model}",
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
)
