"""baml: a `baml_src` folder with a client, the classes of the reply and a function for each prompt.

The top of `main.baml` states what BAML changes in every prompt; a prompt that it would change in another way
is refused. Replies of the layouts `chat` and `xml`, and those with types that BAML lacks, are returned as
text.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

from ragc.exports.formats.baml.types import OTHERS, NoBamlType, Types, distinct, line, names, pascal, value
from ragc.exports.loading import ExportedPrompt, example_inputs, inputs_line
from ragc.exports.write import Format
from ragc.prompts.model import CompiledPrompt, ExportedProgram, Input, NotExpressible, Slot, TemplateMessage

FOLDER, SUFFIX = "baml_src", ".baml"
VERSION = "0.226.3"
SPLITS = "_MAGIC_STRING_DELIMITER"
"""Suffix of BAML's delimiters of messages and files in a rendered prompt."""
SPLIT = "_MAGIC STRING_DELIMITER"
"""Replaces `SPLITS` where an input of a prompt contains it."""
BLANKS = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680"
    + "".join(map(chr, range(0x2000, 0x200B)))
    + "\u2028\u2029\u202f\u205f\u3000"
)
"""White space as BAML defines it; BAML strips it from every message."""

LIMITS = f"""\
// What BAML does with these prompts, whatever they say:
// - White space at both ends of a message is taken off.
// - A text that holds {SPLITS} would begin a new message; it is written {SPLIT}.
// - Integers are those of 64 bits; other numbers are written with a decimal point and no exponent.
// - Items of a list in a reply that break a bound are left out; another value that breaks one is an error.
"""

_BLANK_LINES = re.compile(rf"^[{BLANKS.replace(chr(10), '')}]+$", re.MULTILINE)
"""Lines of only white space, which BAML empties in a prompt's source."""

_TYPES = {"text": "string", "integer": "int", "number": "float", "flag": "bool"}


def write(program: ExportedProgram) -> dict[str, bytes]:
    """Returns `main.baml` with the shared parts, and one file per prompt."""
    functions, files = functions_of(program), {"main"}
    taken = {
        *functions.values(),
        *(f"{name}Model" for name in functions.values()),
        "AsText",
        "AsJson",
        "Again",
    }
    texts = {f"{FOLDER}/main{SUFFIX}": _main_file(program)}
    for prompt in program:
        file = distinct(names([prompt.name])[prompt.name], files)
        files.add(file)
        texts[f"{FOLDER}/{file}{SUFFIX}"] = "\n".join(_file(program, prompt, functions[prompt.name], taken))
    return {name: text.encode() for name, text in texts.items()}


def functions_of(program: ExportedProgram) -> dict[str, str]:
    """Returns the name of the function of each prompt by the prompt's name."""
    function_names: dict[str, str] = {}
    for prompt in program:
        function_names[prompt.name] = distinct(pascal(prompt.name), function_names.values())
    return function_names


def inputs_of(prompt: CompiledPrompt) -> dict[str, str]:
    """Returns the name of the function's parameter for each input."""
    return names(one.name for one in prompt.inputs)


def _main_file(program: ExportedProgram) -> str:
    from ragc.prompts.render import ESCAPES

    note = f"// {line(program.note)}\n" if program.note else ""
    escapes = "".join(f"|replace({_quote(raw)}, {_quote(escaped)})" for raw, escaped in ESCAPES.items())
    return f"""\
// The prompts of {program.method}, program {program.fingerprint}.
{note}{LIMITS}
generator python {{
  output_type "python/pydantic"
  output_dir "../"
  version "{VERSION}"
  default_client_mode sync
}}

retry_policy Again {{
  max_retries 3
  strategy {{
    type exponential_backoff
    delay_ms 500
    multiplier 2
    max_delay_ms 20000
  }}
}}

template_string AsText(value: string) #"{{{{ value|replace("{SPLITS}", "{SPLIT}") }}}}"#

template_string AsJson(value: string) #"{{{{ AsText(value){escapes} }}}}"#
"""


