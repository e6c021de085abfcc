"""Outputs in a reply that has no frame: a step in a line, a verdict or an answer in sentences, a bare value.

This module is part of exported Python files too: it needs nothing but the standard library of Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ragc.programs.calls.frames import Frame, Unclear, holds_object, label_reader, unfenced, without_remark
from ragc.programs.calls.json_text import Tally
from ragc.programs.calls.meaning import (
    BULLET,
    FLAGS,
    NOTHING_MEANT,
    bare,
    choose,
    fold,
    is_text,
    loads,
    number_in,
)
from ragc.programs.calls.mending import Mender
from ragc.programs.calls.prose import (
    is_answer,
    is_looped,
    is_name,
    phrase_at,
    says_nothing,
    settled,
    without_chatter,
    without_lead,
)
from ragc.programs.calls.step_calls import call_in
from ragc.programs.calls.verdicts import rating, verdict


class StepShape(NamedTuple):
    """How a signature asks for a step: the output with the `options`, and the `text` that goes with one.

    Where both are inside one output, `text` is empty.
    """

    choice: str
    options: Sequence[str]
    text: str


def step_shape(schema: Mapping[str, Any]) -> StepShape | None:
    """The shape of the steps that `schema` asks for; None where it asks for none."""
    kinds = {name: _resolved(schema, kind) for name, kind in schema["properties"].items()}
    names = list(kinds)
    last = kinds[names[-1]]
    inner = [_resolved(schema, kind) for kind in last.get("anyOf", ())]
    if inner and all(kind.get("type") == "object" for kind in inner):
        options = [option for kind in inner for option in _options(next(iter(kind["properties"].values())))]
        return StepShape(names[-1], options, "") if options else None
    if len(names) < 2 or not is_text(last) or names[-1] not in schema.get("required", names):
        return None
    options = _options(kinds[names[-2]])
    return StepShape(names[-2], options, names[-1]) if len(options) > 1 else None


def _resolved(schema: Mapping[str, Any], kind: Mapping[str, Any]) -> Mapping[str, Any]:
    return Mender(schema.get("$defs", {}), Tally()).resolve(kind)


def _options(kind: Mapping[str, Any]) -> list[str]:
    """The words that `kind` allows; none where it allows anything else."""
    options = kind.get("enum") or ([kind["const"]] if "const" in kind else [])
    return list(options) if options and all(isinstance(option, str) for option in options) else []


_RUNS_ON = re.compile(
    r"^[^\w\n]{0,8}(?:observation|intermediate answer|results?|thought|human|user)\b[^\n:]{0,12}:",
    re.IGNORECASE | re.MULTILINE,
)
_FINAL = re.compile(
    r"^[^\w\n]{0,8}(?:so\W{1,4})?(?:the\s+)?(?:final\s+answer(?:\s+is)?|answer\s+is)\s*[:\uff1a]?\s*(\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_NEXT = re.compile(r"[:\u2014]\s*([^:\n]{5,200}\?)\W*\Z")


def tidied(schema: Mapping[str, Any], frame: Frame) -> Frame:
    """`frame` without labels and objects inside its texts that only say once more which output they are.

    Raises Unclear where an answer, a query or a question is empty.
    """
    shape = step_shape(schema)
    values = dict(frame.values)
    for name, matches in frame.values.items():
        value = matches
        if not isinstance(value, str) or not is_text(_resolved(schema, schema["properties"].get(name, {}))):
            continue
        label, mark, rest = value.partition(":") if value[:1] != "{" else (value, "", "")
        if mark and len(label) < 60 and fold(label) == fold(name) and rest.strip():
            value = rest.strip(" *_\n")
        elif shape is not None and name == shape.text and mark and (call := call_in(value, shape.options)):
            value = call[1]
        named, at = phrase_at(value) if name.rpartition("_")[2] == "answer" and "\n" not in value else ("", 1)
        spoken = (
            re.search(r"\b(?:is|was|are|be)\b", value[: value.find(named)], re.IGNORECASE)
            if named and at == 0
            else None
        )
        if spoken and value.rstrip(" .*!").endswith(named):
            value = named
        if name.rpartition("_")[2] in ("answer", "query", "question"):
            value = without_remark(value)
        held = loads(value) if value[:1] == "{" else None
        if isinstance(held, dict) and len(held) == 1 and fold(next(iter(held))) == fold(name):
            value = next(iter(held.values()))
        if value == "" and name.rpartition("_")[2] in ("answer", "query", "question"):
            raise Unclear(f"{name} is empty")
        values[name] = value
    return Frame(values, exact=frame.exact and values == frame.values)


_TAGGED = r"<(?:\w+)\s+\w+\s*=\s*[\"']?(NAMES)[\"']?\s*>([^<]+)<|<(NAMES)>([^<]+)</"


def _in_step_tags(schema: Mapping[str, Any], shape: StepShape, text: str) -> Frame | None:
    """A step whose option is an attribute or the name of a tag: `<action name="web">query</action>`."""
    names = "|".join(map(re.escape, shape.options))
    matches = re.findall(_TAGGED.replace("NAMES", names), text, re.IGNORECASE)
    if len(matches) != 1:
        return None
    option, held = (matches[0][0], matches[0][1]) if matches[0][0] else (matches[0][2], matches[0][3])
    first = next(iter(schema["properties"]))
    thought = re.search(rf"<{first}>([^<]*)</", text)
    return _step_frame(schema, shape, option.lower(), held.strip(), thought[1].strip() if thought else "")


def in_step(schema: Mapping[str, Any], text: str) -> Frame | None:
    """A step in a line of its own: "local[query]", "Follow up: ...?", "So the final answer is: ..."."""
    shape = step_shape(schema)
    if shape is None or holds_object(text):
        return None
    if "<" in text:
        return _in_step_tags(schema, shape, text)
    matches: list[tuple[str, str, int, int]] = []
    first, _, rest = unfenced(text).strip().partition("\n")
    alone = [one for one in shape.options if fold(one) == fold(first)]
    if alone and rest.strip() and "\n" not in rest.strip():
        return _step_frame(schema, shape, alone[0], rest.strip(), "")
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
        raise Unclear(shape.choice)
    return _step_frame(schema, shape, option, held, _aside(text[:start]))


def _ending(options: Sequence[str]) -> str:
    return next((option for option in options if option in ("answer", "finish")), "")


def _aside(text: str) -> str:
    """Prose before a step without the label of its own and the one of the step."""
    text = re.sub(
        r"\A\W*(?:thought|reasoning|reason|analysis)\s*\d*\s*:\W*", "", text.strip(), flags=re.IGNORECASE
    )
    return re.sub(r"(?:^|\n)\W*(?:action|step|tool)\s*\d*\s*:\W*\Z", "", text).strip()


def _step_frame(schema: Mapping[str, Any], shape: StepShape, option: str, held: str, before: str) -> Frame:
    values: dict[str, Any] = {shape.choice: option, shape.text: held}
    if not shape.text:
        values = {shape.choice: f"{option}[{held}]"}
    first = next(iter(schema["properties"]))
    return Frame({first: before, **values} if before and first not in values else values)


def _step_in_sentence(shape: StepShape, schema: Mapping[str, Any], text: str) -> Frame | None:
    """A step that a sentence announces: the tool by name with the query in quotes, or a question to ask."""
    text = text.strip()
    if len(text) > 400 or says_nothing(text):
        return None
    named = [
        one
        for one in shape.options
        if re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", text, re.IGNORECASE)
    ]
    quoted = re.findall(r"[\"\u201c`]([^\"\u201c\u201d`\n]{2,200})[\"\u201d`]", text)
    if len(named) == 1 and len(quoted) == 1 and named[0] != "answer":
        return _step_frame(schema, shape, named[0], quoted[0], "")
    asks = next((one for one in shape.options if fold(one) in ("followup", "ask", "question")), "")
    if not asks or not text.rstrip("*_`\"' ").endswith("?"):
        return None
    after = _NEXT.search(text)
    question = after[1].strip() if after else text
    alone = "\n" not in question and question.count("?") == 1 and not re.search(r"[.!:]\s", question)
    return _step_frame(schema, shape, asks, question.strip("*_`\"' "), "") if alone else None


def sole_output(schema: Mapping[str, Any]) -> str:
    """The only output, or the only one that must be there; "" where there are several."""
    names = list(schema["properties"])
    needed = names if len(names) == 1 else [name for name in names if name in schema.get("required", names)]
    return needed[0] if len(needed) == 1 else ""


_NONE = re.compile(
    r"(?:none|no (?:\w+ ){0,2}(?:documents?|passages?|spans?|claims?|parts?|entit(?:y|ies)|words?|names?|"
    r"items?|questions?)"
    r"|there (?:are|is) (?:no|none|nothing)|nothing|not any)\b[^\n]{0,120}",
    re.IGNORECASE,
)
_IDS = re.compile(
    r"\b(?:documents?|passages?|docs?|ids?|numbers?|texts?|order|ranking)(?:\s+(?:is|are|"
    r"would be))?\s*:?\s*((?:[\[(#]*\d{1,3}[\])]*)(?:\s*(?:,|and|&|or|then|,\s*and|>)\s*"
    r"(?:documents? |passages? )?[\[(#]*\d{1,3}[\])]*)*)",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"\b(?:not|no|n't|neither|nor|without|except|irrelevant|useless)\b", re.IGNORECASE)


def in_sentences(schema: Mapping[str, Any], text: str) -> Frame | None:
    """What sentences say of the only output that must be there: a verdict, a rating, numbers, an answer."""
    name = sole_output(schema)
    if not name or holds_object(text) or len(text) > 20_000:
        return None
    text = text.strip()
    kind = _resolved(schema, schema["properties"][name])
    value: Any = NOTHING_MEANT
    if is_text(kind) or (is_answer(name) and "enum" in kind):
        return _answer_frame(schema, name, kind, text)
    if says_nothing(text):
        return None
    listed = _list_in(schema, kind, text)
    inner = list(kind.get("properties", {}).values())
    kind = _resolved(schema, inner[0]) if len(inner) == 1 and listed is None else kind
    options = [True, False] if kind.get("type") == "boolean" else kind.get("enum", [])
    if listed is not None:
        value = listed
    elif kind.get("type") in ("integer", "number") or (options and all(type(one) is int for one in options)):
        value = rating(text) if number_in(text, kind.get("maximum")) is None else ""
        value = value or NOTHING_MEANT
    elif options and choose(text, options) is NOTHING_MEANT and not _begins_flag(text, options):
        value = verdict(name, options, text)
    return None if value is NOTHING_MEANT else _with_reasons(schema, name, value, text)


def _begins_flag(text: str, options: Sequence[Any]) -> bool:
    """Whether `text` begins with yes or no where `options` are truth values: then it is read as such."""
    return options == [True, False] and choose(text, ("true", "false", "yes", "no")) is not NOTHING_MEANT


def _with_reasons(schema: Mapping[str, Any], name: str, value: Any, reasons: str) -> Frame:
    first = next(iter(schema["properties"]))
    also = first != name and is_text(schema["properties"][first])
    return Frame({first: reasons, name: value} if also else {name: value})


def _list_in(schema: Mapping[str, Any], kind: Mapping[str, Any], text: str) -> list[Any] | None:
    """The list that a sentence tells: none, or the numbers that it names and does not deny."""
    inner = list(kind.get("properties", {}).values())
    if len(inner) == 1:
        kind = _resolved(schema, inner[0])
    if kind.get("type") != "array":
        return None
    if "\n" in text.strip():
        return _ranked(text) if "order" in schema["properties"] else None
    if _NONE.fullmatch(text):
        return []
    if _resolved(schema, kind.get("items", {})).get("type") != "integer" or _NEGATED.search(text):
        return None
    matches = _IDS.findall(text)
    rest = _IDS.sub("", text)
    return (
        [int(one) for one in re.findall(r"\d+", matches[0])]
        if len(matches) == 1 and not re.search(r"\d", rest)
        else None
    )


_RANKED = re.compile(
    r"\W*(?:\d{1,2}[.)]\s+)?\W{0,3}(?:(?:passage|document|doc)\s*\W?|\[)(\d{1,3})\b.*", re.IGNORECASE
)


def _ranked(text: str) -> list[int] | None:
    """The passages that begin the lines of a ranking which says more of each."""
    lines = [line for line in text.splitlines() if line.strip()]
    matches = [_RANKED.fullmatch(line) for line in lines]
    if len(lines) < 2 or _NEGATED.search(text):
        return None
    return [int(one[1]) for one in matches if one] if all(matches) else None


def _answer_frame(schema: Mapping[str, Any], name: str, kind: Mapping[str, Any], text: str) -> Frame | None:
    """The answer that prose ends with. Where no reasoning is asked for, prose may be the answer itself."""
    if not is_answer(name) or name.rpartition("_")[2] != "answer":
        return None
    named, at = phrase_at(text)
    if not named or (is_text(kind) and says_nothing(named)):
        return None
    options = kind.get("enum")
    if options and choose(named, options) is NOTHING_MEANT:
        return None
    before, rest = text[:at].strip(), text[at:].strip()
    if len(schema["properties"]) == 1 and is_text(kind):
        whole = not before or len(before) <= 60 or "\n" in rest
        if len(before) > 200 or (not whole and len(rest) > 200):
            return None
    return _with_reasons(schema, name, named, before or text)


def bare_output(schema: Mapping[str, Any], text: str) -> Frame | None:
    """The whole text, where one output is wanted and nothing says that it is more than that."""
    text = unfenced(text.strip()).replace("[[ ## completed ## ]]", "").strip()
    name = sole_output(schema)
    if not name or not text or holds_object(text) or "[[ ##" in text:
        return None
    kind = _resolved(schema, schema["properties"][name])
    headed = any(
        fold(line.strip(" #*_[]:")) == fold(name) for line in text.splitlines() if line.strip()[:1] in "#[*"
    )
    if headed or f"<{name}>" in text:
        return None
    held = loads(text)
    if isinstance(held, list):
        return Frame({name: held})
    if isinstance(held, str):
        text = held
    elif len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" and text[0] not in text[1:-1]:
        text = text[1:-1]
    elif tagged := re.fullmatch(r"<(\w+)>\s*([^<>]+?)\s*</\1>", text):
        text = tagged[2]
    if held == "" and name not in schema.get("required", [name]):
        return Frame({name: ""})
    if not re.search(r"\w", text) and not _means_something(kind, text):
        return None
    if is_text(kind):
        text = "" if is_looped(text) else _plain_answer(name, text)
        if not text or (len(schema["properties"]) > 1 and not is_name(text)):
            return None
    elif "enum" in kind and choose(text, kind["enum"]) is NOTHING_MEANT:
        return None
    return Frame({name: text})


def _means_something(kind: Mapping[str, Any], text: str) -> bool:
    return (number_in(text) is not None or bare(text) in FLAGS) and not is_text(kind)


_CANDIDATE = re.compile(
    r"\W*(?:option|query|version|alternative|candidate|suggestion|possibility)\s*#?\d*\s*[:.)]", re.IGNORECASE
)


def _plain_answer(name: str, text: str) -> str:
    """A bare text without what announces or follows it; "" where it offers several."""
    alone = without_chatter(without_lead(text))
    lines = [line.strip() for line in alone.splitlines() if line.strip()]
    if len(lines) > 1 and len(set(lines)) == 1:
        return lines[0]
    heads = [line for line in lines if not BULLET.match(line)]
    items = [BULLET.sub("", line).strip("*_` ") for line in lines if BULLET.match(line)]
    if len([line for line in lines if _CANDIDATE.match(line)]) > 1:
        return ""
    if len(lines) == 1:
        alone = re.sub(
            r"\A(?:>|[-*\u2022]|#{1,6})\s+|\A(?:output|assistant|response|reply|result|ai)\s*:\s*",
            "",
            alone.strip(),
            flags=re.IGNORECASE,
        )
    bold = re.fullmatch(r"\*\*([^*]+)\*\*", alone.strip())
    alone = bold[1] if bold else alone
    listed = len(items) > 1 and (
        not heads or (len(heads) == 1 and heads[0] == lines[0] and heads[0].endswith(":"))
    )
    if listed and all(len(item) <= 80 for item in items):
        if heads or alone != text:
            return ", ".join(items) if name.endswith("answer") else ""
        return ", ".join(items)
    return settled(alone) if is_answer(name) else alone


def _label_in(words: str, name_of: Callable[[str], str | None], schema: Mapping[str, Any]) -> str:
    """The last of `words` that are a label: the name of an output before others that mean one."""
    ends = [words.split(" ", at)[at] for at in range(words.count(" ") + 1)]
    exact = [end for end in ends if any(fold(end) == fold(name) for name in schema["properties"])]
    other = [end for end in ends if name_of(end) in schema["properties"]]
    return next(iter([*exact, *other]), "")


def in_line(schema: Mapping[str, Any], text: str) -> Frame | None:
    """Outputs after their names and a colon in the midst of a line; what stands before is the one without."""
    if holds_object(text) or len(text) > 2000:
        return None
    name_of = label_reader(schema)
    matches: list[tuple[str, int, int]] = []
    for match in re.finditer(
        r"(?:(?<=[\s(\[,;*.])|\A)([A-Za-z][\w-]*(?:[ _][\w-]+){0,3}?)[*_]{0,2}\s?[:=\uff1a]\s*", text
    ):
        words = _label_in(match[1], name_of, schema)
        if words:
            matches.append((str(name_of(words)), match.end(1) - len(words), match.end()))
    if not matches:
        return _with_percent(schema, text)
    if len({name for name, _, _ in matches}) < len(matches):
        return None
    ends = [start for _, start, _ in matches[1:]] + [len(text)]
    values = {n: text[at:end].strip(" \n,;|()[]*") for (n, _, at), end in zip(matches, ends)}  # noqa: B905 (3.9)
    before = text[: matches[0][1]].strip(" \n,;|([*")
    missing = [name for name in schema["properties"] if name not in values]
    if before and missing and is_text(schema["properties"][missing[0]]):
        values = {missing[0]: before, **values}
    return Frame(values)


def _with_percent(schema: Mapping[str, Any], text: str) -> Frame | None:
    """A text and a number in percent after it, where just these are wanted: "Paris (85%)"."""
    names = list(schema["properties"])
    kinds = [_resolved(schema, kind) for kind in schema["properties"].values()]
    if len(names) != 2 or not is_text(kinds[0]) or kinds[1].get("type") != "integer":
        return None
    both = re.fullmatch(
        r"\s*([^\n]+?)\s*(?:[(\[]\s*(\d{1,3})\s*%[^)\]\n]{0,20}[)\]]|[,;\u2013\u2014-]\s*(\d{1,3})\s*%)\W*",
        text,
    )
    return Frame({names[0]: both[1], names[1]: both[2] or both[3]}) if both else None
