"""A metric that promptfoo runs: the answer in a reply against the gold answers of its test.

This file is written beside the tests of an export and needs Python alone. `config` of the assertion names
the metric, the field of the reply that holds the answer, how the reply is written, and the golds. The score
is that of ragc's metric of the same name, 0 for a reply that cannot be read.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

_DELETE_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_VERDICTS = frozenset({"yes", "no", "noanswer"})
_LETTERS = dict(zip("12345", "ABCDE", strict=True))


def get_assert(output: Any, context: Mapping[str, Any]) -> float:
    """The score of a reply, 0..1; what promptfoo calls."""
    config = context["config"]
    answer = answer_in(output, config["field"], config["style"])
    return 0.0 if answer is None else METRICS[config["metric"]](answer, config["golds"])


def answer_in(output: Any, field: str, style: str) -> str | None:
    """The text of `field` in a reply written in `style` (json, markers, tags); None where there is none."""
    fields = _READ[style](output) if isinstance(output, str) else output
    value = fields.get(field) if isinstance(fields, Mapping) else None
    return value if isinstance(value, str) else None


def _object(reply: str) -> Any:
    """The JSON object in `reply`, prose around it cut off."""
    for text in (reply, reply[reply.find("{") : reply.rfind("}") + 1]):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            continue
    return None


def _markers(reply: str) -> dict[str, str]:
    """The values after lines that begin with `[[ ## name ## ]]`, the first of each name."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in reply.splitlines():
        if begins := re.match(r"\[\[ ## (\w+) ## \]\]", line.strip()):
            parts.append((begins[1], [line.strip()[begins.end() :].strip()]))
        else:
            parts[-1][1].append(line)
    return {name: "\n".join(lines).strip() for name, lines in reversed(parts)}


def _tags(reply: str) -> dict[str, str] | None:
    """The text between tags by their name, the first of each; None for what is no XML."""
    try:
        root = ET.fromstring(f"<reply>{reply}</reply>")  # noqa: S314 - inside an element no entity can be declared
    except ET.ParseError:
        return None
    return {one.tag: "".join(one.itertext()).strip() for one in reversed(root)}


_READ: Mapping[str, Callable[[str], Any]] = {"json": _object, "markers": _markers, "tags": _tags}


def _normalise(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_DELETE_PUNCTUATION)).split())


def _em(answer: str, golds: Sequence[str]) -> float:
    return float(_normalise(answer) in map(_normalise, golds))


def _f1(answer: str, golds: Sequence[str]) -> float:
    return max((_overlap(_normalise(answer), _normalise(gold)) for gold in golds), default=0.0)


def _hotpot_f1(answer: str, golds: Sequence[str]) -> float:
    mine, scores = _normalise(answer), [0.0]
    for gold in map(_normalise, golds):
        verdict = mine != gold and (mine in _VERDICTS or gold in _VERDICTS)
        scores.append(0.0 if verdict or not mine or not gold else _overlap(mine, gold))
    return max(scores)


def _overlap(mine: str, gold: str) -> float:
    if not mine or not gold:
        return float(mine == gold)
    tokens, wanted = mine.split(), gold.split()
    shared = sum((Counter(tokens) & Counter(wanted)).values())
    return 2 * shared / (len(tokens) + len(wanted))


def _acc(answer: str, golds: Sequence[str]) -> float:
    mine = _normalise(answer)
    return float(any(wanted in mine for gold in golds if (wanted := _normalise(gold))))


def _match(answer: str, golds: Sequence[str]) -> float:
    return float(any(gold.lower() in answer.lower() for gold in golds))


def _bioasq_acc(answer: str, golds: Sequence[str]) -> float:
    text = answer.lower()
    return float(any(re.search(rf"\b{re.escape(gold.lower())}\b", text) for gold in golds))


def _choice_acc(answer: str, golds: Sequence[str]) -> float:
    choice, right = answer.strip(), [gold.strip() for gold in golds]
    return float(any(choice in (gold, _LETTERS.get(gold, gold)) for gold in right if gold))


def _slim_em(answer: str, golds: Sequence[str]) -> float:
    mine = _normalise(answer)
    return sum(_normalise(gold) in mine for gold in golds) / len(golds) if golds else 0.0


def _hit1(answer: str, golds: Sequence[str]) -> float:
    return float(_slim_em(answer, golds) > 0)


METRICS: Mapping[str, Callable[[str, Sequence[str]], float]] = {
    "em": _em,
    "f1": _f1,
    "acc": _acc,
    "hotpot_em": _em,
    "hotpot_f1": _hotpot_f1,
    "prefrag_acc": _match,
    "bioasq_acc": _bioasq_acc,
    "choice_acc": _choice_acc,
    "popqa_match": _match,
    "slim_em": _slim_em,
    "hit1": _hit1,
}
"""Each metric that needs a text and its golds alone, by its id in ragc."""
