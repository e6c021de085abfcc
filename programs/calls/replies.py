"""Typed outputs of a signature: pydantic model, strict JSON schema, reading of replies, log probabilities.

Log probabilities belong to one output field: they are those of the tokens of a raw reply that spell the
field's value. Other tokens of the reply (braces, keys, quotes, or an adapter's markers) are not counted.

One file, as schema, reading and log probabilities of a field must agree.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import json_repair
import pydantic
import pydantic_core
from pydantic.fields import FieldInfo

from ragc.core.text import repair_surrogates, repair_value
from ragc.errors import ParseFailure
from ragc.programs.calls.described import descriptions, on_scale
from ragc.programs.calls.reading.cleaning import clean_texts
from ragc.programs.calls.reading.field_values import field_value
from ragc.programs.calls.reading.json_objects import Tally, objects_in, offers_choice, places_in, whole_part
from ragc.programs.calls.reading.labels import is_labelled_object
from ragc.programs.calls.reading.meaning import fold, is_option, is_text, lists_options, loads
from ragc.programs.calls.reading.mending import Mender
from ragc.programs.calls.reading.parsed import ParseProblem
from ragc.programs.calls.reading.parsers import parsers_for
from ragc.programs.calls.reading.prose import is_retraction, starts_new_turn
from ragc.programs.calls.reading.refusals import holds_no_answer, is_no_answer
from ragc.programs.calls.reading.steps import step_shape
from ragc.programs.calls.reading.thoughts import answering_part
from ragc.signatures.wording import output_texts
from ragc.targets.base import TokenLogprob

log = logging.getLogger("ragc.programs")

LONGEST = 100_000
"""Characters of a reply that are read into typed outputs."""

DEEPEST = 100
"""Brackets that may stand open in a reply at once."""

_BRACKET = re.compile(r"[\[\](){}]")
_NOISE = ("title", "description", "default", "desc", "prefix", "__dspy_field_type")


@lru_cache(maxsize=512)
def output_model(signature: Any) -> type[pydantic.BaseModel]:
    """Returns a pydantic model of the output fields, constraints and defaults included."""
    fields: dict[str, Any] = {}
    for name, info in signature.output_fields.items():
        plain = FieldInfo(
            annotation=info.annotation, default=info.default, default_factory=info.default_factory
        )
        plain.metadata = list(info.metadata)
        fields[name] = (info.annotation, plain)
    return pydantic.create_model(
        "Reply", __config__=pydantic.ConfigDict(extra="ignore", allow_inf_nan=False), **fields
    )


@lru_cache(maxsize=512)
def reply_schema(signature: Any) -> dict[str, Any]:
    """Returns the strict JSON schema of a reply: every property required, none added, bounds kept."""
    strict: dict[str, Any] = _strict(output_model(signature).model_json_schema())
    # The order in which pydantic has them where some output lacks a default: requests, and their keys in
    # the store, are the same whether outputs have one.
    last: dict[str, Any] = {
        name: strict.pop(name) for name in ("required", "type", "additionalProperties") if name in strict
    }
    return {**strict, **last}


@lru_cache(maxsize=512)
def reading_schema(signature: Any) -> dict[str, Any]:
    """Returns the schema that replies are read by: `reply_schema`, but defaults are not required."""
    loose: dict[str, Any] = _strict(output_model(signature).model_json_schema(), require=False)
    return loose


def _strict(node: Any, *, named: bool = False, require: bool = True) -> Any:
    """Returns `node` without prose; `named` says that its keys are our names, not schema keywords.

    With `require` every property is required, and no other is allowed.
    """
    if isinstance(node, list):
        return [_strict(item, require=require) for item in node]
    if not isinstance(node, dict):
        return node
    out = {
        key: _strict(value, named=key in ("properties", "$defs") and not named, require=require)
        for key, value in node.items()
        if named or key not in _NOISE
    }
    if not named and out.get("type") == "object" and "properties" in out:
        out["required"] = list(out["properties"]) if require else out.get("required", [])
        if require:
            out["additionalProperties"] = False
    return out


@dataclass(frozen=True, slots=True)
class Reading:
    """The typed `outputs` of a reply by field name, and how many values were `mended` and items `dropped`."""

    outputs: dict[str, Any]
    mended: int = 0
    dropped: int = 0


def read_json(signature: Any, text: str, *, truncated: bool = False) -> dict[str, Any]:
    """Returns the typed outputs in a reply that should be JSON, by field name. Raises ParseFailure."""
    return read_reply(signature, text, truncated=truncated).outputs


def read_reply(signature: Any, text: str, *, truncated: bool = False) -> Reading:
    """Reads a reply that should be a JSON object; `truncated` says that it was cut short.

    Values that do not fit are mended, see `ragc.programs.calls.reading.mending`. Raises ParseFailure, which
    names the field that is wrong in the original reply.
    """
    if len(text) > LONGEST:
        raise ParseFailure(f"A reply has {len(text):,} characters; {LONGEST:,} at most are read.")
    if is_too_deep(text):
        raise ParseFailure(
            f"A reply opens more than {DEEPEST} brackets inside each other. It {_beginning(text)}."
        )
    if (exact := _read_exact(signature, text)) is not None:
        return exact
    answer = _answering_part(signature, text)
    try:
        reading = (_read_object(signature, answer, truncated) if "{" in answer else None) or _read_frames(
            signature, answer, "json", truncated
        )
        if reading is None:
            reading = Reading(_read_repaired(signature, answer, truncated), mended=1)
    except ParseProblem as error:
        raise ParseFailure(
            f"A reply gives two values for one output ({error}). It {_beginning(text)}."
        ) from None
    return _checked(signature, reading, text)


def read_framed(signature: Any, text: str, layout: str, *, truncated: bool = False) -> Reading | None:
    """Reads a reply of `layout`, one that is not JSON; None if it cannot be read.

    Raises ParseFailure if it gives two values for an output, or refuses.
    """
    if len(text) > LONGEST or is_too_deep(text):
        return None
    answer = _answering_part(signature, text)
    try:
        reading = _read_frames(signature, answer, layout, truncated)
        if reading is None and "{" in answer:
            reading = _read_object(signature, answer, truncated)
            reading = None if reading is None else replace(reading, mended=reading.mended + 1)
    except ParseProblem as error:
        raise ParseFailure(
            f"A reply gives two values for one output ({error}). It {_beginning(text)}."
        ) from None
    return None if reading is None else _checked(signature, reading, text)


def _answering_part(signature: Any, text: str) -> str:
    """Returns `text` without thoughts and tokens of templates; a JSON object as it is."""
    return (
        text if text[:1] == "{" and text[-1:] == "}" else answering_part(text, tuple(signature.output_fields))
    )


def _checked(signature: Any, reading: Reading, text: str) -> Reading:
    """Returns `reading`; raises ParseFailure if a text in it is a refusal or repeats the prompt."""
    echoes = descriptions(signature)
    kinds = reading_schema(signature).get("properties", {})
    for name, value in reading.outputs.items():
        if not isinstance(value, str):
            if isinstance(value, list) and holds_no_answer(pydantic_core.to_jsonable_python(value), name):
                raise ParseFailure(f"A reply gives no {name}. It {_beginning(text)}.")
            continue
        options = kinds.get(name, {}).get("enum", ())
        hedged = "{" not in text and {"yes", "no"} <= set(options)
        unclear = value not in ("", *options) and (
            hedged or lists_options(value, options) or value[:1].isdigit()
        )
        form = not options and value in _unfilled_values(signature)
        if form or (options and unclear) or is_no_answer(value, name) or fold(value) in echoes.get(name, ()):
            raise ParseFailure(f"A reply gives no {name}. It {_beginning(text)}.")
    return reading


@lru_cache(maxsize=512)
def _flat_fields(signature: Any) -> Mapping[str, Any] | None:
    """Options or the greatest length of each output, where all are texts, options or truth values."""
    fields: dict[str, Any] = {}
    for name, schema in reading_schema(signature).get("properties", {}).items():
        if "enum" in schema:
            fields[name] = tuple(schema["enum"])
        elif schema.get("type") == "string":
            fields[name] = schema.get("maxLength", LONGEST)
        elif schema.get("type") == "boolean":
            fields[name] = (True, False)
        else:
            return None
    return fields


def _has_shape(fields: Mapping[str, Any], value: Any) -> bool:
    """Returns whether `value` has exactly the outputs `fields`, within their rules: nothing needs mending."""
    if not isinstance(value, dict) or value.keys() != fields.keys():
        return False
    for name, rule in fields.items():
        held = value[name]
        if isinstance(rule, tuple):
            if not is_option(held, rule):
                return False
        elif type(held) is not str or len(held) > rule:
            return False
    return True


@lru_cache(maxsize=512)
def _unfilled_values(signature: Any) -> frozenset[str]:
    """Returns the placeholder texts of the outputs in a form that is not filled in."""
    texts = output_texts(signature)
    blanks = {
        mark.format(name)
        for name in texts
        for mark in ("{{{}}}", "<{}>", "[{}]", "<your {}>", "your {} here")
    }
    return frozenset({"...", "string", "<string>", "<name>", "<text>", *blanks}.union(*texts.values()))


_FIRST_WORDS = (
    *("i'm ", "i\u2019m ", "i am ", "i can", "i could", "i do", "i apologi"),
    *("sorry", "as an ai", "unfortunately", "please "),
)


def _refuses(value: Mapping[str, Any]) -> bool:
    """Returns whether a text in the object `value` is a refusal, by its beginning."""
    return any(
        isinstance(held, str) and held[:14].casefold().startswith(_FIRST_WORDS) and is_no_answer(held, name)
        for name, held in value.items()
    )


def _read_exact(signature: Any, text: str) -> Reading | None:
    """Reads a JSON object that is exactly as requested, whatever its texts say; None for others."""
    fields = _flat_fields(signature) if text[:1] == "{" else None
    if fields is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if (
        not _has_shape(fields, value)
        or _refuses(value)
        or not _unfilled_values(signature).isdisjoint(map(str, value.values()))
    ):
        return None
    with contextlib.suppress(Exception):  # half of a surrogate pair, or a validator, which may raise anything
        return Reading(dict(vars(output_model(signature).model_validate_json(text))))
    return None


def _read_object(signature: Any, text: str, truncated: bool) -> Reading | None:
    """Reads the JSON object in `text`; None if there is none that fits. Raises ParseProblem."""
    try:
        value, tally = loads(text), Tally()
        if value is None:
            tally.mended = 1
            if offers_choice(text):
                raise ParseProblem("the form is not filled in")
            if is_labelled_object(reading_schema(signature), text):
                return None
            value = _object_in(signature, text)
        if value is None:
            closed = whole_part(text, tally, truncated=truncated)
            value = loads(closed)
            if value is None:
                value = json_repair.loads(closed)
            if not isinstance(value, dict) and not (value and all(isinstance(one, dict) for one in value)):
                return None
        return fit(signature, repair_value(value), tally, truncated=truncated)
    except ParseProblem:
        raise
    except Exception:  # json_repair, and validators of signatures, may raise anything
        return None


def _object_in(signature: Any, text: str) -> Any:
    """Returns the whole JSON object in prose, with the prose before it as its first missing text.

    Several objects become the items of a list if one is wanted. Else those that fit must agree, unless the
    last corrects the earlier ones, or steps continue. None if there is no object; raises ParseProblem.
    """
    objects = objects_in(text)
    if not objects:
        return None
    schema = reading_schema(signature)
    value, start, _ = objects[0]
    if len(objects) > 1:
        kinds = list(schema["properties"].values())
        if len(kinds) == 1 and kinds[0].get("type") == "array":
            return [value for value, _, _ in objects]
        fitting = [(one, at) for one, at, _ in objects if _fits(signature, one)]
        if not fitting:
            return None
        (value, start), (last, at) = fitting[0], fitting[-1]
        if any(one != value for one, _ in fitting) and step_shape(schema) is None:
            if is_retraction(text[start:at]):
                value, start = last, at
            elif not starts_new_turn(text[objects[0][2] : at]):
                raise ParseProblem(next(iter(schema["properties"])))
    first, kind = next(iter(schema["properties"].items()))
    before = text[:start].replace("```json", "").strip("`\n ")
    names = {fold(name) for name in value}
    if before and len(schema["properties"]) > 1 and is_text(kind) and fold(first) not in names:
        spelled = {fold(name) for name in schema["properties"]}
        return {first: before, **value} if names & spelled else value
    return value


def _fits(signature: Any, value: Any) -> bool:
    try:
        fit(signature, repair_value(value), Tally())
    except Exception:  # as above
        return False
    return True


def _read_frames(signature: Any, text: str, layout: str, truncated: bool) -> Reading | None:
    """Reads a reply whose outputs are in another form than one JSON object."""
    schema = reading_schema(signature)
    if not schema.get("properties"):
        return None
    for way in parsers_for(layout):
        try:
            parsed = way(schema, text)
            if parsed is None:
                continue
            parsed = clean_texts(schema, parsed)
            tally = Tally(0 if parsed.exact and layout != "json" else 1)
            mender = Mender(schema.get("$defs", {}), tally)
            values = {
                name: field_value(schema["properties"].get(name, {}), value, mender, json_repair.loads)
                for name, value in parsed.values.items()
            }
            return fit(signature, repair_value(values), tally, truncated=truncated)
        except ParseProblem:
            raise
        except Exception:  # as above
            log.debug("%s: nothing that fits", way.__name__)
    points = on_scale(signature, text)
    return None if points is None else fit(signature, points, Tally(1), truncated=truncated)


def fit(signature: Any, value: Any, tally: Tally, *, truncated: bool = False) -> Reading:
    """Returns the typed outputs of `value`, a JSON value; `tally` counts what was mended before.

    Raises pydantic's ValidationError, and whatever a validator raises.
    """
    fields = _flat_fields(signature)
    if fields is not None and _has_shape(fields, value):
        with contextlib.suppress(pydantic.ValidationError):  # by a validator, which is tried again below
            return _reading(signature, value, tally)
    schema = reading_schema(signature)
    error: pydantic.ValidationError | None = None
    for strict in (False, True):
        counted = Tally(tally.mended)
        counted.dropped = tally.dropped
        mender = Mender(schema.get("$defs", {}), counted, strict=strict)
        fitting = mender.mend(schema, value)
        some = isinstance(fitting, dict) and fitting.keys() & schema["properties"].keys()
        if not some and not truncated:
            raise ValueError("none of the outputs is there")
        if truncated:
            fitting = mender.fill(schema, fitting)
        try:
            return _reading(signature, fitting, counted)
        except pydantic.ValidationError as problem:
            error = problem
    while error is not None and _drop_items(fitting, error):
        counted.dropped += 1
        try:
            return _reading(signature, fitting, counted)
        except pydantic.ValidationError as problem:
            error = problem
    raise error or ValueError("nothing was read")


def _drop_items(value: Any, error: pydantic.ValidationError) -> bool:
    """Removes the first list item that `error` names from `value`; returns False if no other item is left."""
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        places = list(places_in(value, problem["loc"]))
        if not places or len(places[-1][0]) < 2:
            return False
        items, at = places[-1]
        del items[at]
        return True
    return False


def _reading(signature: Any, value: Any, tally: Tally) -> Reading:
    outputs = output_model(signature).model_validate_json(json.dumps(value))
    return Reading(dict(vars(outputs)), tally.mended, tally.dropped)


def is_too_deep(text: str) -> bool:
    """Returns whether `text` opens more than `DEEPEST` nested brackets, wherever they are in it."""
    if text.count("[") + text.count("{") + text.count("(") <= DEEPEST:
        return False
    depth = 0
    for bracket in _BRACKET.findall(text):
        depth = depth + 1 if bracket in "[{(" else max(0, depth - 1)
        if depth > DEEPEST:
            return True
    return False


def _read_repaired(signature: Any, text: str, truncated: bool) -> dict[str, Any]:
    """Returns the outputs in `text` by json_repair alone; raises ParseFailure with the misfit."""
    model = output_model(signature)
    try:
        value = repair_value(json_repair.loads(text))
        if truncated and isinstance(value, dict):
            for name, info in model.model_fields.items():
                if name not in value and info.annotation is str:
                    value[name] = ""
        if isinstance(value, dict) and not truncated and not value.keys() & model.model_fields.keys():
            missing = next(iter(model.model_fields))
            raise ParseFailure(
                f"A reply does not fit its signature: {missing}: Field required. It {_beginning(text)}."
            )
        if _has_flag_for_number(reading_schema(signature), value, signature):
            raise ParseFailure(f"A reply has a truth value where a number is wanted. It {_beginning(text)}.")
        outputs = model.model_validate(value)
    except ParseFailure:
        raise
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the reply"
        if first["type"] == "missing" and where in model.model_fields and isinstance(value, dict):
            where = next(
                name for name in model.model_fields if name not in value
            )  # with a default or without
        raise ParseFailure(
            f"A reply does not fit its signature: {where}: {first['msg']}. It {_beginning(text)}."
        ) from error
    except Exception as error:  # as above
        raise ParseFailure(
            f"A reply cannot be read ({type(error).__name__}). It {_beginning(text)}."
        ) from error
    return {name: getattr(outputs, name) for name in signature.output_fields}


def _has_flag_for_number(schema: Mapping[str, Any], value: Any, signature: Any) -> bool:
    """Returns whether `value` has a truth value for a number of `schema`, which pydantic would accept."""
    kind = Mender(reading_schema(signature).get("$defs", {}), Tally()).resolve(schema)
    if isinstance(value, bool):
        return kind.get("type") in ("integer", "number")
    if isinstance(value, dict):
        kinds = kind.get("properties", {})
        return any(_has_flag_for_number(kinds.get(name, {}), held, signature) for name, held in value.items())
    return isinstance(value, list) and any(
        _has_flag_for_number(kind.get("items", {}), one, signature) for one in value
    )


def _beginning(text: str) -> str:
    return f"began {json.dumps(repair_surrogates(text[:80]), ensure_ascii=False)}"


_ESCAPE = re.compile(
    r'\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|["\\/bfnrt])'
)
_BEYOND_ASCII = re.compile(r"([^\x00-\x7f]+)")
_SPACES = str.maketrans({"Ġ": " ", "Ċ": "\n", "▁": " "})  # as vocabularies write white space

Spelled = list[tuple[str, int]]
"""The parts of a text, characters or what stands for them, each with its offset in the raw reply."""


def field_tokens(tokens: Sequence[TokenLogprob], field: str, text: str) -> tuple[TokenLogprob, ...]:
    """Returns the tokens that spell `text`, the value of `field`, each cut to its characters in it.

    Tokens around the value are left out. Empty when the tokens do not spell `text`. If several tokens make
    one character the first one has it, and the others may be empty. A value that was read without regard to
    case and marks (`(b)` for B, `Yes.` for yes) is found under the spelling of the reply.
    """
    if not text.strip():
        return ()
    spaced = [TokenLogprob(token.token.translate(_SPACES), token.logprob) for token in tokens]
    return (
        _spelling(tokens, field, text)
        or _spelling(spaced, field, text)
        or _other_spelling(spaced, field, text)
    )


def _other_spelling(tokens: Sequence[TokenLogprob], field: str, text: str) -> tuple[TokenLogprob, ...]:
    """Yields tokens of a value equal to `text` except for case and marks around it, without these marks."""
    raw = "".join(token.token for token in tokens)
    for spelled in (*_json_values(raw, field), *_sections(raw, field)):
        inside = [at for at, (char, _) in enumerate(spelled) if char.isalnum()]
        core = spelled[inside[0] : inside[-1] + 1] if inside else []
        if core and "".join(char for char, _ in core).casefold() == text.strip().casefold():
            return _crop_tokens(tokens, core)
    return ()


def _spelling(tokens: Sequence[TokenLogprob], field: str, text: str) -> tuple[TokenLogprob, ...]:
    raw = "".join(token.token for token in tokens)
    for spelled in (*_json_values(raw, field), *_plain(raw, field, text)):
        if mended := _respell(spelled, text):
            return _crop_tokens(tokens, mended)
    return ()


def _respell(spelled: Spelled, text: str) -> Spelled:
    """Returns `spelled` with broken characters taken from `text`; empty when it does not spell `text`.

    Tokens that share the bytes of a character show it broken, so only ASCII must agree.
    """
    spelling, text = "".join(char for char, _ in spelled), text.strip()
    if spelling.strip() == text:
        return spelled
    shown, meant = _BEYOND_ASCII.split(spelling.strip()), _BEYOND_ASCII.split(text)
    if len(shown) == 1 or shown[::2] != meant[::2]:
        return []
    parts: list[str] = []
    for broken, whole in zip(shown, meant, strict=True):
        last = len(broken) - 1
        parts += [whole[i:] if i == last else whole[i : i + 1] for i in range(len(broken))]
    first = len(spelling) - len(spelling.lstrip())
    return [(part, spelled[i][1]) for i, part in enumerate(parts, first)]


def _json_values(raw: str, field: str) -> Iterator[Spelled]:
    """Yields the text value of each key `field` of a JSON text, without quotes and with escapes decoded."""
    for key in re.finditer(rf'"{re.escape(field)}"\s*:\s*"', raw):
        spelled: Spelled = []
        at = key.end()
        while at < len(raw) and raw[at] != '"':
            escape = _ESCAPE.match(raw, at)
            char = json.loads(f'"{escape.group()}"') if escape else raw[at]
            spelled.append((char, at))
            at = escape.end() if escape else at + 1
        yield spelled


def _plain(raw: str, field: str, text: str) -> Iterator[Spelled]:
    """Yields where `text` follows the marker of `field` unchanged, in layouts that are not JSON."""
    for mark in re.finditer(rf"(?:\[\[ ## {re.escape(field)} ## \]\]|<{re.escape(field)}>)\s*", raw):
        if raw.startswith(text.strip(), mark.end()):
            yield [(char, mark.end() + i) for i, char in enumerate(text.strip())]


def _sections(raw: str, field: str) -> Iterator[Spelled]:
    """Yields the text after each marker of `field`, up to the next marker, in layouts that are not JSON."""
    name = re.escape(field)
    for mark in re.finditer(
        rf"(?:\[\[ ## {name} ## \]\]|<{name}>)(.*?)(?:\[\[ ## |</{name}>|\Z)", raw, re.DOTALL
    ):
        yield [(char, mark.start(1) + at) for at, char in enumerate(mark[1])]


def _crop_tokens(tokens: Sequence[TokenLogprob], spelled: Spelled) -> tuple[TokenLogprob, ...]:
    cut_tokens: list[TokenLogprob] = []
    left, start = iter(spelled), 0
    char = next(left, None)
    for token in tokens:
        end, parts = start + len(token.token), []
        while char is not None and char[1] < end:
            parts.append(char[0])
            char = next(left, None)
        if parts:
            cut_tokens.append(TokenLogprob("".join(parts), token.logprob))
        start = end
    return tuple(cut_tokens)


def mean_probability(tokens: Sequence[TokenLogprob]) -> float:
    """Returns the exponential of the mean log probability of `tokens`; 0 when there are none."""
    return math.exp(min(0.0, sum(token.logprob for token in tokens) / len(tokens))) if tokens else 0.0
