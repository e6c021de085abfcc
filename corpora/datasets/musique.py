"""MuSiQue-Ans: questions of two to four hops, composed of single-hop ones, with twenty paragraphs each.

Files of MuSiQue-Full can be read too; their unanswerable questions are left out. The official test file has
no answers and cannot be read.
"""

from __future__ import annotations

from ragc.corpora.datasets.base import Card, Item, Skip, passage_of, read_parts
from ragc.corpora.files.row import FileRow, kind
from ragc.records import Passage, Question

CARD = Card(
    id="musique",
    about="questions of 2 to 4 hops composed of single-hop ones, each with twenty paragraphs (MuSiQue-Ans)",
    file="musique_ans_v1.0_train.jsonl or musique_ans_v1.0_dev.jsonl",
    licence="CC BY 4.0",
    home="https://github.com/StonyBrookNLP/musique",
    citation="Harsh Trivedi, Niranjan Balasubramanian, Tushar Khot, Ashish Sabharwal. MuSiQue: Multihop "
    "Questions via Single-hop Question Composition. TACL 10, 2022.",
    splits={"train": 19_938, "dev": 2_417},
    metrics=("em", "f1", "acc", "prefrag_acc", "rqrag_f1", "slim_em", "sp_em", "sp_f1"),
)


def read(row: FileRow) -> Item:
    """Returns the question of `row` and its paragraphs; the answer comes first, then its aliases.

    `gold_ids` are the supporting paragraphs. `extra` has `question_decomposition`. Raises Skip if
    `answerable` is false.
    """
    answerable = row.values.get("answerable", True)
    if answerable is False:
        raise Skip("a question that its paragraphs do not answer is left out (`answerable` is false)")
    if answerable is not True:
        row.problems.append(f"`answerable` is {kind(answerable)}, true or false is needed")
    context_ids, gold_ids, passages = paragraphs(row, CARD.id, text="paragraph_text", needed=True)
    question = Question(
        id=row.text("id"),
        question=row.text("question"),
        answers=tuple(dict.fromkeys((row.text("answer"), *row.texts("answer_aliases")))),
        gold_ids=gold_ids,
        context_ids=context_ids,
        extra={"question_decomposition": row.items("question_decomposition")},
    )
    return question, passages


def paragraphs(
    row: FileRow, dataset: str, *, text: str, needed: bool
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Passage, ...]]:
    """Returns the ids of all passages in the field `paragraphs`, the ids of the supporting ones, and the
    passages.

    Each is an object with `title`, the field `text` and `is_supporting`; at least one when `needed`. Title
    and text may be blank.
    """

    def one(paragraph: FileRow) -> tuple[Passage, bool]:
        supports = paragraph.values.get("is_supporting")
        if not isinstance(supports, bool):
            paragraph.problems.append("`is_supporting` is neither true nor false")
        title = paragraph.text("title", blank=True).strip()
        return passage_of(dataset, title, paragraph.text(text, blank=True).strip()), supports is True

    pairs = read_parts(row, "paragraphs", one, needed=needed)
    passages = {passage.id: passage for passage, _ in pairs}
    gold = dict.fromkeys(passage.id for passage, supports in pairs if supports)
    return tuple(passages), tuple(gold), tuple(passages.values())
