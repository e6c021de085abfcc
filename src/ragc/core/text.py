"""Retrieved text is data: what a chat template or DSPy would read as a command is defused.

A marker keeps its letters and loses its power: one space is put behind its opening bracket.
"""

from __future__ import annotations

import re
from functools import lru_cache

_MARKERS = re.compile(
    r"<(?=[|｜])"  # <|im_start|>, <|eot_id|> and their full-width kin
    r"|<(?=/?(?:s|bos|eos|start_of_turn|end_of_turn|think|tool_call|tool_response)>)"
    r"|<(?=<(?:/?SYS|CUSTOM-TYPE-(?:START|END)-IDENTIFIER)>>)"
    r"|\[(?=/?INST\])"
    r"|\[(?=\[ ## )",
    re.IGNORECASE,
)


@lru_cache(maxsize=8192)  # one passage is shown to many calls and trials
def neutral(text: str) -> str:
    """`text` with role markers and content markers defused; unchanged when it holds none."""
    return _MARKERS.sub(lambda found: found.group() + " ", text)
