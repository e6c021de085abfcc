"""Parses replies: from a model's text to the typed outputs of a signature.

    limits ─► reasoning and template tokens off ─► a JSON object (exact, else by json-repair), else tags or
    labels, else a lone value ─► coerced by the schema ─► pydantic ─► refusals and unfilled forms fail

What does not fit raises ParseFailure, which says why; the caller asks once more with the schema. Under a
schema that the target enforces only exact JSON counts.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from xml.sax.saxutils import unescape

import json_repair
import pydantic
from pydantic_core import from_json

from ragc.core.text import repair_surrogates, repair_value
from ragc.errors import ParseFailure
from ragc.programs.calls.layouts import JSON_LAYOUTS
from ragc.programs.calls.outputs import output_model, parsing_schema, reply_schema
from ragc.signatures.wording import output_texts

LONGEST = 100_000
"""Maximum characters of a reply that is parsed."""

DEEPEST = 100
"""Maximum brackets that are open in a reply at once."""

MOST_TAGS = 1000
"""Maximum tags in the value of an output that may be nested in tags."""

LONGEST_REFUSAL = 400
"""Maximum characters of a text that is checked for a refusal; longer ones are answers."""

ASIDES = frozenset({"reasoning", "thought", "reason", "explanation", "improvement"})
"""Outputs next to an answer, where a sentence like "I cannot find it yet" is no refusal."""

Values = dict[str, Any]
"""The values of the outputs in a reply by name, before they are coerced."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The typed `outputs` of a reply by field name.

    `repaired` counts what was not as requested, the form and each value; `dropped` counts list items that
    did not fit. Both are 0 for a reply that is exactly as requested.
    """

    outputs: dict[str, Any]
    repaired: int = 0
    dropped: int = 0


def parse(signature: Any, text: str, *, layout: str, enforced: bool = False, finish: str = "stop") -> Parsed:
    """Returns the typed outputs of `signature` in the reply `text`.

    `layout` is the form that was requested. With `enforced` the target was given the schema, and only JSON
    that fits it counts. A reply cut by the token limit (`finish` is "length") counts if its last output is
    a free text, which is then its beginning, or a list, which then has the items that are whole, and only
    outputs with a default are missing. Raises ParseFailure.
    """
    truncated = finish == "length"
    try:
        _check_limits(text)
        try:
            asked = enforced or layout in JSON_LAYOUTS
            parsed = _parse_exact(signature, text, truncated, repaired=0 if asked else 1)
        except ValueError:
            if enforced:
                raise
            parsed = _parse_other(signature, text, layout, truncated)
        _check_answers(signature, parsed.outputs)
    except ValueError as error:
        start = json.dumps(repair_surrogates(text[:80]), ensure_ascii=False)
        raise ParseFailure(f"A reply {error}. It began {start}.") from error
    return parsed


def _check_limits(text: str) -> None:
    if len(text) > LONGEST:
        raise ValueError(f"has {len(text):,} characters; {LONGEST:,} at most are read")
    depth = 0
    for bracket in re.findall(r"[\[\](){}]", text):
        depth = depth + 1 if bracket in "[{(" else max(0, depth - 1)
        if depth > DEEPEST:
            raise ValueError(f"opens more than {DEEPEST} brackets inside each other")


# Exact JSON.


def _parse_exact(signature: Any, text: str, truncated: bool, *, repaired: int) -> Parsed:
    """Returns the outputs in JSON that fits the reply schema, but may lack what has a default."""
    schema = {**reply_schema(signature), "required": parsing_schema(signature)["required"]}
    dropped = 0
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        if not truncated:
            raise ValueError(f"is no JSON ({error})") from None
        value = from_json(repair_surrogates(text), allow_partial="trailing-strings")
        value, dropped = _without_cut_item(schema, value, text)
    outputs = _validate(signature, value)
    if not value.keys() & schema["properties"].keys() or not _fits(schema, value, schema.get("$defs", {})):
        raise ValueError(f"does not have the fields {', '.join(schema['properties'])} with their types")
    return Parsed(outputs, repaired, dropped)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in pairs:
        if fields.setdefault(key, value) != value:
            raise ValueError(f'gives two values for "{key}"')
    return fields


def _without_cut_item(schema: Mapping[str, Any], value: Any, text: str) -> tuple[Any, int]:
    """Returns the outputs of the cut reply `text` without the list item that is not whole, and 1 if one was.

    Raises ValueError if the last output that it has is neither a free text nor a list.
    """
    last = next(reversed(value), "") if isinstance(value, dict) else ""
    kind = schema["properties"].get(last, {})
    if kind.get("type") == "array" and isinstance(value[last], list):
        with contextlib.suppress(ValueError):
            json.loads(text.rstrip().removesuffix(",") + "]}")
            if not text.rstrip()[-1:].isalnum():  # the next token may be a digit
                return value, 0
        return {**value, last: value[last][:-1]}, 1
    if kind.get("type") == "string" and "enum" not in kind:
        return value, 0
    raise ValueError("was cut by the token limit")


def _fits(kind: Mapping[str, Any], value: Any, defs: Mapping[str, Any]) -> bool:
    """Returns whether `value` has the types, options and keys of a JSON schema; pydantic checks bounds."""
    kind = _resolve(kind, defs)
    if parts := kind.get("anyOf") or kind.get("oneOf"):
        return any(_fits(part, value, defs) for part in parts)
    if "enum" in kind or "const" in kind:
        options = kind.get("enum", [kind.get("const")])
        return any(type(option) is type(value) and option == value for option in options)
    match kind.get("type"):
        case "object" if "properties" in kind:
            kinds = kind["properties"]
            if not isinstance(value, dict) or not {*kind["required"]} <= value.keys():
                return False
            return all(_fits(kinds[name], value[name], defs) for name in value.keys() & kinds.keys())
        case "array":
            items = kind.get("items", {})
            return isinstance(value, list) and all(_fits(items, item, defs) for item in value)
        case name:
            return not name or type(value) in _TYPES[name]


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def _resolve(kind: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    return defs[kind["$ref"].rpartition("/")[2]] if "$ref" in kind else kind


def _validate(signature: Any, value: Any) -> dict[str, Any]:
    """Returns the typed outputs of a JSON `value`; raises ValueError, which names the field that is wrong."""
    try:
        return dict(vars(output_model(signature).model_validate_json(json.dumps(repair_value(value)))))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the reply"
        raise ValueError(f"does not fit its signature: {where}: {first['msg']}") from error
    except Exception as error:  # validators of signatures may raise anything
        raise ValueError(f"cannot be read ({type(error).__name__})") from error


# Other forms.


def _parse_other(signature: Any, text: str, layout: str, truncated: bool) -> Parsed:
    """Returns the outputs of a reply that is not exact JSON; raises ValueError, as do the readers."""
    schema = parsing_schema(signature)
    answer = _without_reasoning(text, schema["properties"])
    problem = ValueError(f"has no {', '.join(signature.output_fields)}")
    for reader in _READERS[layout]:
        values = reader(schema, answer)
        if not values:
            continue
        values, dropped = _without_cut_item(schema, values, answer) if truncated else (values, 0)
        asked = layout not in JSON_LAYOUTS and reader is _READERS[layout][0]
        try:
            return _coerce_all(signature, schema, values, 0 if asked else 1, dropped)
        except ValueError as error:
            problem = error
    raise problem


_REASONING = re.compile(
    r"\A\s*(?:[<\[](?P<tag>think|thinking|thought|reasoning|scratchpad|reflection|analysis)[>\]]"
    r".*?(?:[<\[]/(?P=tag)[>\]]|\Z)|.*</think(?:ing)?>|<\|channel\|>analysis.*?<\|channel\|>final<\|message\|>)",
    re.DOTALL | re.IGNORECASE,
)
_TOKENS = re.compile(
    r"<\|[a-z_]+\|>.*\Z|</s>.*\Z|<(?:end|start)_of_turn>.*\Z|(?:\*\*)?\[{0,2} ?## ?completed ?##.*\Z",
    re.DOTALL | re.IGNORECASE,
)


def _without_reasoning(text: str, names: Mapping[str, Any]) -> str:
    """Returns `text` without reasoning before the answer and without tokens of chat templates."""
    found = _REASONING.match(text)
    if found and (found["tag"] or "").casefold() not in names:
        text = text[found.end() :]
    return _TOKENS.sub("", text).strip()


def _fold(key: Any) -> str:
    return re.sub(r"[\W_]+", "", str(key)).casefold()


def _as_object(schema: Mapping[str, Any], text: str) -> Values:
    """Returns the outputs in the JSON objects of `text`; several must agree."""
    names = list(schema["properties"])
    kind = _resolve(schema["properties"][names[0]], schema.get("$defs", {})) if len(names) == 1 else {}
    if re.search(r"\w\(\s*\{", text):
        raise ValueError("calls a tool in place of an answer")
    values = _json_values(text, "{[" if kind.get("type") in ("array", "object") else "{")
    found: Values = {}
    for value in values:
        fields = _fields(schema, kind, value)
        if any(_fold(found.get(name, field)) != _fold(field) for name, field in fields.items()):
            raise ValueError("gives two values for one output")
        found |= fields
    objects = [value for value in values if isinstance(value, dict)]
    if not found and kind.get("type") == "array" and (len(values) == 1 or objects):
        return {names[0]: values[0] if len(values) == 1 else objects}
    return found


def _json_values(text: str, opening: str) -> list[Any]:
    """Returns the values of JSON in prose that begin with an `opening` bracket, else what can be repaired."""
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_unique)
    pattern = rf"(?!\[?\[ ?##)[{re.escape(opening)}]"  # the marker of an output is no JSON
    brackets = [bracket.start() for bracket in re.finditer(pattern, text)]
    values: list[Any] = []
    end = 0
    for start in brackets:
        if start >= end:
            with contextlib.suppress(json.JSONDecodeError):
                value, end = decoder.raw_decode(text, start)
                values.append(value)
    if values or not brackets:
        return values
    if re.search(r'\w"?\s*\|\s*"?\w', text):
        raise ValueError("offers a choice in place of a value")
    return [json_repair.loads(text[brackets[0] :])]


def _fields(schema: Mapping[str, Any], kind: Mapping[str, Any], value: Any) -> Values:
    """Returns the outputs in `value`, an object that may have others; {} for a foreign object.

    `kind` is that of the only output, whose object may stand alone, and whose key may have more words.
    """
    if not isinstance(value, dict):
        return {}
    names = {_fold(name): name for name in schema["properties"]}
    found = {names[_fold(key)]: field for key, field in value.items() if _fold(key) in names}
    if found or not kind:
        return found
    (name,) = names.values()
    if kind.get("type") == "object" and {*map(_fold, kind.get("properties", ()))} & {*map(_fold, value)}:
        return {name: value}
    key = next(iter(value), "") if len(value) == 1 else ""
    return {name: value[key]} if {*name.split("_")} <= {*re.split(r"[\W_]+", key.casefold())} else {}


def _as_tags(schema: Mapping[str, Any], text: str) -> Values:
    """Returns the outputs in tags of their names, `<answer>...</answer>`; the last may be left open."""
    found: Values = {}
    for name, kind in schema["properties"].items():
        spelled = re.escape(name).replace("_", "[_ -]?")
        tags = re.findall(
            rf"<{spelled}(?: [^<>]*)?>((?:(?!<{spelled}>).)*?)(?:<[/\\]{spelled}>|\Z)",
            text,
            re.DOTALL | re.IGNORECASE,
        )
        if len({_fold(tag) for tag in tags}) > 1:
            raise ValueError(f'gives two values for "{name}"')
        if tags:
            found[name] = _tagged(kind, tags[0], schema.get("$defs", {}))
    return found


def _tagged(kind: Mapping[str, Any], text: str, defs: Mapping[str, Any]) -> Any:
    """Returns the value of a `kind` inside a tag, whose items and fields may be tags too."""
    kind = _resolve(kind, defs)
    parts = re.findall(r"<(\w+)>(.*?)</\1>", text, re.DOTALL) if text.count("<") <= MOST_TAGS else []
    if kind.get("type") == "array" and parts:
        return [_tagged(kind.get("items", {}), part, defs) for _, part in parts]
    if kind.get("type") == "object" and parts:
        kinds = kind.get("properties", {})
        return {name: _tagged(kinds.get(name, {}), part, defs) for name, part in parts}
    return unescape(text.strip())


def _as_labels(schema: Mapping[str, Any], text: str) -> Values:
    """Returns the outputs after their names, in lines such as `Answer: ...` or `[[ ## answer ## ]]`.

    An only output may have other words before the last of its name, as in `Improved query: ...`.
    """
    names = {_fold(name): name for name in schema["properties"]}
    first = next(iter(schema["properties"]))
    found: Values = {}
    marks = list(_label_pattern(tuple(schema["properties"])).finditer(text))
    if any(mark["mark"] and _fold(mark["mark"]) in names for mark in marks):
        marks = [mark for mark in marks if mark["mark"]]
    for mark, end in zip(marks, [*(mark.start() for mark in marks[1:]), len(text)], strict=False):
        value = re.sub(
            rf"\A{mark[mark.lastgroup or 0]}:\s", "", text[mark.end() : end].strip(), flags=re.IGNORECASE
        )
        label = _fold(mark[mark.lastgroup or 0])
        if mark["plain"] and label in ("question", "observation") and label not in names:
            break  # the model goes on with a turn of its own
        name = names.get(label) or (first if mark["lone"] else "")
        if not name or not value:
            continue
        if _fold(found.get(name, value)) != _fold(value):
            raise ValueError(f'gives two values for "{name}"')
        found[name] = value
    return found


@lru_cache(maxsize=512)
def _label_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Returns the pattern of a label: the name of an output, or of what models write after one."""
    spelled = "|".join(re.escape(name).replace("_", "[ _-]?") for name in names)
    others = "question|observation|explanation|note|confidence|reasoning|reason|sources?"
    lone = rf"(?:[a-z-]+ ){{0,2}}(?:{names[0].rpartition('_')[2]}|answer)" if len(names) == 1 else r"(?!)"
    end = r"[*_`\"]{0,4}[ \t]*[:=\uff1a][*_`]{0,4}"
    return re.compile(
        rf"(?:^[ \t>*#`\-\d.]{{0,20}}[*_`\"]{{0,4}}"
        rf"(?:(?P<plain>{spelled}|{others}){end}|(?P<lone>{lone}){end})"
        rf"|^#+ (?P<head>{spelled})[ \t]*$"
        rf"|\*{{0,2}}\[{{0,2}} ?## ?(?P<mark>\w[\w -]{{0,80}}?) ?## ?\]{{0,2}}\*{{0,2}}:?)[ \t]*",
        re.IGNORECASE | re.MULTILINE,
    )


