"""Ragas' own scores of verdict tables: reads JSON from stdin, writes a list a table. Runs where ragas is."""

from __future__ import annotations

import asyncio
import json
import sys
from types import SimpleNamespace as Row
from typing import Any

from ragas.metrics._answer_correctness import AnswerCorrectness
from ragas.metrics._answer_relevance import ResponseRelevancy
from ragas.metrics._context_precision import LLMContextPrecisionWithoutReference
from ragas.metrics._context_recall import LLMContextRecall
from ragas.metrics._faithfulness import Faithfulness


class Vectors:
    """An embedder that gives the vectors of a table."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.table = table

    def embed_query(self, text: str) -> Any:
        return self.table["question"]

    def embed_documents(self, texts: list[str]) -> Any:
        return self.table["written"]


class Fixed:
    """Replies as Ragas' prompts and its similarity would: the claims and verdicts of a table."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)

    async def generate(self, **_: Any) -> Any:
        return self.replies.pop(0)

    async def single_turn_ascore(self, *_: Any, **__: Any) -> Any:
        return self.replies.pop(0)


def correctness(table: dict[str, Any]) -> float:
    """Scores by the whole metric, with its prompts replaced."""
    metric = AnswerCorrectness()
    answer, reference = table["answer"], table["reference"]
    metric.llm = Row()
    metric.statement_generator_prompt = Fixed(
        Row(statements=[f"claim {one}" for one in answer]),
        Row(statements=[f"claim {one}" for one in reference]),
    )
    metric.correctness_prompt = Fixed(
        Row(
            TP=[one for one in answer if one],
            FP=[one for one in answer if not one],
            FN=[one for one in reference if not one],
        )
    )
    metric.answer_similarity = Fixed(table["cosine"])
    return float(
        asyncio.run(metric._ascore({"user_input": "q", "response": "a", "reference": "r"}, callbacks=None))
    )


def scores(table: dict[str, Any]) -> list[float]:
    """Returns faithfulness, context recall, context precision, relevancy and correctness."""
    held = table["verdicts"]
    asking = ResponseRelevancy()
    asking.embeddings = Vectors(table)
    written = [
        Row(question=f"q{n}", noncommittal=int(table["evasive"])) for n in range(len(table["written"]))
    ]
    return [
        float(Faithfulness()._compute_score(Row(statements=[Row(verdict=int(one)) for one in held]))),
        float(LLMContextRecall()._compute_score([Row(attributed=int(one)) for one in held])),
        float(
            LLMContextPrecisionWithoutReference()._calculate_average_precision(
                [Row(verdict=int(one)) for one in held]
            )
        ),
        float(asking._calculate_score(written, {"user_input": "q"})),
        correctness(table),
    ]


json.dump([scores(table) for table in json.load(sys.stdin)], sys.stdout)
