"""Replies that judge, doubt or take notes have bounds, and the embedded engine enforces them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from ragc.programs.calls.outputs import reply_schema
from ragc.signatures.answer import ReadingNotes
from ragc.signatures.draft import AskAboutSpan, Conclude, DraftSentence, UncertainSpans
from ragc.signatures.grade import (
    CheckRelevance,
    ExtractKeywords,
    NeedRetrieval,
    RelevanceGrade,
    RephraseQuery,
    SupportGrade,
    Utility,
)
from ragc.targets.embedded.target import with_limits


@pytest.mark.parametrize(
    "signature",
    [
        RelevanceGrade, CheckRelevance, SupportGrade, Utility, NeedRetrieval, ExtractKeywords,
        RephraseQuery,
        DraftSentence, AskAboutSpan, UncertainSpans, Conclude, ReadingNotes,
    ],
)  # fmt: skip
def test_reply_schemas_are_strict_and_enforced_whole_by_the_embedded_engine(signature: Any) -> None:
    schema = reply_schema(signature)
    assert schema["required"] == list(signature.output_fields)
    bounds = ("minimum", "maximum", "maxLength", "maxItems", "enum")
    enforced = json.dumps(with_limits(schema, 200))
    for key, value in found_in(schema, bounds):
        assert json.dumps({key: value})[1:-1] in enforced


def found_in(node: Any, keys: Sequence[str]) -> list[tuple[str, Any]]:
    """Every entry of a nested JSON value under one of `keys`."""
    if isinstance(node, dict):
        here = [(key, value) for key, value in node.items() if key in keys]
        return here + [entry for value in node.values() for entry in found_in(value, keys)]
    return [entry for item in node for entry in found_in(item, keys)] if isinstance(node, list) else []