def _as_lone(schema: Mapping[str, Any], text: str) -> Values:
    """Returns the whole of `text` as the only output, without what models say before and after it."""
    required = [name for name in schema["properties"] if name in schema["required"]]
    if len(required) != 1:
        return {}
    name, kind = required[0], schema["properties"][required[0]]
    text = re.sub(r"\A```(?:text)?\n(.*)```\Z", r"\1", text, flags=re.DOTALL)
    text = _FOLLOWING.split(_LEAD.sub("", text), maxsplit=1)[0].strip()
    if not text or re.search(r"[{}\x00]|<\w+>|</|##|```", text):
        return {}
    if kind.get("type") != "string":
        return {name: re.sub(r"\A[A-Za-z _]{1,30}: ", "", text)}
    if len(schema["properties"]) > 1 or _LISTED.search(text) or text.endswith(":") or _SPEAKS.match(text):
        return {}
    return {name: text}


_LEAD = re.compile(
    r"\A(?:[^\n]{1,100}:[ \t]*\n\s*|(?:so |thus )?(?:the )?(?:final |correct )?answer is:? )", re.IGNORECASE
)
_FOLLOWING = re.compile(r"\n[ \t]*(?:question|observation|explanation|reason|note|sources)s?:", re.IGNORECASE)
_SPEAKS = re.compile(
    r"(.{1,40}?)(?:\s+\1){3,}\Z|(?:sure|okay|ok|of course|certainly|let me|let's|here (?:is|are))\b"
    r"|\w+\((?:[\"'{]|\w+=)|[*_]{0,2}[\w -]{1,30}(?:\([^()\n]*\))?"
    r"(?::[*_]{0,2}\s|\s?\uff1a| \u2192)",
    re.IGNORECASE,
)
"""A model in a loop, one that speaks of its answer or calls a tool, or a label that is not the output's."""
_LISTED = re.compile(r"^[ \t]*(?:[-*\u2022]|\d+[.)])\s", re.MULTILINE)

