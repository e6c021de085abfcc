"""Steps in a line of their own: "local[query]", "Follow up: ...?", "So the final answer is: ...".

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ragc.programs.calls.reading.field_values import options_of, resolved
from ragc.programs.calls.reading.meaning import fold, is_text
from ragc.programs.calls.reading.parsed import ParsedReply, ParseProblem, has_brace, unfenced
from ragc.programs.calls.reading.refusals import is_no_answer
from ragc.programs.calls.reading.step_calls import call_in


class StepShape(NamedTuple):
    """How a signature asks for a step: the output with the `options`, and the `text` that goes with one.

    Where both are inside one output, `text` is empty.
    """

    choice: str
    options: Sequence[str]
    text: str


def step_shape(schema: Mapping[str, Any]) -> StepShape | None:
    """The shape of the steps that `schema` asks for; None where it asks for none."""
    kinds = {name: resolved(schema, kind) for name, kind in schema["properties"].items()}
    names = list(kinds)
    last = kinds[names[-1]]
    inner = [resolved(schema, kind) for kind in last.get("anyOf", ())]
    if inner and all(kind.get("type") == "object" for kind in inner):
        options = [option for kind in inner for option in options_of(next(iter(kind["properties"].values())))]
        return StepShape(names[-1], options, "") if options else None
    if len(names) < 2 or not is_text(last) or names[-1] not in schema.get("required", names):
        return None
    options = options_of(kinds[names[-2]])
    return StepShape(names[-2], options, names[-1]) if len(options) > 1 else None


_RUNS_ON = re.compile(
    r"^[^\w\n]{0,8}(?:observation|intermediate answer|results?|thought|human|user)\b[^\n:]{0,12}:",
    re.IGNORECASE | re.MULTILINE,
)
_FINAL = re.compile(
    r"^[^\w\n]{0,8}(?:so\W{1,4})?(?:the\s+)?(?:final\s+answer(?:\s+is)?|answer\s+is)\s*[:\uff1a]?\s*(\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_NEXT = re.compile(r"[:\u2014]\s*([^:\n]{5,200}\?)\W*\Z")
_TAGGED = r"<(?:\w+)\s+\w+\s*=\s*[\"']?(NAMES)[\"']?\s*>([^<]+)<|<(NAMES)>([^<]+)</"


def _parse_step_tags(schema: Mapping[str, Any], shape: StepShape, text: str) -> ParsedReply | None:
    """A step whose option is an attribute or the name of a tag: `<action name="web">query</action>`."""
    names = "|".join(map(re.escape, shape.options))
    matches = re.findall(_TAGGED.replace("NAMES", names), text, re.IGNORECASE)
    if len(matches) != 1:
        return None
    option, held = (matches[0][0], matches[0][1]) if matches[0][0] else (matches[0][2], matches[0][3])
    first = next(iter(schema["properties"]))
    thought = re.search(rf"<{first}>([^<]*)</", text)
    return _parsed_step(schema, shape, option.lower(), held.strip(), thought[1].strip() if thought else "")


def parse_step(schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """A step in a line of its own: "local[query]", "Follow up: ...?", "So the final answer is: ..."."""
    shape = step_shape(schema)
    if shape is None or has_brace(text):
        return None
    if "<" in text:
        return _parse_step_tags(schema, shape, text)
    matches: list[tuple[str, str, int, int]] = []
    first, _, rest = unfenced(text).strip().partition("\n")
    alone = [one for one in shape.options if fold(one) == fold(first)]
    if alone and rest.strip() and "\n" not in rest.strip():
        return _parsed_step(schema, shape, alone[0], rest.strip(), "")
    offset = 0
    for line in unfenced(text).splitlines(keepends=True):
        call = call_in(line, shape.options)
        final = _FINAL.match(line.strip())
        if call is None and final and (ends := _ending(shape.options)):
            call = ends, final[1].rstrip(". *")
        if call is not None:
            matches.append((*call, offset, offset + len(line)))
        offset += len(line)
    if not matches:
        return _step_in_sentence(shape, schema, text)
    text = unfenced(text)
    option, held, start, end = matches[0]
    differ = any((other, fold(query)) != (option, fold(held)) for other, query, _, _ in matches[1:])
    if differ and not _RUNS_ON.search(text[end : matches[1][2]] + "\n" + text[end:].lstrip()):
        raise ParseProblem(shape.choice)
    return _parsed_step(schema, shape, option, held, _aside(text[:start]))


def _ending(options: Sequence[str]) -> str:
    return next((option for option in options if option in ("answer", "finish")), "")


def _aside(text: str) -> str:
    """Prose before a step without the label of its own and the one of the step."""
    text = re.sub(
        r"\A\W*(?:thought|reasoning|reason|analysis)\s*\d*\s*:\W*", "", text.strip(), flags=re.IGNORECASE
    )
    return re.sub(r"(?:^|\n)\W*(?:action|step|tool)\s*\d*\s*:\W*\Z", "", text).strip()


def _parsed_step(
    schema: Mapping[str, Any], shape: StepShape, option: str, held: str, before: str
) -> ParsedReply:
    values: dict[str, Any] = {shape.choice: option, shape.text: held}
    if not shape.text:
        values = {shape.choice: f"{option}[{held}]"}
    first = next(iter(schema["properties"]))
    return ParsedReply({first: before, **values} if before and first not in values else values)


def _step_in_sentence(shape: StepShape, schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """A step that a sentence announces: the tool by name with the query in quotes, or a question to ask."""
    text = text.strip()
    if len(text) > 400 or is_no_answer(text):
        return None
    named = [
        one
        for one in shape.options
        if re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", text, re.IGNORECASE)
    ]
    quoted = re.findall(r"[\"\u201c`]([^\"\u201c\u201d`\n]{2,200})[\"\u201d`]", text)
    if len(named) == 1 and len(quoted) == 1 and named[0] != "answer":
        return _parsed_step(schema, shape, named[0], quoted[0], "")
    asks = next((one for one in shape.options if fold(one) in ("followup", "ask", "question")), "")
    if not asks or not text.rstrip("*_`\"' ").endswith("?"):
        return None
    after = _NEXT.search(text)
    question = after[1].strip() if after else text
    alone = "\n" not in question and question.count("?") == 1 and not re.search(r"[.!:]\s", question)
    return _parsed_step(schema, shape, asks, question.strip("*_`\"' "), "") if alone else None
