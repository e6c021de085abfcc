"""Code of the `python` export: reading replies. It stands in the generated file as it is.

Nothing but the standard library may be used here.

It reads what `programs.calls.replies` reads, and reads it alike: mends and frames are the same code. Of other
replies it reads fewer, because that repairs broken JSON and knows defaults, which no schema tells: those are
asked for again. Validators of fields are not told by a schema either: a word for nothing stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ragc.programs.calls.reading.cleaning import clean_texts
from ragc.programs.calls.reading.field_values import field_value
from ragc.programs.calls.reading.json_objects import Tally, whole_part
from ragc.programs.calls.reading.labels import is_labelled_object
from ragc.programs.calls.reading.meaning import FLAGS, loads
from ragc.programs.calls.reading.mending import Mender
from ragc.programs.calls.reading.parsed import ParseProblem
from ragc.programs.calls.reading.parsers import parsers_for
from ragc.programs.calls.reading.refusals import holds_no_answer
from ragc.programs.calls.reading.thoughts import answering_part


class ReplyError(ValueError):
    """A reply that cannot be read; its text is what the model is told."""


class _Unfit(Exception):
    """Where a value does not fit, names and places from the outside in, and why."""


class _Strict(Mender):
    """Drops items that do not fit; an item that lacks a field might have a default, and is not judged."""

    def fits(self, schema: Mapping[str, Any], value: Any) -> bool:
        """Whether `value` fits `schema`; raises _Unfit where this cannot be known."""
        fields = self.resolve(schema).get("properties", {})
        if isinstance(value, dict) and not fields.keys() <= value.keys():
            raise _Unfit((), "Field required")
        return super().fits(schema, value)


def _read_json(schema: Mapping[str, Any], text: str, truncated: bool = False) -> dict[str, Any]:
    """The outputs in a JSON reply; texts and lists that are missing in a `truncated` one are empty."""
    text = _answer_in(schema, text)
    try:
        if "{" in text and (loads(text) is not None or not is_labelled_object(schema, text)):
            return _read_object(schema, text, truncated)
        outputs = _read_plain(schema, text, truncated)
        return _strictly(schema, _load_json(text)) if outputs is None else outputs
    except _Unfit as error:
        where, why = error.args
        start = json.dumps(text[:80], ensure_ascii=False)
        problem = f"{'.'.join(map(str, where)) or 'the reply'}: {why}"
        raise ReplyError(f"A reply does not fit its signature: {problem}. It began {start}.") from None


def _read_plain(schema: Mapping[str, Any], text: str, truncated: bool) -> dict[str, Any] | None:
    """The outputs of a reply without an object; None where they cannot be read."""
    try:
        return _read_frames(schema, text, "json", truncated)
    except _Unfit:
        return None


def _read_markers(schema: Mapping[str, Any], text: str, truncated: bool = False) -> dict[str, Any]:
    """The outputs of a reply in which a line that begins with `[[ ## name ## ]]` begins each value."""
    return _read_layout(schema, text, "chat", truncated)


def _read_tags(schema: Mapping[str, Any], text: str, truncated: bool = False) -> dict[str, Any]:
    """The outputs of a reply in which each value stands between tags of its name."""
    return _read_layout(schema, text, "xml", truncated)


def _read_layout(schema: Mapping[str, Any], text: str, layout: str, truncated: bool) -> dict[str, Any]:
    text = _answer_in(schema, text)
    try:
        outputs = _read_frames(schema, text, layout, truncated)
        if outputs is None and "{" in text:
            outputs = _read_object(schema, text, truncated)
    except _Unfit:
        outputs = None
    if outputs is None:
        raise ReplyError(f"the {layout} layout found no {', '.join(schema['properties'])}.")
    return outputs


def _answer_in(schema: Mapping[str, Any], text: str) -> str:
    """`text` without thoughts and tokens of templates; a JSON object as it is."""
    return text if text[:1] == "{" and text[-1:] == "}" else answering_part(text, tuple(schema["properties"]))


def _read_object(schema: Mapping[str, Any], text: str, truncated: bool) -> dict[str, Any]:
    """The outputs of the JSON object in `text`."""
    value = loads(text)
    if value is None:
        try:
            value = _load_json(whole_part(text, Tally(), truncated=truncated))
        except ParseProblem:
            raise _Unfit((), "Input should be a whole JSON object") from None
    return _mended_outputs(schema, value, truncated)


def _read_frames(schema: Mapping[str, Any], text: str, layout: str, truncated: bool) -> dict[str, Any] | None:
    """The outputs of a reply in a parsed other than one JSON object; None where there is none."""
    for way in parsers_for(layout):
        try:
            parsed = way(schema, text)
            parsed = None if parsed is None else clean_texts(schema, parsed)
        except ParseProblem as error:
            raise _Unfit((), f"Input gives two values for one output ({error})") from None
        if parsed is not None:
            mender = Mender(schema.get("$defs", {}), Tally())
            kinds = schema["properties"]
            values = {
                name: field_value(kinds.get(name, {}), one, mender, _refuse)
                for name, one in parsed.values.items()
            }
            return _mended_outputs(schema, values, truncated)
    return None


def _refuse(text: str) -> Any:
    raise _Unfit((), "Input should be JSON")


def _mended_outputs(schema: Mapping[str, Any], value: Any, truncated: bool) -> dict[str, Any]:
    """`value` mended until it fits; raises _Unfit for it as it was written."""
    named = schema.get("$defs", {})
    try:
        for kind in (Mender, _Strict):
            mender = kind(named, Tally(), strict=kind is _Strict)
            fitting = mender.mend(schema, value)
            if truncated:
                fitting = mender.fill(schema, fitting)
            try:
                return _strictly(schema, fitting)
            except _Unfit:
                continue
    except _Unfit:
        pass
    _strictly(schema, value)
    raise _Unfit((), "Input should be a JSON object")


def _strictly(schema: Mapping[str, Any], value: Any) -> dict[str, Any]:
    outputs: dict[str, Any] = _coerce(schema, value, schema.get("$defs", {}), (), "Reply")
    for name, held in outputs.items():
        if isinstance(held, (str, list)) and holds_no_answer(held, name):
            raise _Unfit((name,), "Input should be an answer")
    return outputs


_AROUND = frozenset("{}[]()#/\"'")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|".*|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_OPEN = re.compile(r'"(?:[^"\\]|\\.)*', re.DOTALL)
_UNSURE = re.compile(r'\\[^nt"]|\\\Z|}|\n[^\n]*:|\A"\s*[,:]')


def _load_json(text: str) -> Any:
    """The JSON value that `text` is, or the one object in it; an empty text where there is none.

    What stands around an object holds no quotes, brackets or comments: those could be meant to be part of it.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    start = text.find("{")
    around = text[:start] if start >= 0 else text
    value, rest = "", ""
    if start >= 0:
        try:
            value, end = json.JSONDecoder().raw_decode(text, start)
            rest = text[end:]
        except (ValueError, RecursionError):
            value, rest = _repair_json(text[start:])
        around += rest
    if _AROUND & set(around) or rest.lstrip().startswith(","):
        raise _Unfit((), "Input should be one JSON object and nothing else")
    return value