Reader = Callable[[Mapping[str, Any], str], Values]
_READERS: Mapping[str, tuple[Reader, ...]] = {
    "minimal": (_as_object, _as_tags, _as_labels, _as_lone),
    "json": (_as_object, _as_tags, _as_labels, _as_lone),
    "chat": (_as_labels, _as_object, _as_tags, _as_lone),
    "xml": (_as_tags, _as_object, _as_labels, _as_lone),
}


# Values.


def _coerce_all(
    signature: Any, schema: Mapping[str, Any], values: Values, repaired: int, dropped: int
) -> Parsed:
    """Returns the typed outputs of `values`; raises ValueError if one cannot be what its schema says."""
    kinds, defs = schema["properties"], schema.get("$defs", {})
    coerced = {name: _coerce(kinds[name], value, defs) for name, value in values.items()}
    for name, value in coerced.items():
        if value == "" and name in schema["required"]:
            raise ValueError(f"leaves {name} empty")
        if "enum" in kinds[name] and not _fits(kinds[name], value, defs):
            raise ValueError(f"must have one of {', '.join(map(str, kinds[name]['enum']))} as {name}")
        repaired += value != values[name] and bool(repaired or isinstance(value, str))
    return Parsed(_validate(signature, coerced), repaired, dropped)


def _coerce(kind: Mapping[str, Any], value: Any, defs: Mapping[str, Any]) -> Any:
    """Returns `value` as the type of a JSON schema where it can mean one value only, else as it is."""
    kind = _resolve(kind, defs)
    if parts := kind.get("anyOf") or kind.get("oneOf"):
        for part in sorted(parts, key=lambda part: part.get("type") != "null"):
            with contextlib.suppress(ValueError):
                coerced = _coerce(part, value, defs)
                if _fits(part, coerced, defs):
                    return coerced
        return value
    if isinstance(value, str) and re.match(r'\s*\{\s*"', value):
        value = json_repair.loads(value)
    if isinstance(value, dict) and kind.get("type") != "object" and len(value) == 1:
        (value,) = value.values()
    if "enum" in kind:
        return _option(kind["enum"], value)
    coerce = _COERCIONS.get(kind.get("type", ""))
    return coerce(kind, value, defs) if coerce else value


