"""Reads replies into the typed outputs of a signature, mending what is not as requested."""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import dspy
import json_repair
import pydantic
import pydantic_core

from ragc.core.text import repair_value
from ragc.errors import ParseFailure
from ragc.programs.calls.layouts import adapter
from ragc.programs.calls.outputs import (
    DEEPEST,
    LONGEST,
    Reading,
    beginning,
    flat_fields,
    has_shape,
    is_too_deep,
    output_model,
    read_exact,
    reading_schema,
    unfilled_values,
)
from ragc.programs.calls.reading.cleaning import clean_texts
from ragc.programs.calls.reading.field_values import field_value
from ragc.programs.calls.reading.json_objects import Tally, objects_in, offers_choice, places_in, whole_part
from ragc.programs.calls.reading.labels import is_labelled_object
from ragc.programs.calls.reading.meaning import fold, is_text, lists_options, loads
from ragc.programs.calls.reading.mending import Mender
from ragc.programs.calls.reading.parsed import ParseProblem
from ragc.programs.calls.reading.parsers import parsers_for
from ragc.programs.calls.reading.prose import is_retraction, starts_new_turn
from ragc.programs.calls.reading.refusals import holds_no_answer, is_no_answer
from ragc.programs.calls.reading.steps import step_shape
from ragc.programs.calls.reading.tags import MOST_TAGS
from ragc.programs.calls.reading.thoughts import answering_part
from ragc.signatures.wording import output_texts

log = logging.getLogger("ragc.programs")

_SCALE = re.compile(r"(-?\d+)\s+(?!to\b|\()([^,;:\d]+)")
"""A point of a scale, and the words for it."""


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
            f"A reply opens more than {DEEPEST} brackets inside each other. It {beginning(text)}."
        )
    if (exact := read_exact(signature, text)) is not None:
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
            f"A reply gives two values for one output ({error}). It {beginning(text)}."
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
            f"A reply gives two values for one output ({error}). It {beginning(text)}."
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
                raise ParseFailure(f"A reply gives no {name}. It {beginning(text)}.")
            continue
        options = kinds.get(name, {}).get("enum", ())
        hedged = "{" not in text and {"yes", "no"} <= set(options)
        unclear = value not in ("", *options) and (
            hedged or lists_options(value, options) or value[:1].isdigit()
        )
        form = not options and value in unfilled_values(signature)
        if form or (options and unclear) or is_no_answer(value, name) or fold(value) in echoes.get(name, ()):
            raise ParseFailure(f"A reply gives no {name}. It {beginning(text)}.")
    return reading


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
    fields = flat_fields(signature)
    if fields is not None and has_shape(fields, value):
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
                f"A reply does not fit its signature: {missing}: Field required. It {beginning(text)}."
            )
        if _has_flag_for_number(reading_schema(signature), value, signature):
            raise ParseFailure(f"A reply has a truth value where a number is wanted. It {beginning(text)}.")
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
            f"A reply does not fit its signature: {where}: {first['msg']}. It {beginning(text)}."
        ) from error
    except Exception as error:  # as above
        raise ParseFailure(
            f"A reply cannot be read ({type(error).__name__}). It {beginning(text)}."
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


def read_laid_out(signature: Any, text: str, layout: str, *, truncated: bool = False) -> Reading:
    """Reads a reply of `layout`, one that is not JSON. Raises ParseFailure."""
    if len(text) > LONGEST or is_too_deep(text) or (layout == "xml" and text.count("<") > MOST_TAGS):
        raise _missing(signature, layout)
    if dspy.settings.callbacks:  # whoever watches DSPy's adapters sees them parse
        with contextlib.suppress(Exception):
            adapter(layout).parse(signature, text)
    reading = read_framed(signature, text, layout, truncated=truncated)
    if reading is not None:
        return reading
    try:  # types that only DSPy knows
        values = adapter(layout).parse(signature, text)
        outputs = output_model(signature).model_validate(repair_value(values))
    except Exception as error:  # the adapter runs parsers and validators, which may raise anything
        raise _missing(signature, layout) from error
    return Reading({name: getattr(outputs, name) for name in signature.output_fields}, mended=1)


def _missing(signature: Any, layout: str) -> ParseFailure:
    return ParseFailure(f"the {layout} layout found no {', '.join(signature.output_fields)}.")


@lru_cache(maxsize=512)
def descriptions(signature: Any) -> Mapping[str, frozenset[str]]:
    """Returns the descriptions of each text output in prompts, in both wordings, without blanks and marks."""
    return {name: frozenset(map(fold, texts)) for name, texts in output_texts(signature).items()}


def on_scale(signature: Any, text: str) -> dict[str, Any] | None:
    """Returns the points of the only output if `text` is the prompt's description of them on a scale."""
    if len(signature.output_fields) != 1 or len(text) > 200:
        return None
    (name,) = signature.output_fields
    said_of = {
        fold(about): int(points)
        for one in output_texts(signature)[name]
        for points, about in _SCALE.findall(one)
    }
    return {name: said_of[fold(text)]} if fold(text) in said_of else None