def _repair_json(text: str) -> tuple[Any, str]:
    """The JSON object that `text` begins, whose texts may hold line breaks, and whose end may be missing.

    After it what follows. Raises _Unfit where that could be meant otherwise.
    """
    try:
        whole = _complete_json(text)
        value, end = json.JSONDecoder(strict=False).raw_decode(whole)
    except (ValueError, RecursionError):
        raise _Unfit((), "Input should be a JSON object") from None
    return _trim_texts(value), whole[end:]


def _complete_json(text: str) -> str:
    """`text` with what it lacks at its end; a last key without a value is dropped."""
    closers = ""
    tokens = [(match[0], match.start()) for match in _TOKEN.finditer(text)]
    for token, _ in tokens:
        if token in ("{", "["):
            closers = {"{": "}", "[": "]"}[token] + closers
        elif token in ("}", "]"):
            closers = closers[1:]
        elif token[0] == '"' and _UNSURE.search(token):
            raise ValueError("a text that may end elsewhere")
    (before, comma), (last, at) = [("", 0), *tokens][-2:]
    if last == ":":
        text += '""'
    elif last == ",":
        text = text[:at]
    elif last[0] == '"' and closers[:1] == "}" and before in ("{", ","):
        text = text[:comma]
    elif _OPEN.fullmatch(last):
        ended = json.loads(f'{last}"', strict=False).rstrip()
        if ended.endswith(","):
            raise ValueError("a text that may end elsewhere")
        text = text[:at] + json.dumps(ended)
    return text + closers