def _null(kind: Any, value: Any, defs: Any) -> Any:
    return None if _fold(value) in ("none", "null", "na", "") else value


def _option(options: list[Any], value: Any) -> Any:
    by_text = {_fold(option): option for option in options}
    if by_text.keys() >= {"yes", "no"}:
        by_text |= {"true": by_text["yes"], "y": by_text["yes"], "false": by_text["no"], "n": by_text["no"]}
    if all(type(option) is int for option in options):
        return _number({"type": "integer", "maximum": max(options)}, value, {})
    if _fold(value) in by_text or not isinstance(value, str):
        return by_text.get(_fold(value), value)
    first, *rest = _CLAUSE.split(value.strip(_MARKS), maxsplit=1)
    lead = by_text.get(_fold(first))
    if lead is not None:
        return value if _named(options, " ".join(rest)) - {lead} else lead
    sentence = re.split(r"[.\n;]", value, maxsplit=1)[0]
    named = _named(options, sentence)
    return named.pop() if len(named) == 1 and not _DENIES.search(_fold_words(sentence)) else value


def _named(options: list[Any], text: str) -> set[Any]:
    """Returns the options that stand in `text` as words."""
    words = f" {_fold_words(text)} "
    return {option for option in options if f" {_fold_words(str(option))} " in words}


