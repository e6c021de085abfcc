"""Outputs in sentences: a verdict, a rating, numbers, an answer; or a bare value.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragc.programs.calls.reading.field_values import resolved, sole_output
from ragc.programs.calls.reading.labels import label_reader, names_another
from ragc.programs.calls.reading.meaning import (
    BULLET,
    FLAGS,
    NO_MEANING,
    NONE_SAID,
    bare,
    choose,
    fold,
    is_text,
    loads,
    number_in,
    numbers_in,
)
from ragc.programs.calls.reading.parsed import ParsedReply, has_brace, has_tag, unfenced
from ragc.programs.calls.reading.prose import (
    final_answer,
    is_answer,
    is_name,
    named_answer,
    without_chatter,
    without_lead,
)
from ragc.programs.calls.reading.refusals import is_no_answer, is_repetition
from ragc.programs.calls.reading.sole_texts import alone, is_unmarked, without_beside
from ragc.programs.calls.reading.verdicts import rating, verdict

_IDS = re.compile(
    r"\b(?:documents?|passages?|docs?|ids?|numbers?|texts?|order|ranking)(?:\s+(?:is|are|"
    r"would be))?\s*:?\s*((?:[\[(#]*\d{1,3}[\])]*)(?:\s*(?:,|and|&|or|then|,\s*and|>)\s*"
    r"(?:documents? |passages? )?[\[(#]*\d{1,3}[\])]*)*)",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:not|no|n't|neither|nor|without|except|irrelevant|useless|unrelated|drop|"
    r"exclude|remove|discard|skip|ignore|tied|equally|worst|least)\b",
    re.IGNORECASE,
)


def parse_sentences(schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """What sentences say of the only output that must be there: a verdict, a rating, numbers, an answer."""
    name = sole_output(schema)
    if not name or has_brace(text) or f"<{name}>" in text or len(text) > 20_000:
        return None
    if len(schema["properties"]) > 1 and names_another(schema, {}, text):
        return None
    text = text.strip()
    checked = _CHECKED.findall(text)
    if len(checked) == 1 and re.search(r"^\W{0,4}\[ \]", text, re.MULTILINE):
        return ParsedReply({name: checked[0]})
    kind = resolved(schema, schema["properties"][name])
    value: Any = NO_MEANING
    if is_text(kind) or (is_answer(name) and "enum" in kind):
        parsed = _parse_answer(schema, name, kind, text)
        options = kind.get("enum", [])
        if parsed is None and options:
            value = verdict(name, options, text) if len(options) == 2 else _letter(options, text)
        return parsed if value is NO_MEANING else _with_reasons(schema, name, value, text)
    if is_no_answer(text):
        return None
    listed = _list_in(schema, kind, text)
    inner = list(kind.get("properties", {}).values())
    kind = resolved(schema, inner[0]) if len(inner) == 1 and listed is None else kind
    options = [True, False] if kind.get("type") == "boolean" else kind.get("enum", [])
    if listed is not None:
        value = listed
    elif kind.get("type") in ("integer", "number") or (options and all(type(one) is int for one in options)):
        numbered = "maximum" not in kind and not options
        value = rating(text, numbered=numbered) if number_in(text, kind.get("maximum")) is None else ""
        value = value or NO_MEANING
    elif options and choose(text, options) is NO_MEANING and not _begins_flag(text, options):
        value = verdict(name, options, text)
    return None if value is NO_MEANING else _with_reasons(schema, name, value, text)


_LETTER = re.compile(
    r"\b(?:(?:[Oo]ption|[Cc]hoice|[Aa]nswer)\s+|(?:makes|leaves) )\(?([A-Z])\)?\s+"
    r"(?:(?:is|seems|must be|as) )?(?:the )?(?:correct|right|best|only)\b"
)


def _letter(options: Sequence[Any], text: str) -> Any:
    """The one of `options`, letters, that `text` says is correct."""
    letters = set(_LETTER.findall(text))
    return letters.pop() if len(letters) == 1 and letters <= set(options) else NO_MEANING


def _begins_flag(text: str, options: Sequence[Any]) -> bool:
    """Whether `text` begins with yes or no where `options` are truth values: then it is read as such."""
    return options == [True, False] and choose(text, ("true", "false", "yes", "no")) is not NO_MEANING


def _with_reasons(schema: Mapping[str, Any], name: str, value: Any, reasons: str) -> ParsedReply:
    first = next(iter(schema["properties"]))
    also = first != name and is_text(schema["properties"][first])
    return ParsedReply({first: reasons, name: value} if also else {name: value})


def _list_in(schema: Mapping[str, Any], kind: Mapping[str, Any], text: str) -> list[Any] | None:
    """The list that a sentence tells: none, or the numbers that it names and does not deny."""
    inner = list(kind.get("properties", {}).values())
    if len(inner) == 1:
        kind = resolved(schema, inner[0])
    if kind.get("type") != "array":
        return None
    if "\n" in text.strip() and "ids" in schema["properties"]:
        return _selected(text)
    if "\n" in text.strip():
        return _ranked(text) if "order" in schema["properties"] else None
    if NONE_SAID.fullmatch(text):
        return []
    if resolved(schema, kind.get("items", {})).get("type") != "integer" or _NEGATED.search(text):
        return None
    best = {int(one) for one in _BEST.findall(text)}
    if len(best) == 1 and len(_IDS.findall(text)) == 1:
        return list(best)
    matches = _IDS.findall(text)
    rest = _IDS.sub("", text)
    return (
        [int(one) for one in re.findall(r"\d+", matches[0])]
        if len(matches) == 1 and not re.search(r"\d", rest)
        else None
    )


_BEST = re.compile(
    r"\b(?:passage|document|doc)\W{0,3}(\d{1,3})\W{1,4}(?:is|seems|would be|looks) (?:clearly |"
    r"by far )?the (?:most|best)\b",
    re.IGNORECASE,
)
_SCORE = re.compile(
    r"(?<![\d.])(\d{1,3}(?:\.\d{1,4})?)\s?(?:/\s?\d|%|points)|(?<=[Ss]core[:=] )\d{1,3}(?:\.\d{1,4})?"
)
_GIVEN = re.compile(r"\W*[A-Za-z]+\s?\W?\d{1,3}\W*\s(\d{1,3}(?:\.\d+)?)\W*")
_RANKED = re.compile(
    r"\W*(?:\d{1,2}[.)]\s+)?\W{0,3}(?:(?:passage|document|doc)\s*\W?|\[)(\d{1,3})\b.*", re.IGNORECASE
)


_KEEP = re.compile(r"\W*(?:document|passage|doc)?\s?\W?(\d{1,3})\W{1,4}(\w+(?: \w+)?)\b.*", re.IGNORECASE)


def _selected(text: str) -> list[int] | None:
    """The documents that lines choose, of which each line says yes or no of one."""
    ids = []
    for line in filter(str.strip, text.splitlines()):
        said_of = _KEEP.fullmatch(line)
        word = said_of[2].casefold() if said_of else ""
        chosen = word.split(" ")[0] in (
            "yes",
            "keep",
            "kept",
            "relevant",
            "selected",
            "select",
            "include",
            "true",
        )
        if said_of is None or not (chosen or word.split(" ")[0] in _LEFT_OUT or word == "not relevant"):
            return None
        if chosen:
            ids.append(int(said_of[1]))
    return ids


_LEFT_OUT = ("no", "drop", "dropped", "irrelevant", "skip", "exclude", "discard", "false")


def _ranked(text: str) -> list[int] | None:
    """The passages that begin the lines of a ranking which says more of each."""
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].rstrip("*_ ").endswith(":"):
        del lines[0]
    chains = [line for line in lines if line.count(">") > 0 and len(numbers_in(line)) == line.count(">") + 1]
    if len(chains) == 1:
        return numbers_in(chains[0])
    graded = [_GIVEN.fullmatch(line) for line in lines]
    if lines and all(graded):
        points = [float(one[1]) for one in graded if one]
        if points != sorted(points, reverse=True) or len(set(points)) < len(points):
            return None
    scores = [[float(one) for one in _SCORE.findall(line)] for line in lines]
    if all(scores) and scores != sorted(scores, reverse=True):
        return None
    matches = [_RANKED.fullmatch(line) for line in lines]
    if len(lines) < 2 or _NEGATED.search(text):
        return None
    return [int(one[1]) for one in matches if one] if all(matches) else None


def _parse_answer(
    schema: Mapping[str, Any], name: str, kind: Mapping[str, Any], text: str
) -> ParsedReply | None:
    """The answer that prose ends with. Where no reasoning is asked for, prose may be the answer itself."""
    if not is_answer(name) or name.rpartition("_")[2] != "answer":
        return None
    named, at = named_answer(text)
    if not named or (is_text(kind) and is_no_answer(named)):
        return None
    options = kind.get("enum")
    if options and choose(named, options) is NO_MEANING:
        return None
    before, rest = text[:at].strip(), text[at:].strip()
    if len(schema["properties"]) == 1 and is_text(kind):
        whole = not before or len(before) <= 60 or "\n" in rest
        if len(before) > 200 or (not whole and len(rest) > 200):
            return None
    return _with_reasons(schema, name, named, before or text)


_HEADING = re.compile(r"\A#{1,6} [^\n]{1,80}\n\s*(?=[^\n#]+\Z)")
_CHECKED = re.compile(r"^\W{0,4}\[[xX\u2713\u2714]\]\s*(\S[^\n]*)$", re.MULTILINE)
_CODE = re.compile(
    r"\s*```(?!(?:json|text|txt|plaintext|plain|markdown|md|xml|yaml)?[ \t]*\n)[\w+#-]{1,20}[ \t]*\n",
    re.IGNORECASE,
)
_ECHO = re.compile(
    r"[*_#\s]{0,6}(question|passages?|context|inputs?|instructions?|user|human|observation|examples?)[*_]{0,2}\s?(?:\[?\d{1,2}\]?)?\s?:[*_\s]{0,6}",
    re.IGNORECASE,
)
"""The label of an input or of what comes after an answer, as a model has it that repeats its prompt."""


def parse_bare_value(schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """The whole text, where one output is wanted and nothing says that it is more than that."""
    if _CODE.match(text):
        return None
    text = unfenced(text.strip()).replace("[[ ## completed ## ]]", "").strip()
    name = sole_output(schema)
    if not name or not text or has_brace(text) or "[[ ##" in text:
        return None
    kind = resolved(schema, schema["properties"][name])
    headed = any(
        fold(line.strip(" #*_[]:")) == fold(name) for line in text.splitlines() if line.strip()[:1] in "#[*"
    )
    tagged_already = has_tag(schema, text) if is_text(kind) else f"<{name}>" in text
    if headed or tagged_already or text[:1] == "|":
        return None
    if is_text(kind) and text.startswith("#"):
        text = _HEADING.sub("", text)
    held = loads(text)
    if isinstance(held, list):
        return ParsedReply({name: held})
    if isinstance(held, str):
        text = held
    elif len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" and text[0] not in text[1:-1]:
        text = text[1:-1]
    elif tagged := re.fullmatch(r"<(\w{1,40})>([^<>]+)</\1>", text):
        if is_text(kind) and not _means(schema, name, tagged[1]):
            return None
        text = tagged[2].strip()
    if held == "" and name not in schema.get("required", [name]):
        return ParsedReply({name: ""})
    if not re.search(r"\w", text) and not _means_something(kind, text):
        return None
    if is_text(kind):
        if (echo := _ECHO.match(text)) is not None:
            question = echo[1].casefold() == "question" and name.rpartition("_")[2] in ("query", "question")
            text = text[echo.end() :] if question and "\n" not in text.strip() else ""
        text = "" if is_repetition(text) else _plain_answer(name, text)
        if not text or (len(schema["properties"]) > 1 and not is_name(text)):
            return None
        if is_unmarked(name, alone(name, without_beside(name.rpartition("_")[2], text))):
            return None
    elif "enum" in kind and choose(text, kind["enum"]) is NO_MEANING:
        return None
    return ParsedReply({name: text})


_WRAPPERS = frozenset(
    ("answer", "output", "result", "response", "reply", "final", "value", "text", "p", "b", "strong", "code")
)


def _means(schema: Mapping[str, Any], name: str, tag: str) -> bool:
    """Whether `tag` names the output that is wanted, or says no more than that it holds the reply."""
    asks = fold(tag) in ("query", "question") and name.rpartition("_")[2] in ("query", "question")
    named = label_reader(schema)(tag.replace("_", " ")) in schema["properties"]
    return asks or named or fold(tag) in _WRAPPERS


def _means_something(kind: Mapping[str, Any], text: str) -> bool:
    return (number_in(text) is not None or bare(text) in FLAGS) and not is_text(kind)


_CANDIDATE = re.compile(
    r"\W*(?:option|query|version|alternative|candidate|suggestion|possibility)\s*#?\d*\s*[:.)]", re.IGNORECASE
)


_PROPOSES = re.compile(
    r"(?:instead of|rather than|(?:search|look) for|try|use|"
    r"(?:i would|i'd|you (?:could|can|should|may)|try|let's|please) (?:also )?(?:search|try|use|look)\w*)"
    r"\b.{0,40}[\"\u201c]",
    re.IGNORECASE,
)
_INSTEAD = re.compile(r"\A(?:instead of|rather than) [\"\u201c][^\"\u201d]*[\"\u201d],?\s*", re.IGNORECASE)
_QUOTED = re.compile(r"[\"\u201c]([^\"\u201c\u201d\n]{2,200})[\"\u201d]")


_CONCLUDES = re.compile(
    r"\A(?:thus|therefore|so|hence|consequently|(?:in )?conclusion|in (?:short|sum|summary|brief)|"
    r"to conclude|"
    r"to sum up|summary|overall|finally|all in all)\s?[:\uff1a\u2192]\s*",
    re.IGNORECASE,
)
_CONCLUDED = re.compile(
    r"\b(?:so|therefore|thus|hence|makes|that means)\b[^.!?\n*]{0,80}? (?:is|was|are|were|be|"
    r"it) \*\*([^*\n]{1,80})\*\*\W*\Z",
    re.IGNORECASE,
)
"""The value in bold that a conclusion ends with."""
_RULE_BELOW = re.compile(r"\n\s*(?:-{3,}|\*{3,}|={3,})\s*\n")


def _plain_answer(name: str, text: str) -> str:
    """A bare text without what announces or follows it; "" where it offers several."""
    alone = without_chatter(without_lead(text))
    if is_answer(name):
        alone = _CONCLUDES.sub("", alone.strip())
        alone = _RULE_BELOW.split(alone, maxsplit=1)[0] or alone
    lines = [line.strip() for line in alone.splitlines() if line.strip()]
    if len(lines) > 1 and len(set(lines)) == 1:
        return lines[0]
    heads = [line for line in lines if not BULLET.match(line)]
    items = [BULLET.sub("", line).strip("*_` ") for line in lines if BULLET.match(line)]
    if len([line for line in lines if _CANDIDATE.match(line)]) > 1:
        return ""
    if len(lines) == 1 and name.rpartition("_")[2] == "query" and _PROPOSES.match(alone.strip()):
        quoted = _QUOTED.findall(_INSTEAD.sub("", alone.strip()))
        return quoted[0] if len(quoted) == 1 else ""
    if len(lines) == 1:
        alone = re.sub(
            r"\A(?:>|[-*\u2022]|#{1,6})\s+|\A(?:output|assistant|response|reply|result|ai)\s*:\s*",
            "",
            alone.strip(),
            flags=re.IGNORECASE,
        )
        alone = re.sub(
            r"\A(?:sure|certainly|of course|absolutely|okay|ok|great|(?:good|great) question)[!.]\s+",
            "",
            alone,
            flags=re.IGNORECASE,
        )
    concluded = _CONCLUDED.findall(alone) if is_answer(name) and alone.count("**") == 2 else []
    if len(concluded) == 1 and len(lines) == 1:
        return str(concluded[0])
    bold = re.fullmatch(r"\*\*([^*]+)\*\*", alone.strip())
    alone = bold[1] if bold else alone
    listed = len(items) > 1 and (
        not heads or (len(heads) == 1 and heads[0] == lines[0] and heads[0].endswith(":"))
    )
    if listed and all(len(item) <= 80 for item in items):
        words = all(len(item.split()) <= 2 for item in items)
        return ", ".join(items) if name.endswith("answer") or (words and alone == text and not heads) else ""
    return final_answer(alone) if is_answer(name) else alone
