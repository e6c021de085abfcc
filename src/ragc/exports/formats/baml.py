"""baml: a `baml_src` folder with a client, the classes of the reply and a function for each prompt.

The top of `main.baml` states what BAML changes in every prompt; a prompt that it would change in another way
is refused. Replies of the layouts `chat` and `xml`, and those with types that BAML lacks, are returned as
text. Bounds become assertions; what BAML cannot express (patterns, formats) is only in the schema that is
sent with every request.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from ragc.exports.formats.base import ExportedPrompt, Format, distinct, line, page
from ragc.prompts.model import (
    INPUTS,
    CompiledPrompt,
    ExportedProgram,
    NotExpressible,
    Slot,
    TemplateMessage,
    reading,
)
from ragc.prompts.render import JSON_FILTERS, compose, slot_source

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
OTHERS = ("jinja2", "openai-json", "python")

_BLANK_LINES = re.compile(rf"^[{BLANKS.replace(chr(10), '')}]+$", re.MULTILINE)
"""Lines of only white space, which BAML empties in a prompt's source."""
_INPUTS = {"text": "string", "integer": "int", "number": "float", "flag": "bool"}
_PLAIN = {"string": "string", "integer": "int", "number": "float", "boolean": "bool", "null": "null"}
_BOUNDS = {
    "minimum": "this >= {}",
    "maximum": "this <= {}",
    "exclusiveMinimum": "this > {}",
    "exclusiveMaximum": "this < {}",
    "minLength": "this|length >= {}",
    "maxLength": "this|length <= {}",
    "minItems": "this|length >= {}",
    "maxItems": "this|length <= {}",
}
RESERVED = frozenset(
    """
    and any assert async audio await bool break class continue ctx def del do dynamic elif else enum env
    except extends false finally float for from function get global if image import in instanceof int is
    lambda let loop macro map mut namespace new none nonlocal not null or pass pdf raise register return
    self set string super this throw true try type video while with yield
    """.split()  # noqa: SIM905
)
"""Names, in lower case, that BAML or Jinja reserves where a field or an input is named."""


class NoBamlType(Exception):
    """A schema that BAML's types cannot express; the reply then remains text."""


def write(program: ExportedProgram) -> dict[str, bytes]:
    """Returns `main.baml` with the shared parts, and one file per prompt."""
    functions, files = functions_of(program), ["main"]
    taken = {
        "AsText",
        "AsJson",
        "Again",
        *functions.values(),
        *(f"{name}Model" for name in functions.values()),
    }
    main = page("main.baml.j2").render(
        program=program,
        note=line(program.note),
        inputs=INPUTS,
        version=VERSION,
        splits=SPLITS,
        split=SPLIT,
        escapes=JSON_FILTERS,
    )
    texts = {f"{FOLDER}/main{SUFFIX}": main}
    for prompt in program:
        files.append(distinct(names([prompt.name])[prompt.name], files))
        texts[f"{FOLDER}/{files[-1]}{SUFFIX}"] = _file(program, prompt, functions[prompt.name], taken)
    return {name: text.encode() for name, text in texts.items()}


def _file(program: ExportedProgram, prompt: CompiledPrompt, function: str, taken: set[str]) -> str:
    types, returned = Types(function, prompt.output_schema, taken), "string"
    try:
        returned = types.reply() if prompt.enforced else "string"
    except NoBamlType:
        types.written.clear()
    called = inputs_of(prompt)
    inputs = (f"{called[i.name]}: {_INPUTS[i.kind]}{'[]' * i.many}" for i in prompt.inputs)
    return str(
        page("prompt.baml.j2").render(
            program=program,
            prompt=prompt,
            function=function,
            returned=returned,
            reading=reading(prompt),
            classes=types.written,
            parameters=", ".join(inputs),
            options={"model": prompt.openai_model, **prompt.parameters},
            value=value,
            messages=[(message.role, _content(prompt, message, called)) for message in prompt.messages],
        )
    )


def functions_of(program: ExportedProgram) -> dict[str, str]:
    """Returns the name of the function of each prompt by the prompt's name."""
    functions: dict[str, str] = {}
    for prompt in program:
        functions[prompt.name] = distinct(pascal(prompt.name), functions.values())
    return functions


def inputs_of(prompt: CompiledPrompt) -> dict[str, str]:
    """Returns the name of the function's parameter for each input."""
    return names(input.name for input in prompt.inputs)


def names(originals: Iterable[str]) -> dict[str, str]:
    """Returns a valid BAML name for each of `originals`: itself, or with `_` or a number appended."""
    baml_names: dict[str, str] = {}
    for name in originals:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        plain = plain if re.match("[A-Za-z]", plain) else f"x{plain}"
        baml_names[name] = distinct(f"{plain}_" if plain.lower() in RESERVED else plain, baml_names.values())
    return baml_names


def pascal(name: str) -> str:
    """Returns `claim_judge` as `ClaimJudge`: a name for a function or class."""
    joined = "".join(word[0].upper() + word[1:] for word in re.findall("[A-Za-z0-9]+", name))
    return f"X{joined}" if not joined[:1].isalpha() or joined.lower() in {*RESERVED, "json"} else joined


def value(option: Any, indent: str = "") -> str:
    """Returns a JSON value in BAML's syntax for client options, over several lines, indented by `indent`.

    Raises NotExpressible for a text or key that BAML cannot represent.
    """
    if isinstance(option, Mapping):
        deeper = f"{indent}  "
        lines = (f"{deeper}{_key(key)} {value(item, deeper)}\n" for key, item in option.items())
        return "{\n" + "".join(lines) + indent + "}" if option else "{}"
    if isinstance(option, list | tuple):
        return "[" + ", ".join(value(item, indent) for item in option) + "]"
    if isinstance(option, str):
        return text(option)
    return format(Decimal(repr(option)), "f") if isinstance(option, float) else json.dumps(option)


