"""Signatures: what is asked of a language model, one stage a file.

A signature's docstring and field descriptions are the prompt. Notes to developers stand in the
module's docstring.
"""

from __future__ import annotations

import sys

from ragc.errors import UsageError

if sys.flags.optimize > 1:
    raise UsageError(
        "The prompts of ragc are docstrings, and Python was started without docstrings (-OO, or "
        "PYTHONOPTIMIZE=2); start it without that option, or with -O."
    )