_CLAUSE = re.compile(r"[.\n,;:(\u2014]| - ")
_MARKS = " \n*`\"'()[]"
_DENIES = re.compile(r"\b(?:not|nor|neither|isn t|doesn t|don t|or|rather than)\b")


def _fold_words(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).strip().casefold()


_TRUTH = {
    **dict.fromkeys(("yes", "true", "correct", "relevant", "1"), True),
    **dict.fromkeys(("no", "false", "incorrect", "irrelevant", "not relevant", "0"), False),
}


def _truth(kind: Mapping[str, Any], value: Any, defs: Any) -> Any:
    return _TRUTH.get(_fold_words(_CLAUSE.split(str(value).strip(_MARKS))[0]), str(value))


def _number(kind: Mapping[str, Any], value: Any, defs: Any) -> Any:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        top = kind.get("maximum", "")
        text = re.sub(
            rf"(?<=\d)\s*(?:/|out of)\s*{top}(?!\d)" if top else r"\Z", "", value.replace("\u2212", "-")
        )
        numbers = _NUMBER.findall(text.split(" (")[0])
        if len(numbers) != 1:
            return value
        value = float(numbers[0])
    if isinstance(value, float) and kind.get("maximum") == 100 and 0 < value < 1:
        value = round(value * 100, 6)
    if isinstance(value, float) and kind["type"] == "integer" and value.is_integer():
        return int(value)
    return value


