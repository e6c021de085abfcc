"""Outputs after their names and a colon, at the beginning of a line or in the midst of it.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragc.programs.calls.reading.field_values import resolved
from ragc.programs.calls.reading.json_objects import Tally
from ragc.programs.calls.reading.meaning import fold, is_form_of, is_text, word_set
from ragc.programs.calls.reading.mending import Mender
from ragc.programs.calls.reading.other_names import ALIASES, OTHERS, VERDICTS, is_form_of_name
from ragc.programs.calls.reading.parsed import (
    ParsedReply,
    ParseProblem,
    folded_names,
    has_brace,
    has_tag,
    split_header,
    unfenced,
)
from ragc.programs.calls.reading.prose import final_answer, is_answer, is_name, is_retraction

_LABEL = re.compile(
    r"(?:\W{0,3}\d{1,2}[.)]\s+)?[\W_]{0,6}([^\W\d][\w -]{0,60}?(?:\s*\([\w ,%-]{1,30}\))?)[*_`\"']{0,3}"
    r"(?:\s?[:\uff1a]|\s+(?:[\u2013\u2014\u2192-]|[=-]>)(?=\s)|\s=(?=\s))[*_`]{0,3}\s*"
)


def with_inner_names(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """`schema` with the fields of its one output that is an object, or one of several, among the outputs."""
    mender = Mender(schema.get("$defs", {}), Tally())
    inner: dict[str, Any] = {}
    for kind in map(mender.resolve, schema["properties"].values()):
        for one in map(mender.resolve, kind.get("anyOf", [kind])):
            fields = one.get("properties", {}) if one.get("type") == "object" else {}
            is_list = len(fields) == 1 and mender.resolve(*fields.values()).get("type") == "array"
            inner.update({} if is_list else fields)
    return {**schema, "properties": {**inner, **schema["properties"]}} if inner else schema


def parse_labels(schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """Outputs after their names and a colon at the beginning of a line; prose before them is the first.

    What is said beside an answer ("Explanation:") and what follows a step ("Observation:") is not read.
    """
    if has_brace(text) and not is_labelled_object(schema, text):
        return None
    name_of = label_reader(with_inner_names(schema))
    begun: list[tuple[str, list[str]]] = [("", [])]
    for line in unfenced(text).splitlines():
        marked = split_header(line, _LABEL) or _bold_head(line, schema)
        name = name_of(marked[0]) if marked else None
        if name is None or marked is None:
            begun[-1][1].append(line)
        elif name == ENDS and (any(one for one, _ in begun) or _is_value(schema, begun[0][1])):
            break
        elif name != ENDS or len(begun) > 1:
            begun.append((name.replace(ENDS, ""), [marked[1]]))
    sections = [(name, "\n".join(lines).strip().strip("*`").strip()) for name, lines in begun]
    values = _settle(schema, [(name, held) for name, held in sections if name])
    first = next(iter(schema["properties"]))
    before = sections[0][1]
    if not values and _is_value(schema, begun[0][1]):
        return ParsedReply({first: before})
    if values and first not in values and before and is_text(schema["properties"][first]):
        values = {first: before, **values}
    if not values or any(names_another(schema, values, held) for held in values.values()):
        return None
    return ParsedReply(values)


_CALL_BEGINS = re.compile(r"\W{0,10}[A-Za-z_]\w{0,60}\(\s*\w+\s*=")


def is_labelled_object(schema: Mapping[str, Any], text: str) -> bool:
    """Whether the first brace in `text` begins the value of one of several outputs, right after its name,
    or that of an argument of a call.
    """
    if _CALL_BEGINS.match(text):
        return True
    line = text[: text.find("{")].rstrip().rpartition("\n")[2]
    if len(schema["properties"]) < 2 or len(line) > 200:
        return False
    label = re.sub(r"\A\W*(?:\d{1,2}[.)])?", "", re.sub(r"\W*\Z", "", line).rpartition("|")[2])
    return any(fold(label) == fold(name) for name in schema["properties"])


def names_another(schema: Mapping[str, Any], values: Mapping[str, str], text: str) -> bool:
    """Whether another output, which has no value yet, is named in the midst of a line of `text`."""
    others = [re.escape(name).replace("_", "[_ ]") for name in schema["properties"] if name not in values]
    if not others:
        return False
    return (
        re.search(rf"[|;,.][ \t]?[*_]{{0,2}}(?:{'|'.join(others)})[*_]{{0,2}} ?[:=]", text, re.IGNORECASE)
        is not None
    )


def _is_value(schema: Mapping[str, Any], lines: Sequence[str]) -> bool:
    """Whether the `lines` before all labels are a name and no more, where one text is all that is wanted."""
    (kind, *others) = schema["properties"].values()
    alone = [line for line in lines if line.strip()]
    return not others and is_text(kind) and len(alone) == 1 and is_name(alone[0])


def _bold_head(line: str, schema: Mapping[str, Any]) -> tuple[str, str] | None:
    """The name of an output that stands in bold in a line of its own, with nothing under it yet."""
    bold = re.fullmatch(r"\s*(?:\*\*|__)([^*:]{1,40}?)(?:\*\*|__)\s*", line)
    return (bold[1], "") if bold and fold(bold[1]) in folded_names(schema) else None


def _settle(schema: Mapping[str, Any], sections: Sequence[tuple[str, str]]) -> dict[str, str]:
    """One value for each name: of steps that go on the first, of values that are taken back the last."""
    values: dict[str, str] = {}
    names = [name for name, _ in sections]
    starts_new_turn = len(set(names)) > 1 and all(names.count(name) > 1 for name in names[: len(set(names))])
    for at, (name, held) in enumerate(sections):
        if not held and name in values:
            continue
        if name not in values or not values[name]:
            values[name] = held
        elif not starts_new_turn and fold(values[name]) != fold(held):
            earlier = " ".join(one for _, one in sections[:at])
            if not (is_retraction(earlier) or is_retraction(held)):
                raise ParseProblem(name)
            values[name] = held
    answers = {name: final_answer(held) for name, held in values.items() if is_answer(name)}
    return {**values, **answers}


ENDS = "\0"
"""Stands for the labels that end an answer: what follows is not of the reply."""
_BESIDE = word_set("""
    explanation reason reasoning rationale justification note notes source sources evidence confidence
    citation citations supportingpassage context remark comment
    """)
_AFTER = word_set("""
    observation observations intermediateanswer question human user assistant result results newquestion
    nextquestion passage passages input instruction example q
    """)
_REMARK = re.compile(
    r"\n[ \t]{0,8}[*_]{0,2}(?:explanation|reasoning|rationale|justification|note|notes|source|sources|"
    r"evidence)[*_]{0,2}:",
    re.IGNORECASE,
)


def without_remark(text: str) -> str:
    """`text` without the labelled remark that follows an answer."""
    remark = _REMARK.search(text)
    return text[: remark.start()].rstrip() if remark and text[: remark.start()].strip() else text


def label_reader(schema: Mapping[str, Any]) -> Callable[[str], str | None]:
    """What tells the output that a label names; `ENDS` for one beside the outputs, None for no label."""
    spelled = folded_names(schema)
    lasts: dict[str, str] = {name: name.rpartition("_")[2].casefold() for name in schema["properties"]}

    def name_of(label: str) -> str | None:
        label = re.sub(r"\s*\([^)]*\)\s*\Z|\s*\d+\s*\Z", "", label)
        folded = fold(label)
        if folded in spelled:
            return str(spelled[folded])
        words = re.findall(r"[^\W\d_]+", label.casefold())
        if len(words) > 1 and words[-1] in ("es", "ist", "est", "è", "é", "for", "is"):
            words.pop()
        if not words or len(words) > 4 or (words[0] in OTHERS and words != ["a"]):
            return ENDS if folded in _AFTER or (len(words) == 2 and words[1] in lasts.values()) else None
        named = [
            name for name, last in lasts.items() if words[-1] == last and (len(words) > 1 or "_" in name)
        ]
        named = named or [name for name, last in lasts.items() if words[-1] in ALIASES.get(last, ())]
        named = named or [
            n for n in spelled.values() if len(words) == 1 and len(n) > 5 and is_form_of(words[0], n)
        ]
        named = named or [name for name in schema["properties"] if is_form_of_name(words, name)]
        if not named and words[-1] in VERDICTS and len(words) < 3:
            named = [
                name for name, kind in schema["properties"].items() if not is_text(resolved(schema, kind))
            ]
        if len(named) == 1:
            return named[0]
        return ENDS if folded in _AFTER | _BESIDE else None

    return name_of


def _label_in(words: str, name_of: Callable[[str], str | None], schema: Mapping[str, Any]) -> str:
    """The last of `words` that are a label: the name of an output before others that mean one."""
    ends = [words.split(" ", at)[at] for at in range(words.count(" ") + 1)]
    exact = [end for end in ends if any(fold(end) == fold(name) for name in schema["properties"])]
    other = [end for end in ends if name_of(end) in schema["properties"]]
    return next(iter([*exact, *other]), "")


def parse_inline_labels(schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """Outputs after their names and a colon in the midst of a line; what stands before is the one without."""
    if has_brace(text) or len(text) > 2000 or has_tag(schema, text):
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
    values = {n: text[at:end].strip(" \n,;|()[]*") for (n, _, at), end in zip(matches, ends, strict=True)}
    before = text[: matches[0][1]].strip(" \n,;|([*")
    missing = [name for name in schema["properties"] if name not in values]
    if before and missing and is_text(schema["properties"][missing[0]]):
        values = {missing[0]: before, **values}
    return ParsedReply(values)


def _with_percent(schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """A text and a number in percent after it, where just these are wanted: "Paris (85%)"."""
    names = list(schema["properties"])
    kinds = [resolved(schema, kind) for kind in schema["properties"].values()]
    if len(names) != 2 or not is_text(kinds[0]) or kinds[1].get("type") != "integer":
        return None
    both = re.fullmatch(
        r"\s*([^\n]+?)\s*(?:[(\[]\s*(\d{1,3})\s*%[^)\]\n]{0,20}[)\]]|[,;\u2013\u2014-]\s*(\d{1,3})\s*%)\W*",
        text,
    )
    return ParsedReply({names[0]: both[1], names[1]: both[2] or both[3]}) if both else None
