"""Three programs with demonstrations, and their prompts in every form that `[prompts]` of a recipe reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs import method
from ragc.programs.base import RagProgram
from tests.exports.common import build_program

FORMS: Mapping[str, tuple[str, str]] = {
    "openai-json": ("openai-json", "minimal"),
    "jinja2": ("jinja2", "minimal"),
    "openai-json-chat": ("openai-json", "chat"),
    "jinja2-xml": ("jinja2", "xml"),
    "openai-json-json": ("openai-json", "json"),
    "array": ("openai-json", "minimal"),
    "request": ("jinja2", "chat"),
    "template": ("", "minimal"),
}
"""Form by name: the exported format behind it, and the layout of the program.

`array` is a bare array of messages, `request` the body of a chat request, `template` a hand-written text.
"""

_NILE = "Nile: The Nile is about 6,650 km long and flows into the Mediterranean Sea."
_BRIDGE = "Tower Bridge: Tower Bridge in London was opened in 1894 by the Prince of Wales."
_BOOK = "Emma: Emma is a novel by Jane Austen, published in December 1815."

DEMONSTRATIONS: Mapping[str, Mapping[str, list[dict[str, Any]]]] = {
    "vanilla": {
        "answer": [
            {"question": "How long is the Nile?", "passages": [_NILE, _BOOK], "answer": "about 6,650 km"},
            {"question": "When was Tower Bridge opened?", "passages": [_BRIDGE], "answer": "1894"},
            {"question": "Who wrote Emma?", "passages": [_NILE, _BOOK], "answer": "Jane Austen"},
        ]
    },
    "prefrag": {
        "compare": [
            {
                "question": "Who opened Tower Bridge?",
                "known": f"[1] {_NILE}",
                "new": f"[2] {_BRIDGE}",
                "analysis": "They add who opened the bridge.",
                "status": True,
            },
            {
                "question": "Who opened Tower Bridge?",
                "known": f"[1] {_BRIDGE}",
                "new": f"[2] {_BOOK}",
                "analysis": "They are about a novel.",
                "status": False,
            },
        ],
        "answer": [
            {
                "question": "When was Emma published?",
                "trajectory": [f'search local "Emma novel"\n{_BOOK}'],
                "answer": "December 1815",
            }
        ],
    },
    "ggatrieval": {
        "condense": [
            {"question": "How long is the Nile?", "document": _NILE, "summary": "It is about 6,650 km long."},
            {"question": "Who wrote Emma?", "document": _BRIDGE, "summary": "irrelevant"},
        ],
        "select": [
            {"question": "Who wrote Emma?", "k": 2, "documents": [_NILE, _BOOK, _BRIDGE], "ids": [2]},
        ],
        "answer": [
            {
                "question": "How long is the Nile?",
                "passages": [_BOOK, _NILE],
                "answer": "The Nile is about 6,650 km long [2].",
            }
        ],
    },
}
"""Demonstrations by program and predictor."""

TEMPLATES: Mapping[str, Mapping[str, str]] = {
    "vanilla": {
        "answer": (
            "You are the help desk of a library. Answer from the passages below.\n"
            "If they do not settle it, say which one comes closest.\n\n"
            "Passages:\n"
            "{% for p in passages %}[{{ loop.index }}] {{ p }}\n{% endfor %}\n"
            "Question: {{ question }}\n"
        )
    },
    "prefrag": {
        "answer": (
            "Answer the question from the steps that were taken.\n"
            "Give a year as four digits.\n\n"
            "Question: {{ question }}\n"
            "Steps taken: {{ trajectory }}\n"
            "Answer:"
        )
    },
    "ggatrieval": {
        "condense": (
            "Shorten the document to what it says about the question, in two sentences.\n\n"
            "### Document\n{{ document }}\n\n"
            "### Question\n{{ question }}\n"
        )
    },
}
"""Hand-written text templates by program and predictor."""


def blank(id: str, form: str) -> RagProgram:
    """The program `id` in the layout of `form` without demonstrations, to import a prompt into."""
    return build_program(method(id), layout=FORMS[form][1])


@cache
def files(id: str, form: str) -> Mapping[str, tuple[str, str]]:
    """The prompts of the program `id` in `form`: predictor and text by file name."""
    format, _ = FORMS[form]
    if not format:
        return {f"{name}.jinja": (name, text) for name, text in TEMPLATES[id].items()}
    program = blank(id, form)
    for name, call in program.named_predictors():
        call.demos = [dict(demo) for demo in DEMONSTRATIONS[id].get(name, ())]
    exported = derive_export(program)
    written = format_of(format).files(exported)
    suffix = format_of(format).suffix
    return dict(_in_form(form, {p.name: written[f"{p.name}{suffix}"] for p in exported}, suffix))


def _in_form(form: str, written: Mapping[str, bytes], suffix: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for name, content in written.items():
        document = json.loads(content)
        if form == "array":
            shown = json.dumps(document["request"]["messages"], indent=2, ensure_ascii=False)
            yield f"{name}.json", (name, shown)
        elif form == "request":
            body = {"messages": document["messages"], **document["parameters"]}
            yield f"{name}.json", (name, json.dumps(body, indent=2, ensure_ascii=False))
        else:
            yield f"{name}{suffix}", (name, content.decode())