def text(content: str) -> str:
    """Returns a quoted string; one that ends in a backslash, which would escape the quote, is raw."""
    if content.endswith("\\"):
        if content != content.strip() or "\n" in content or '"#' in content:
            raise NotExpressible(f"The text {content!r}", "BAML cannot quote it", OTHERS)
        return f'#"{content}"#'
    escapes: dict[str, str | int | None] = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return f'"{content.translate(str.maketrans(escapes))}"'


def _key(name: str) -> str:
    if re.search(r'["\\\n\r]', name):
        raise NotExpressible(f"The name {name!r} in a schema", "BAML cannot quote it", OTHERS)
    return name if re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name) else f'"{name}"'


class Types:
    """The classes of a prompt's outputs, named after its function `name`; `taken` are names in use.

    After `reply`, `written` holds their BAML source.
    """

    def __init__(self, name: str, schema: Mapping[str, Any], taken: set[str]) -> None:
        self.written: list[str] = []
        self._schema, self._taken = schema, taken
        self._reply = self._unique(f"{name}Reply")
        self._defs = {
            f"#/$defs/{key}": (self._unique(name + pascal(key)), node)
            for key, node in (schema.get("$defs") or {}).items()
        }

    def reply(self) -> str:
        """Returns the class name of a reply; raises NoBamlType when a part of it has no type in BAML."""
        for name, node in (*self._defs.values(), (self._reply, self._schema)):
            self._class(name, node)
        return self._reply

    def _unique(self, name: str) -> str:
        name = distinct(name, self._taken)
        self._taken.add(name)
        return name

    def _class(self, name: str, node: Mapping[str, Any]) -> None:
        fields: Mapping[str, Any] = node.get("properties") or {}
        if node.get("type") != "object" or not fields:
            raise NoBamlType
        lines = ""
        for key, alias in names(fields).items():
            called = f" @alias({text(key)})" if key != alias else ""
            lines += f"  {alias} {self._type(f'{name}{pascal(key)}', fields[key])}{called}\n"
        self.written.append(f"class {name} {{\n{lines}}}\n")

    def _type(self, inner: str, node: Mapping[str, Any]) -> str:
        """Returns the type of `node` with its bounds; a nested object becomes a class called `inner`."""
        bounds = [bound.format(value(node[key])) for key, bound in _BOUNDS.items() if key in node]
        return self._plain(inner, node) + (
            f" @assert(bounds, {{{{ {' and '.join(bounds)} }}}})" if bounds else ""
        )

    def _plain(self, inner: str, node: Mapping[str, Any]) -> str:
        kind = node.get("type")
        if "$ref" in node and node["$ref"] in self._defs:
            return self._defs[node["$ref"]][0]
        if "const" in node or "enum" in node:
            return " | ".join(dict.fromkeys(map(_literal, node.get("enum") or [node["const"]])))
        if parts := node.get("anyOf") or node.get("oneOf"):
            return " | ".join(dict.fromkeys(self._operand(inner, part) for part in parts))
        if kind == "array" and isinstance(node.get("items"), Mapping) and "prefixItems" not in node:
            return f"{self._operand(inner, node['items'])}[]"
        if kind == "object" and "properties" in node:
            name = self._unique(inner)
            self._class(name, node)
            return name
        if kind == "object" and isinstance(node.get("additionalProperties"), Mapping):
            return f"map<string, {self._plain(inner, node['additionalProperties'])}>"
        if kind not in _PLAIN:
            raise NoBamlType
        return _PLAIN[kind]

    def _operand(self, inner: str, node: Mapping[str, Any]) -> str:
        written = self._type(inner, node)
        return f"({written})" if "@" in written or "|" in written else written


def _literal(option: Any) -> str:
    if isinstance(option, float) or (isinstance(option, str) and re.search(r'["\\\x00-\x1f]', option)):
        return "float" if isinstance(option, float) else "string"
    return json.dumps(option, ensure_ascii=False)


def _content(prompt: CompiledPrompt, message: TemplateMessage, called: Mapping[str, str]) -> str:
    """Returns the source of a message; raises NotExpressible for one that BAML would drop or split."""
    what = f"A {message.role} message of the prompt {prompt.name!r}"
    if message.fixed_text is not None and not message.fixed_text.strip(BLANKS):
        raise NotExpressible(what, "it is empty, and BAML leaves empty messages out", OTHERS)
    if any(SPLITS in part for part in message.parts if isinstance(part, str)):
        raise NotExpressible(what, f"it holds {SPLITS}, which BAML keeps for itself", OTHERS)

    def fixed(source: str) -> str:
        source = _BLANK_LINES.sub(lambda match: f"{{{{ {json.dumps(match[0])} }}}}", source)
        return source.replace('"#', "{{ '\"' }}#")

    def slot(part: Slot) -> str:
        input, name, as_json = prompt.input(part.name), called[part.name], '"{{ AsJson(item) }}"'
        return slot_source(input, part, name, text="AsText({})", in_json=as_json, guarded=False)

    return compose(message, slot, fixed)


def load(place: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    called = inputs_of(place.prompt)
    return (
        f"inputs = { {called[name]: value for name, value in place.prompt.placeholders().items()}!r}",
        f"$ baml-cli generate --from {shlex.quote(str(place.folder / FOLDER))}",
        "from baml_client import b",
        f"reply = b.{functions_of(place.program)[place.prompt.name]}(**inputs)",
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
    consumer_folders=("baml_client",),
)