def _file(program: ExportedProgram, prompt: CompiledPrompt, function: str, taken: set[str]) -> Iterator[str]:
    returned, classes = _reply(prompt, function, taken)
    yield f"// The prompt {prompt.name} of {program.method}."
    if returned == "string":
        yield from _text_reply_notes(prompt)
    yield f"\nclient<llm> {function}Model {{"
    yield "  provider openai-generic"
    yield "  retry_policy Again"
    yield "  options {"
    yield "    base_url env.OPENAI_BASE_URL"
    yield "    api_key env.OPENAI_API_KEY"
    for name, option in {"model": program.openai_model(prompt), **prompt.parameters()}.items():
        yield f"    {name} {value(option, '    ')}"
    yield "  }\n}\n"
    yield from classes
    called = inputs_of(prompt)
    parameters = ", ".join(
        f"{called[one.name]}: {_TYPES[one.kind]}{'[]' * one.many}" for one in prompt.inputs
    )
    yield f"function {function}({parameters}) -> {returned} {{"
    yield f'  client {function}Model\n  prompt #"'
    for message in prompt.messages:
        yield f'{{{{ _.role("{message.role}") }}}}{_content(prompt, message, called)}'
    yield '"#\n}\n'


def _reply(prompt: CompiledPrompt, function: str, taken: set[str]) -> tuple[str, list[str]]:
    """Returns the type of the reply, and the classes that it needs."""
    if not prompt.enforced:
        return "string", []
    types = Types(function, prompt.output_schema, taken)
    try:
        return types.reply(), types.written
    except NoBamlType:
        return "string", []


def _text_reply_notes(prompt: CompiledPrompt) -> Iterator[str]:
    from ragc.prompts.model import marker, reading

    marks = [mark for one in prompt.outputs if (mark := marker(prompt, one.name))]
    yield f"// Its reply is given as text. {reading(prompt)['how']}"
    if marks:
        yield f"// The fields: {' '.join(marks)}"


def _content(prompt: CompiledPrompt, message: TemplateMessage, called: dict[str, str]) -> str:
    """Returns the source of a message's content; raises NotExpressible for content that BAML would drop or
    split.
    """
    from ragc.prompts.render import literal

    what = f"A {message.role} message of the prompt {prompt.name!r}"
    if message.fixed_text is not None and not message.fixed_text.strip(BLANKS):
        raise NotExpressible(what, "it is empty, and BAML leaves empty messages out", OTHERS)
    content, after = "", False
    for part in message.parts:
        if isinstance(part, Slot):
            content += _slot(prompt.input(part.name), part, called[part.name])
        elif SPLITS in part:
            raise NotExpressible(what, f"it holds {SPLITS}, which BAML keeps for itself", OTHERS)
        else:
            source = literal(part, after_block=after, rest=part is not message.parts[-1])
            content += _BLANK_LINES.sub(lambda match: f"{{{{ {_quote(match[0])} }}}}", source).replace(
                '"#', "{{ '\"' }}#"
            )
        after = content.endswith("%}")
    return content


def _slot(one: Input, slot: Slot, name: str) -> str:
    if slot.style == "plain":
        return f"{{{{ {_value(one, name, slot.words)} }}}}"
    from ragc.prompts.render import loop

    item = f"{{{{ {_value(one, 'item', ('true', 'false'))} }}}}"
    if slot.style == "json" and one.kind == "text":
        item = '"{{ AsJson(item) }}"'
    return loop(slot, name, item)


def _value(one: Input, name: str, words: tuple[str, str]) -> str:
    if one.kind == "flag":
        return f'"{words[0]}" if {name} else "{words[1]}"'
    return f"AsText({name})" if one.kind == "text" else name


def _quote(text: str) -> str:
    """Returns `text` as a Jinja string literal."""
    return json.dumps(text)


def _placeholder_arguments(prompt: CompiledPrompt) -> dict[str, Any]:
    """Returns placeholder inputs, by the names of the function's parameters."""
    called = inputs_of(prompt)
    return {called[name]: value for name, value in example_inputs(prompt).items()}


def load(at: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        inputs_line(_placeholder_arguments(at.prompt)),
        f"$ baml-cli generate --from {shlex.quote(str(at.folder / FOLDER))}",
        "from baml_client import b",
        f"reply = b.{functions_of(at.program)[at.prompt.name]}(**inputs)",
    )


KIND = Format(
    id="baml",
    about="a baml_src folder with a client, the classes of the reply and a function for each prompt",
    suffix=SUFFIX,
    consumer=f"baml-py {VERSION}: baml-cli generate",
    write=write,
    load=load,
    named=lambda program, prompt: FOLDER,
    folder=True,
)