_NUMBER = re.compile(r"(?<![\w./])-?\d+(?:\.\d+)?(?!\w|\.\d|\s*/|\s*out of)")


def _list(kind: Mapping[str, Any], value: Any, defs: Mapping[str, Any]) -> Any:
    items = _resolve(kind.get("items", {}), defs)
    if value is None:
        value = []
    if isinstance(value, dict | int | float) and not isinstance(value, bool):
        value = [value]
    if isinstance(value, str):
        value = _listed_items(items, value.strip())
    if not isinstance(value, list):
        return value
    coerced = [_coerce(items, item, defs) for item in value if item not in (None, "")]
    return coerced[: kind.get("maxItems", len(coerced))]


def _listed_items(items: Mapping[str, Any], text: str) -> Any:
    """Returns the items of a list that is written as a text."""
    if _fold(text) in ("", "none", "na", "null", "empty"):
        return []
    if items.get("type") == "integer":
        text = _LISTED.sub("", text)
        others = re.sub(
            r"\d+|\b(?:and|documents?|passages?|docs?|ids?)\b|[^\w\s]", "", text, flags=re.IGNORECASE
        )
        return [int(number) for number in re.findall(r"\d+", text)] if not others.strip() else text
    if text[0] in "[{":
        return json_repair.loads(text)
    if items.get("type") == "object":
        return text
    lines = text.splitlines()
    if all(_LISTED.match(line) for line in lines):
        return [_LISTED.sub("", line).strip() for line in lines]
    return text if len(lines) > 1 else [text]


