"""Generates the code of a Python export: its prompts, and the whole program if that is one call.

Each prompt has a function for its messages; a table lists all prompts. The function `answer` is the whole
program, for methods that are one call.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any

from ragc.exports.formats.python.source import Pieces, bracket, docstring, literal, string_literal
from ragc.prompts.model import (
    CompiledPrompt,
    ExportedProgram,
    Input,
    NotExpressible,
    Slot,
    TemplateMessage,
    style,
)

TYPES = {"text": "str", "integer": "int", "number": "float", "flag": "bool"}
READERS = {"json": "_read_json", "markers": "_read_markers", "tags": "_read_tags"}
_CITED = ("cited", "cited_list")
_OTHERS = ("jinja2", "openai-json")
_KEYWORDS = {
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "enum", "exclusiveMaximum", "exclusiveMinimum",
    "items", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "properties", "required",
    "type",
}  # fmt: skip


def check(prompt: CompiledPrompt) -> None:
    """Raises NotExpressible for an input that cannot be an argument, or a reply of an unsupported type."""
    what = f"The prompt {prompt.name!r}"
    for one in prompt.inputs:
        if not one.name.isidentifier() or keyword.iskeyword(one.name) or one.name == "model":
            raise NotExpressible(
                what, f"the input {one.name!r} cannot be an argument of its function", _OTHERS
            )
    schemas = {**prompt.output_schema["properties"], **prompt.output_schema.get("$defs", {})}
    for name, schema in schemas.items():
        if unknown := _unknown(schema):
            raise NotExpressible(what, f"no code here reads its output {name!r}, by its {unknown}", _OTHERS)


def _unknown(schema: Mapping[str, Any]) -> str:
    """Returns the part of a schema that the parser does not support; "" when it supports all."""
    if odd := sorted(schema.keys() - _KEYWORDS):
        return odd[0]
    if "$ref" in schema:
        return ""
    if "anyOf" in schema:
        return "" if all("$ref" in part for part in schema["anyOf"]) else "anyOf"
    kind = schema.get("type")
    if kind not in ("string", "integer", "number", "boolean", "array", "object") and not {
        "enum",
        "const",
    } & set(schema):
        return f"type {kind}"
    if kind == "object" and schema.get("additionalProperties") is not False:
        return "additionalProperties"
    if kind == "array" and "items" not in schema:
        return "items"
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return next(filter(None, map(_unknown, inner)), "")


def functions(program: ExportedProgram) -> dict[str, str]:
    """Returns the name of the function of each prompt, by the prompt's name."""
    names: dict[str, str] = {}
    for prompt in program:
        name = "_" + re.sub(r"\W", "_", prompt.name, flags=re.ASCII) + "_messages"
        while name in names.values():
            name += "_"
        names[prompt.name] = name
    return names


def helpers(program: ExportedProgram) -> set[str]:
    """Returns the names of the functions of `runtime/rendering.py` that the prompts call."""
    names = {"_message"}
    for prompt in program:
        for slot in prompt.messages[-1].slots:
            one = prompt.input(slot.name)
            names |= {f"_{one.kind}"} | ({"_text", "_items", _listing(slot)} if one.many else set())
    return names


def _listing(slot: Slot) -> str:
    return "_lines" if slot.style == "lines" else "_array"


def function(prompt: CompiledPrompt, name: str) -> str:
    """Returns the source of the function `name`, which returns the messages of `prompt` for its inputs."""
    arguments = [f"{one.name}: {typed(one)}" for one in prompt.inputs]
    head = bracket(f"def {name}(", ["*", *arguments] if arguments else [], ") -> list[dict[str, str]]:", 0)
    shown = f", {prompt.demos} demonstrations among them" if prompt.demos else ""
    about = "".join(f"\n    {one.name}: {one.about}" for one in prompt.inputs if one.about)
    doc = docstring(
        f"The messages of the prompt `{prompt.name}`{shown}.{f'{chr(10)}{about}' if about else ''}", 4
    )
    messages = [_message(prompt, message) for message in prompt.messages]
    return f"{head}\n    {doc}\n    return {bracket('[', messages, ']', 4, 200)}"


def typed(one: Input) -> str:
    """Returns the annotation of an input."""
    return f"Sequence[{TYPES[one.kind]}]" if one.many else TYPES[one.kind]


def _message(prompt: CompiledPrompt, message: TemplateMessage) -> str:
    parts = [
        _slot(prompt.input(part.name), part) if isinstance(part, Slot) else literal(part, 12)
        for part in message.parts
    ]
    return bracket("_message(", [string_literal(message.role), *parts], ")", 8)


def _slot(one: Input, slot: Slot) -> str:
    arguments = [string_literal(one.name), one.name]
    if one.many:
        return (
            f"{_listing(slot)}({', '.join([*arguments, *([f'_{one.kind}'] if one.kind != 'text' else [])])})"
        )
    words = map(string_literal, slot.words) if one.kind == "flag" and slot.words != ("true", "false") else ()
    return f"_{one.kind}({', '.join([*arguments, *words])})"


