"""Rows of official files that no map alone describes, prepared for the maps of their cards, by data set."""

from __future__ import annotations

import html
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import from_json

from ragc.corpora.datasets.base import Skip, passage_of
from ragc.corpora.files.records import Words, leaves
from ragc.corpora.files.values import as_list

# The letters of options that are numbered.
_LETTERS = dict(zip("12345", "ABCDE", strict=True))
Letter = Annotated[
    Literal["A", "B", "C", "D", "E"],
    BeforeValidator(lambda label: _LETTERS.get(str(label).strip(), str(label).strip())),
]


class _Articles(BaseModel):
    context: list[tuple[str, list[str]]]
    supporting_facts: Annotated[list[tuple[str, Any]], Field(min_length=1)]


class _Option(BaseModel):
    label: Letter
    text: Words


class _Options(BaseModel):
    stem: Words
    choices: Annotated[list[_Option], Field(min_length=1)]
    answerKey: Letter  # noqa: N815 - the official name


class _Snippet(BaseModel):
    document: str
    text: str = ""


class _Snippets(BaseModel):
    type: Literal["yesno", "factoid", "list", "summary"]
    documents: list[str] = []
    snippets: list[_Snippet] = []


class _Page(BaseModel):
    page_url: str | None = None
    page_result: str | None = None
    page_snippet: str | None = None
    page_last_modified: str | None = None
    page_name: str | None = None


class _Pages(BaseModel):
    query_time: Words
    split: Literal[0, 1] | None = None
    search_results: list[_Page] | None = None


def hotpotqa(values: dict[str, Any], dataset: str) -> dict[str, Any]:
    """Prepares questions over several Wikipedia articles, of HotpotQA and 2WikiMultiHopQA.

    In HotpotQA's distractor setting both supporting passages are among the ten. In its fullwiki setting the
    ten are search results, so supporting ones may be missing and a few questions have no passage at all.
    `gold_ids` are all supporting passages, or none if the row lacks any of them, because recall over a part
    would look like recall over all. In JSON lines derived from 2WikiMultiHopQA the nested fields may be JSON
    text, and questions without passages are left out. The official test files have no answers.
    """
    values = {name: value for name, value in values.items() if value != ""}
    for name in ("context", "supporting_facts", "evidences", "evidences_id"):
        with suppress(LookupError, TypeError, ValueError):  # only JSON text is replaced
            values[name] = from_json(values[name])
    if dataset != "hotpotqa" and not values.get("context"):
        raise Skip("a question without passages is left out (`context` is missing or empty)")
    row, glue = _Articles.model_validate(values), "" if dataset == "hotpotqa" else " "
    passages = [passage_of(dataset, title, glue.join(sentences)) for title, sentences in row.context]
    titles = dict.fromkeys(title.strip() for title, _ in row.supporting_facts)
    gold = [[part.id for part in passages if part.title == title and part.text] for title in titles]
    context = [{"title": passage.title, "text": passage.text} for passage in passages]
    return values | {"context": context, "gold_ids": [id for ids in gold for id in ids] if all(gold) else []}


def options(values: dict[str, Any], dataset: str) -> dict[str, Any]:
    """Prepares the science questions of ARC and OpenBookQA: options stand below, and the answer is a letter.

    The official form has `stem` and `choices` in the object `question`. That of Hugging Face, with lists of
    `text` and `label` in `choices`, is read too. The options become `choices`, by letter.
    """
    stem = values.pop("question_stem", values.get("question"))
    inner = dict(stem) if isinstance(stem, dict) else {"stem": stem, "choices": values.get("choices")}
    if isinstance(lists := inner.get("choices"), dict):
        labels, texts = (as_list(lists.get(name), cells=False) for name in ("label", "text"))
        if len(labels) != len(texts):
            raise ValueError("`choices` has other numbers of texts and of labels")
        inner["choices"] = [{"label": labels[n], "text": text} for n, text in enumerate(texts)]
    row = _Options.model_validate({**values, **inner})
    choices = {option.label: option.text for option in row.choices}
    if len(choices) < len(row.choices):
        raise ValueError("two options have the same label")
    if row.answerKey not in choices:
        raise ValueError(f"`answerKey` is option {row.answerKey}, and the options are {', '.join(choices)}")
    lines = [row.stem.strip(), *(f"{letter}. {text}" for letter, text in choices.items())]
    return values | {"question": "\n".join(lines), "choices": choices, "answerKey": row.answerKey}


def bioasq(values: dict[str, Any], dataset: str) -> dict[str, Any]:
    """Prepares biomedical questions of BioASQ's task B; the PMIDs of documents are titles of snippets.

    The answers are all texts of `exact_answer`: `yes` or `no`, the names of a factoid, or the items of a list
    with their synonyms. Summaries have none; their answers are the ideal answers.
    """
    row = _Snippets.model_validate({name: value for name, value in values.items() if value is not None})
    answers = list(leaves(values.get("ideal_answer" if row.type == "summary" else "exact_answer")))
    if row.type == "yesno":
        answers = [str(answer).strip().rstrip(".").lower() for answer in answers]
        if wrong := [answer for answer in answers if answer not in ("yes", "no", "")]:
            raise ValueError(f"`exact_answer` is {wrong[0]!r:.80}, yes or no is needed")
    snippets = [
        {
            "title": f"PMID {name}" if (name := _last_part(part.document)).isdecimal() else name,
            "text": part.text,
        }
        for part in row.snippets
    ]
    return values | {
        "answers": answers,
        "documents": [_last_part(url) for url in row.documents],
        "snippets": snippets,
    }


def _last_part(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]


def crag(values: dict[str, Any], dataset: str) -> dict[str, Any]:
    """Prepares questions of CRAG (KDD Cup 2024), RM3QA's base, with the text of the web pages found for them.

    The answers are `answer`, which may be `invalid question`, and its alternatives. An empty page is replaced
    by its snippet. `pages` has every passage's id, address and date. Raises UsageError when the extra for
    HTML is not installed.
    """
    from ragc.corpora.sources.web.html import markdown

    row = _Pages.model_validate(values)
    answers: list[Any] = []
    for name in ("answer", "alt_ans", "alternative_answers"):  # alternatives may be spelled, as in `"[]"`
        listed = as_list(values.get(name), cells=name != "answer")
        answers += [answer.strip() if isinstance(answer, str) else answer for answer in listed]
    results, pages = [], {}
    for page in row.search_results or ():
        url, content, snippet, changed, title = ((text or "").strip() for _, text in page)
        text = markdown(content).strip() if content else ""
        passage = passage_of(dataset, title, text or html.unescape(snippet))
        results.append({"title": passage.title, "text": passage.text})
        if passage.text:
            pages[passage.id] = {"id": passage.id, "url": url, "last_modified": changed}
    return values | {
        "answers": answers,
        "split": "" if row.split is None else ("dev", "test")[row.split],
        "search_results": results,
        "pages": list(pages.values()),
    }


PREPARE = {
    "hotpotqa": hotpotqa,
    "2wikimultihopqa": hotpotqa,
    "arc_challenge": options,
    "openbookqa": options,
    "bioasq": bioasq,
    "crag": crag,
}
"""The function for the rows of each data set that has one."""