def _trim_texts(value: Any) -> Any:
    """`value`, where no text that ends with a line break has white space at its end."""
    if isinstance(value, dict):
        return {_trim_texts(name): _trim_texts(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_trim_texts(one) for one in value]
    return value.rstrip() if isinstance(value, str) and value.endswith("\n") else value


def _coerce(
    schema: Mapping[str, Any], value: Any, named: Mapping[str, Any], where: tuple[Any, ...], name: str = ""
) -> Any:
    """`value` as `schema` wants it, where it is meant; raises _Unfit. `named` are schemas by name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _coerce(named[name], value, named, where, name)
    if "anyOf" in schema:
        return _one_of(schema["anyOf"], value, named, where)
    if "enum" in schema or "const" in schema:
        return _option(schema.get("enum") or [schema["const"]], value, where)
    if schema["type"] == "object":
        return _object(schema, value, named, where, name)
    if schema["type"] == "array":
        return _array_of(schema, value, named, where)
    converted = _READERS[schema["type"]](value, where)
    for keyword, (holds, why) in _LIMITS.items():
        if keyword in schema and not holds(converted, schema[keyword]):
            plural = "" if schema[keyword] == 1 else "s"
            raise _Unfit(where, why.format(schema[keyword], plural))
    return converted


def _one_of(
    kinds: list[Mapping[str, Any]], value: Any, named: Mapping[str, Any], where: tuple[Any, ...]
) -> Any:
    """`value` as the first of `kinds` that it fits."""
    unfit = _Unfit(where, "Input should be one of several objects")
    for kind in kinds:
        try:
            return _coerce(kind, value, named, where)
        except _Unfit as error:
            unfit = error
    raise unfit


def _object(
    schema: Mapping[str, Any], value: Any, named: Mapping[str, Any], where: tuple[Any, ...], name: str
) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Unfit(where, f"Input should be a valid dictionary or instance of {name}")
    fields = {}
    for field, kind in schema["properties"].items():
        if field not in value:
            raise _Unfit((*where, field), "Field required")
        fields[field] = _coerce(kind, value[field], named, (*where, field))
    return fields


def _array_of(
    schema: Mapping[str, Any], value: Any, named: Mapping[str, Any], where: tuple[Any, ...]
) -> list[Any]:
    if not isinstance(value, list):
        raise _Unfit(where, "Input should be a valid list")
    items = [_coerce(schema["items"], item, named, (*where, i)) for i, item in enumerate(value)]
    least, most = schema.get("minItems", 0), schema.get("maxItems", len(items))
    if not least <= len(items) <= most:
        bound = f"at least {least}" if len(items) < least else f"at most {most}"
        raise _Unfit(where, f"List should have {bound} items after validation, not {len(items)}")
    return items


def _option(options: list[Any], value: Any, where: tuple[Any, ...]) -> Any:
    if not any(type(option) is type(value) and option == value for option in options):
        *others, last = map(repr, options)
        raise _Unfit(where, f"Input should be {', '.join(others)}{' or ' if others else ''}{last}")
    return value


def _text_in(value: Any, where: tuple[Any, ...]) -> str:
    if not isinstance(value, str):
        raise _Unfit(where, "Input should be a valid string")
    if re.search("[\ud800-\udfff]", value):
        raise _Unfit(where, "Input should be a valid string, unable to parse raw data as a unicode string")
    return value


def _integer_in(value: Any, where: tuple[Any, ...]) -> int:
    if isinstance(value, str):
        if not re.fullmatch(r"\s*[-+]?[0-9]+\s*", value):
            raise _Unfit(where, "Input should be a valid integer, unable to parse string as an integer")
    elif not isinstance(value, (int, float)):
        raise _Unfit(where, "Input should be a valid integer")
    elif isinstance(value, float) and not value.is_integer():
        raise _Unfit(where, "Input should be a valid integer, got a number with a fractional part")
    return int(value)


def _number_in(value: Any, where: tuple[Any, ...]) -> float:
    if isinstance(value, str) and not re.fullmatch(r"\s*[-+]?[0-9]+(\.[0-9]+)?\s*", value):
        raise _Unfit(where, "Input should be a valid number, unable to parse string as a number")
    if not isinstance(value, (int, float, str)):
        raise _Unfit(where, "Input should be a valid number")
    return float(value)


def _flag_in(value: Any, where: tuple[Any, ...]) -> bool:
    if isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in FLAGS:
        return FLAGS[value.lower()]
    why = "Input should be a valid boolean"
    raise _Unfit(where, f"{why}, unable to interpret input" if isinstance(value, (int, str)) else why)


_READERS: Mapping[str, Callable[[Any, tuple[Any, ...]], Any]] = {
    "string": _text_in,
    "integer": _integer_in,
    "number": _number_in,
    "boolean": _flag_in,
}
_LIMITS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (lambda value, bound: value >= bound, "Input should be greater than or equal to {}"),
    "maximum": (lambda value, bound: value <= bound, "Input should be less than or equal to {}"),
    "exclusiveMinimum": (lambda value, bound: value > bound, "Input should be greater than {}"),
    "exclusiveMaximum": (lambda value, bound: value < bound, "Input should be less than {}"),
    "minLength": (lambda value, bound: len(value) >= bound, "String should have at least {} character{}"),
    "maxLength": (lambda value, bound: len(value) <= bound, "String should have at most {} character{}"),
}