def _object(kind: Mapping[str, Any], value: Any, defs: Mapping[str, Any]) -> Any:
    kinds = kind.get("properties", {})
    required = [name for name in kinds if name in kind.get("required", kinds)] or list(kinds)
    if not isinstance(value, dict):
        return {required[0]: _coerce(kinds[required[0]], value, defs)} if len(required) == 1 else value
    names = {_fold(name): name for name in kinds}
    spelled = {*map(_fold, value)}
    if spelled - names.keys() and names.keys() - spelled:  # a default would stand in for another field
        raise ValueError(f"has {', '.join(map(str, value))} in place of {', '.join(kinds)}")
    renamed = {names.get(_fold(key), key): inner for key, inner in value.items()}
    return {name: _coerce(kinds.get(name, {}), inner, defs) for name, inner in renamed.items()}


def _text(kind: Mapping[str, Any], value: Any, defs: Any) -> Any:
    if value is None and not kind.get("minLength"):
        return ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = ", ".join(value)
    if type(value) in (int, float) and math.isfinite(value):
        return str(value)
    if not isinstance(value, str):
        return value
    return re.sub(r"\A(\*\*|[\"'`])((?:(?!\1).)+)\1\Z", r"\2", value.strip(), flags=re.DOTALL)


_COERCIONS: Mapping[str, Callable[[Mapping[str, Any], Any, Mapping[str, Any]], Any]] = {
    "boolean": _truth,
    "integer": _number,
    "number": _number,
    "array": _list,
    "object": _object,
    "string": _text,
    "null": _null,
}


# Texts that are no answer.


_REFUSES = re.compile(
    r"\b(?:i(?:'m| am)? (?:(?:truly |really |very |so )?sorry|afraid|unable|not able|programmed)"
    r"|as an ai|i'd be happy|i (?:can(?:no|')t|could not|couldn't|won't|will not) (?:\w+ )?"
    r"(?:help|assist|answer|provide|comply|determine|find|access|see|share)"
    r"|i (?:don't|do not) have|i (?:would )?need (?:more|the|additional)|did you mean"
    r"|(?:please|(?:could|can) you(?: please)?) (?:provide|share|clarify|specify|paste|give)"
    r"|no (?:passages?|documents?|question|context) (?:was|were))\b"
    r"|(?:\A|[.!?,:\u2014] )wait\b|\b(?:sorry|oops)\b[^.\n]{0,20}\bmistake\b"
    r"|\b(?:scratch that|on second thoughts?|correction:)",
    re.IGNORECASE,
)
_FORM = re.compile(
    r"\.\.\.|[<\[{]{1,2}[a-z][^<>{}\[\]]{2,80}[>}\]]{1,2}|(?:your|insert|the) [\w ]{1,30} (?:goes )?here\.?",
    re.IGNORECASE,
)


def _check_answers(signature: Any, outputs: Mapping[str, Any]) -> None:
    """Raises ValueError if a text is a refusal or a form that is not filled in."""
    for name, value in outputs.items():
        if not isinstance(value, str):
            continue
        text = value.strip().replace("\u2019", "'")
        if name not in ASIDES and len(text) <= LONGEST_REFUSAL and _REFUSES.search(text):
            raise ValueError(f"refuses to give {name}, or takes it back")
        if _FORM.fullmatch(text) or _fold(text) in _descriptions(signature)[name]:
            raise ValueError(f"leaves {name} as a form that is not filled in")


@lru_cache(maxsize=512)
def _descriptions(signature: Any) -> Mapping[str, frozenset[str]]:
    """Returns the descriptions of each text output in prompts, in both wordings, folded."""
    return {name: frozenset(map(_fold, texts)) for name, texts in output_texts(signature).items()}
