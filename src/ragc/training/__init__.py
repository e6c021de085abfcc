"""Training of small models: data sets made with a recipe's models, questions and passages.

Everything that needs a model or an LM library is imported late; `KINDS` is for the command line.
"""

from __future__ import annotations

from collections.abc import Mapping

KINDS: Mapping[str, str] = {
    "prefrag-dpo": "pairs of PrefRAG's comparison of sources, labelled by the teacher",
    "rqrag-sft": "the teacher's searches and answers as RQ-RAG's trajectories",
    "slimplm-labels": "whether the proxy's draft knows the answer",
    "slimplm-judge": "those labels as conversations of SlimPLM's judge",
    "slimplm-rewrites": "the teacher's parts of questions and claims of drafts",
    "demonstrations": "the demonstrations of a compiled program as conversations",
}
"""What `ragc data` makes, by name."""

FORMATS = ("trl", "llamafactory")
"""For whom the rows of pairs are written; conversations are the same for both."""
