"""HotpotQA: questions over two Wikipedia articles, with ten passages each.

In the distractor setting both supporting passages are among the ten. In the fullwiki setting the ten are
search results, so supporting ones may be missing and a few questions have no passage at all. The official
test files have no answers and cannot be read.
"""

from __future__ import annotations

from ragc.corpora.datasets.base import Card, Item, passage_of
from ragc.corpora.files.row import FileRow, kind
from ragc.records import Passage, Question

CARD = Card(
    id="hotpotqa",
    about="multi-hop questions over two Wikipedia articles, with the ten passages of the distractor or "
    "fullwiki setting",
    file="hotpot_train_v1.1.json, hotpot_dev_distractor_v1.json or hotpot_dev_fullwiki_v1.json",
    licence="CC BY-SA 4.0",
    home="https://hotpotqa.github.io",
    citation="Zhilin Yang, Peng Qi, Saizheng Zhang, Yoshua Bengio, William W. Cohen, Ruslan Salakhutdinov, "
    "Christopher D. Manning. HotpotQA: A Dataset for Diverse, Explainable Multi-hop Question Answering. "
    "EMNLP 2018.",
    splits={"train": 90_447, "dev_distractor": 7_405, "dev_fullwiki": 7_405},
    metrics=("em", "f1", "acc", "prefrag_acc", "hotpot_em", "hotpot_f1", "rqrag_f1", "sp_em", "sp_f1"),
)


def read(row: FileRow) -> Item:
    """Returns the question of `row` and its passages, whose sentences are concatenated.

    `gold_ids` are all supporting passages, or none if the row lacks any of them, because recall over a part
    would look like recall over all. `extra` has `type`, `level` and `supporting_facts`.
    """
    passages = titled_passages(row, CARD.id, glue="")
    question = Question(
        id=row.text("_id"),
        question=row.text("question"),
        answers=(row.text("answer"),),
        gold_ids=supporting_ids(row, passages),
        context_ids=tuple(passage.id for passage in passages),
        extra=read_nonblank(row, "type", "level") | {"supporting_facts": row.values.get("supporting_facts")},
    )
    return question, passages


def titled_passages(row: FileRow, dataset: str, *, glue: str) -> tuple[Passage, ...]:
    """Returns the passages of the field `context`, a list of [title, sentences], without duplicates, in
    order.

    The field is required and may be an empty list. `glue` joins the sentences of a passage.
    """
    passages = []
    for at, pair in row.enumerate_items(row.items("context", needed=row.values.get("context") != [])):
        match pair:
            case [str(title), [*sentences]] if all(isinstance(sentence, str) for sentence in sentences):
                passages.append(passage_of(dataset, title.strip(), glue.join(sentences).strip()))
            case _:
                row.problems.append(f"`context[{at}]` is not a list of a title and a list of sentences")
    return tuple(dict.fromkeys(passages))


def supporting_ids(row: FileRow, passages: tuple[Passage, ...]) -> tuple[str, ...]:
    """Returns the ids of the passages whose titles are in `supporting_facts`, a list of [title, sentence
    number].

    In the order of the facts, without duplicates; all passages with a named title are included. Empty if a
    title belongs to none of the `passages`.
    """
    titles: dict[str, list[str]] = {}
    for at, fact in row.enumerate_items(row.items("supporting_facts", needed=True)):
        match fact:
            case [str(title), _, *_]:
                titles[title.strip()] = []
            case _:
                what = f"{kind(fact)}, a list of a title and a sentence's number is needed"
                row.problems.append(f"`supporting_facts[{at}]` is {what}")
    for passage in passages:
        if passage.title in titles:
            titles[passage.title].append(passage.id)
    if not all(titles.values()):
        return ()
    return tuple(dict.fromkeys(name for ids in titles.values() for name in ids))


def read_nonblank(row: FileRow, *names: str) -> dict[str, object]:
    """Returns the string fields `names` of `row` that are present and not blank."""
    values = {name: row.text(name, needed=False, blank=True) for name in names}
    return {name: value for name, value in values.items() if value.strip()}
