"""The ways in which the outputs are looked for in a reply that is not one JSON object, in their order.

This module is part of exported Python files too: it needs nothing but the standard library of Python 3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragc.programs.calls.frames import (
    Way,
    after_labels,
    after_loose_markers,
    between_markers,
    in_loose_tags,
    in_tags,
)
from ragc.programs.calls.free_text import bare_output, in_line, in_sentences, in_step
from ragc.programs.calls.listings import in_records, in_table

_FREE = (in_table, in_records, after_labels, in_step, in_sentences, in_line, bare_output)


def ways_of(layout: str) -> Sequence[Way]:
    """How the outputs are looked for in a reply of a layout that is not JSON, or not one object, in order."""
    if layout == "xml":
        return (in_tags, in_loose_tags, between_markers, after_loose_markers, *_FREE)
    return (between_markers, after_loose_markers, in_tags, in_loose_tags, *_FREE)