def table(program: ExportedProgram, names: Mapping[str, str]) -> str:
    """Returns the constant `PROMPTS`; `names` are the functions of the prompts."""
    rows = [
        f"{string_literal(prompt.name)}: "
        + bracket(
            "Prompt(",
            [
                f"messages={names[prompt.name]}",
                f"model={string_literal(program.openai_model(prompt))}",
                f"sampling={literal(_sampling(prompt), 8, 10)}",
                f"schema={literal(dict(prompt.output_schema), 8, 8)}",
                f"enforced={prompt.enforced}",
                f"read={READERS[style(prompt)]}",
            ],
            ")",
            4,
            200,
        )
        for prompt in program
    ]
    return f"PROMPTS: Mapping[str, Prompt] = {bracket('{', rows, '}', 0, 200)}"


def _sampling(prompt: CompiledPrompt) -> dict[str, Any]:
    return {name: value for name, value in prompt.parameters().items() if name != "response_format"}


_METHODS = frozenset(
    {"no_retrieval", "cot", "vanilla", "vanilla_sources", "iter_retgen", "chain_of_note", "ragx"}
)
"""Methods with a known flow around their single call per question."""


def answers(program: ExportedProgram) -> bool:
    """Returns whether the whole program can be exported as a function."""
    return program.single and program.method in _METHODS


def answer(program: ExportedProgram, pieces: Pieces) -> str:
    """Returns the function `answer` and its helpers; empty if the program is more than one call."""
    if not answers(program):
        return ""
    cited, refuses = program.knobs.get("answer_format") in _CITED, program.method == "ragx"
    input_names = {one.name for one in program.prompts[0].inputs}
    code = [
        _function(
            program, input_names, cited=cited and ("passages" in input_names or refuses), refuses=refuses
        )
    ]
    if "passages" in input_names:
        code.append(pieces.extract("ragc.core", "text.py", ("_MARKERS", "escape_markers")))
    if refuses:
        code.append(
            pieces.extract("ragc.signatures", "answer.py", ("INVALID", "UNSURE", "normalize_refusal"))
        )
    if cited and ("passages" in input_names or refuses):
        code.append(pieces.extract("ragc.signatures", "answer.py", ("_MARK", "drop_wrong_marks")))
    return "\n\n\n".join(code)


def _function(program: ExportedProgram, input_names: set[str], *, cited: bool, refuses: bool) -> str:
    name, passages, timed = program.prompts[0].name, "passages" in input_names, "query_time" in input_names
    arguments = [
        "question: str",
        *(["passages: Sequence[str]"] if passages else []),
        "complete: Complete",
        "*",
    ]
    arguments += ['query_time: str = ""'] if timed else []
    arguments += ['model: str = ""']
    head = bracket("def answer(", arguments, ") -> str:", 0)
    inputs = ["question=question"]
    inputs += ['query_time=query_time.strip() or "unknown"'] if timed else []
    inputs += ["passages=shown"] if passages else []
    lines = []
    if passages:  # a text would be split into letters
        lines = [
            "if isinstance(passages, str):",
            '    raise TypeError(f"passages must be a list of texts, got {passages!r:.80}.")',
            "shown = [escape_markers(passage) for passage in passages]",
        ]
    call = bracket(
        "reply = ask(", [string_literal(name), "complete", "model=model", *inputs], ")", 8 if refuses else 4
    )
    if refuses:
        lines += ["try:", f"    {call}", "except ReplyError:", '    reply = {"answer": ""}']
    else:
        lines += [call]
    last = 'normalize_refusal(reply["answer"])' if refuses else 'reply["answer"]'
    if program.method == "cot" and program.knobs.get("whole"):
        last = '"{}\\n{}".format(reply["reasoning"], reply["answer"])'
    if cited:
        single = ", single=True" if program.knobs["answer_format"] == "cited_list" else ""
        last = f"drop_wrong_marks({last}, {'len(shown)' if passages else 0}{single})[0]"
    doc = _about(passages=passages, timed=timed, refuses=refuses, cited=cited)
    return f'{head}\n    """{doc}"""\n' + "\n".join(f"    {line}" for line in [*lines, f"return {last}"])


def _about(*, passages: bool, timed: bool, refuses: bool, cited: bool) -> str:
    read = " from `passages`, which are those that a search found, best first" if passages else ""
    more = []
    if passages:
        more += [
            "A passage is its title, a line break and its text, or its text alone; what a chat template",
            "would read as a command is defused.",
        ]
    if timed:
        more += ["`query_time` says when the question was asked."]
    if cited:
        more += ["Marks of passages that are not there are dropped."]
    if refuses:
        more += ["It is UNSURE, INVALID or what the model says; a reply that cannot be read is unsure."]
    else:
        more += ["Raises ReplyError when neither the reply nor the one after it can be read."]
    details = "\n    ".join(more)
    return f"The answer to `question`{read}.\n\n    {details}\n    "
