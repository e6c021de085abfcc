"""The parsers of a reply that is not one JSON object, in the order in which they are tried.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragc.programs.calls.reading.labels import parse_inline_labels, parse_labels
from ragc.programs.calls.reading.listings import parse_call, parse_records, parse_table
from ragc.programs.calls.reading.markers import parse_loose_markers, parse_markers
from ragc.programs.calls.reading.parsed import Parser
from ragc.programs.calls.reading.sentences import parse_bare_value, parse_sentences
from ragc.programs.calls.reading.steps import parse_step
from ragc.programs.calls.reading.tags import parse_loose_tags, parse_tags

_FREE = (
    parse_call,
    parse_table,
    parse_records,
    parse_labels,
    parse_step,
    parse_sentences,
    parse_inline_labels,
    parse_bare_value,
)


def parsers_for(layout: str) -> Sequence[Parser]:
    """The parsers of a reply of `layout`, in the order in which they are tried."""
    if layout == "xml":
        return (parse_tags, parse_loose_tags, parse_markers, parse_loose_markers, *_FREE)
    return (parse_markers, parse_loose_markers, parse_tags, parse_loose_tags, *_FREE)
