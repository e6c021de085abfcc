"""The commands of `ragc`, one file each: its arguments, their help, and what it does.

Each file has a function `register`, which adds the arguments to the parser of its command and sets `run`, a
function from the parsed arguments to the exit code. A file is imported when its command runs or prints its
help.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COMMANDS: Mapping[str, str] = {
    "new": "make a corpus, questions and a recipe of a folder of documents",
    "questions": "review questions that were written, or label answers, in a terminal",
    "compile": "search for the best program of a recipe and prove it on test",
    "headroom": "measure on a few dev questions what a study of a recipe can show",
    "ask": "answer one question",
    "serve": "answer questions over HTTP, as OpenAI's interface does",
    "mcp": "offer a program and its sources to agents as tools",
    "eval": "score a program on a split",
    "gate": "tell whether a program is shown to lose less than is allowed against another",
    "export": "write a compiled program's prompts for other systems",
    "pack": "write a compiled program and what it reads as one file for another machine",
    "trust": "see what a compiled program would do, and trust it on this machine",
    "pull": "fetch the models of a recipe or program ahead, for a machine without a network",
    "index": "build the indexes that a recipe's program searches",
    "grid": "evaluate the listed settings of a recipe on its dev questions, as a table",
    "data": "make training data for small models from a recipe's train questions",
    "reproduce": "run a table of a paper on your models, or list the tables",
    "train": "fine-tune a model on rows of training data, or prepare a base for it",
    "study": "see the progress of a study",
    "report": "write what was measured as one HTML file to open offline",
    "list": "names that recipes can use",
    "schema": "print the JSON Schema of recipes, for editors that complete and check them",
    "doctor": "check this machine, what it keeps, and what the targets of a recipe can do",
}
"""Each command, named as its file, with one line about it, in the order of `ragc --help`."""

SETS: dict[str, Any] = {
    "metavar": "KEY=VALUE",
    "dest": "sets",
    "action": "append",
    "default": [],
    "help": "override a recipe's key",
}
INCLUDE_SEEN: dict[str, Any] = {
    "action": "store_true",
    "help": "score test questions that were used as train or dev before too, and say so",
}
BASE: dict[str, Any] = {"metavar": "DIR", "help": "where relative paths of its recipe lead"}
TRUST_TARGETS: dict[str, Any] = {
    "action": "store_true",
    "help": "of a program from elsewhere: allow its addresses and variables",
}
TRUST_CODE: dict[str, Any] = {
    "action": "store_true",
    "help": "of a program from elsewhere: allow the programs and servers it starts",
}
"""Options that several commands take, as `add_argument` takes them."""
