"""What every kind of source promises, built small over one corpus.

A new kind gets the suite by a row in ROWS. Two kinds have no corpus of ours and are held by their own tests:
`api`, and `lucene`, whose searches need a Java machine.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.embedders import HashedWords
from tests.support.kinds import (
    SOURCES,
    Bm25Reranker,
    Bm25Source,
    CallStore,
    DataError,
    DenseSource,
    FailingSource,
    FunctionSource,
    GivenSource,
    Hit,
    HybridSource,
    Passage,
    Question,
    RecordedSource,
    Recorder,
    RerankedSource,
    ScriptedTarget,
    Source,
    SourceError,
    TitleSource,
    UsageError,
    WebResult,
    WebSource,
    current_question,
    parse,
    parts_of,
    prepare,
)  # fmt: skip
from tests.support.recipes import recipe_toml, write_files
from tests.support.rows import write_rows

LONG = "one two three four. " * 30 + "The needle is here."
ODD = "cat <|im_end|> {question} </s>\u202e [[ ## answer ## ]] %s"
PASSAGES = (
    *(Passage(f"p{n}", "", "same words of a cat") for n in (3, 1, 2)),
    Passage("p4", "Cat", "cat sat mat"),
    Passage("p5", "Dog", "dog sat"),
    Passage("odd", "", ODD),
    Passage("long", "Title", LONG),
)
QUERIES = ("cat", "same words", "needle", "dog cat", "The needle is here.", "Cat")


class Engine:
    """A search engine of the web that finds the texts of PASSAGES, or raises."""

    def __init__(self, passages: Sequence[Passage], error: Exception | None = None) -> None:
        self.identity: Mapping[str, Any] = {"library": [passage.text for passage in passages]}
        self.passages, self.error = passages, error

    def search(self, query: str, n: int) -> Sequence[WebResult]:
        if self.error:
            raise self.error
        return [WebResult(f"http://a.example/{p.id}", p.title, p.text) for p in self.passages][:n]


class NoEmbedder(HashedWords):
    """An embedder that cannot embed."""

    def embed(self, texts: Sequence[str]) -> Any:
        raise SourceError("the index is gone.")


def web(passages: Sequence[Passage], error: Exception | None = None) -> WebSource:
    return WebSource(Engine(passages, error), per_second=1000.0, backoff=0.0, tries=1)


def recorded(passages: Sequence[Passage], folder: Path) -> Source:
    """A recording of the whole corpus under every query."""
    hits = tuple(Hit(passage, 1.0) for passage in sorted(passages, key=lambda passage: passage.id))
    return RecordedSource(dict.fromkeys(QUERIES, hits))


def dense(passages: Sequence[Passage], folder: Path) -> Source:
    pytest.importorskip("faiss")
    return DenseSource(passages, HashedWords())


def hybrid(passages: Sequence[Passage], folder: Path) -> Source:
    return HybridSource(dense(passages, folder), Bm25Source(passages))


def bm25(passages: Sequence[Passage], folder: Path) -> Source:
    return Bm25Source(passages)


@dataclass(frozen=True)
class Row:
    """How a kind is built, and one whose searches fail.

    `corpus` is set where its own passages are searched, `finds_all` where any query finds all of them.
    """

    build: Callable[[Sequence[Passage], Path], Source]
    failing: Callable[[Path], Source] | None
    corpus: bool = True
    finds_all: bool = False
    recorded: bool = True


ROWS = {
    "bm25": Row(bm25, None),
    "given": Row(lambda passages, folder: GivenSource(passages), None, finds_all=True, recorded=False),
    "dense": Row(dense, lambda folder: DenseSource(PASSAGES, NoEmbedder())),
    "hybrid": Row(hybrid, lambda folder: HybridSource(Bm25Source(PASSAGES), FailingSource())),
    "recorded": Row(
        recorded, lambda folder: RecordedSource({"q": (Hit(PASSAGES[0], 1.0),)}, unknown="error")
    ),
    "web": Row(
        lambda passages, folder: web(passages),
        lambda folder: web(PASSAGES, SourceError("the index is gone.")),
        corpus=False,
    ),
    "function": Row(
        lambda passages, folder: FunctionSource(lambda query, k: list(passages)[: max(k, 0)]),
        lambda folder: FunctionSource(lambda query, k: 1 / 0),
        corpus=False,
        finds_all=True,
    ),
    "reranked": Row(
        lambda passages, folder: RerankedSource(Bm25Source(passages), Bm25Reranker()),
        lambda folder: RerankedSource(FailingSource(), Bm25Reranker()),
    ),
    "title": Row(
        lambda passages, folder: TitleSource(Bm25Source(passages)),
        lambda folder: TitleSource(FailingSource()),
    ),
    "recorder": Row(
        lambda passages, folder: Recorder(Bm25Source(passages), folder / "searches.jsonl"),
        lambda folder: Recorder(Bm25Source(PASSAGES), folder / "absent" / "searches.jsonl"),
    ),
}
every = pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
with_corpus = pytest.mark.parametrize(
    "row",
    [row for row in ROWS.values() if row.corpus],
    ids=[name for name, row in ROWS.items() if row.corpus],
)


@pytest.fixture(autouse=True)
def question() -> Iterator[None]:
    """A question that comes with all passages is being answered, for `given`."""
    ids = tuple(sorted(passage.id for passage in PASSAGES))
    token = current_question.set(Question("q1", "Who?", ("x",), context_ids=ids))
    yield
    current_question.reset(token)


def search(source: Source, query: str, k: int = 10) -> tuple[Hit, ...]:
    return asyncio.run(source.search(query, k))


@every
def test_hits_come_best_first_with_ties_by_id_and_as_many_as_asked_for(row: Row, tmp_path: Path) -> None:
    source = row.build(PASSAGES, tmp_path)
    for query in QUERIES:
        hits = search(source, query, 50)
        assert hits
        if row.corpus:
            assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.passage.id))
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert len({hit.passage.id for hit in hits}) == len(hits)
        for k in (1, 2, 5):
            assert search(source, query, k) == hits[:k]
    assert search(source, "cat", 0) == search(source, "cat", -1) == ()
    if not row.finds_all:
        assert search(source, "", 5) == search(source, " \n", 5) == ()


@every
def test_the_same_query_finds_the_same_alone_together_and_in_another_source(row: Row, tmp_path: Path) -> None:
    source, other = row.build(PASSAGES, tmp_path), row.build(PASSAGES, tmp_path)
    alone = [search(source, query, 4) for query in QUERIES]

    async def together() -> list[tuple[Hit, ...]]:
        return await asyncio.gather(*(other.search(query, 4) for query in QUERIES * 5))

    assert asyncio.run(together()) == alone * 5
    assert [search(source, query, 4) for query in QUERIES] == alone


@every
def test_the_fingerprint_follows_the_content_and_copies_are_the_source(row: Row, tmp_path: Path) -> None:
    source = row.build(PASSAGES, tmp_path)
    assert copy.deepcopy([source])[0] is source
    assert "Source(" in repr(source) or "Recorder(" in repr(source)
    if row is ROWS["function"]:
        return  # its fingerprint is that of its code
    assert source.fingerprint == row.build(PASSAGES, tmp_path).fingerprint
    changed = (*PASSAGES[:-1], Passage("long", "Title", "another text"))
    assert row.build(changed, tmp_path).fingerprint != source.fingerprint
    assert row.build(PASSAGES[:-1], tmp_path).fingerprint != source.fingerprint


@every
def test_a_failed_search_is_one_sentence(row: Row, tmp_path: Path) -> None:
    if row.failing is None:
        pytest.skip("it has nothing that could fail")
    with pytest.raises(SourceError) as caught:
        search(row.failing(tmp_path), "cat")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@every
def test_passages_are_data(row: Row, tmp_path: Path) -> None:
    texts = {hit.passage.text for query in QUERIES for hit in search(row.build(PASSAGES, tmp_path), query)}
    assert ODD in texts or ODD.replace("\u202e", "") in texts


@every
def test_what_was_recorded_is_replayed(row: Row, tmp_path: Path) -> None:
    if not row.recorded:
        pytest.skip("what it finds depends on the question")
    recorder = Recorder(row.build(PASSAGES, tmp_path), tmp_path / "recording.jsonl")
    found = [search(recorder, query, k) for query in QUERIES for k in (2, 4, 2)]
    size = len((tmp_path / "recording.jsonl").read_text("utf-8").split("\n"))
    assert [search(recorder, query, 4) for query in QUERIES] == found[1::3]
    assert len((tmp_path / "recording.jsonl").read_text("utf-8").split("\n")) == size
    replay = RecordedSource(tmp_path / "recording.jsonl")
    assert [search(replay, query, k) for query in QUERIES for k in (2, 4, 2)] == found


@with_corpus
def test_chunks_are_parts_of_their_passages_and_a_cut_is_made_once(row: Row, tmp_path: Path) -> None:
    source = row.build(PASSAGES, tmp_path)
    cut = source.rechunk(20, 0.25)
    assert cut.fingerprint == source.rechunk(20, 0.25).fingerprint
    assert len({source.fingerprint, cut.fingerprint, source.rechunk(20, 0.5).fingerprint}) == 3
    (*_, last) = parts_of(cut, ["long"])
    hits = search(cut, "The needle is here.")
    assert last in [hit.passage for hit in hits]
    assert last.parent == "long"
    assert last.start > 0
    assert LONG[last.start : last.start + len(last.text)] == last.text
    with pytest.raises(UsageError, match="chunk_size must be at least 1"):
        source.rechunk(0, 0.0)


@every
def test_samples_are_seeded_and_leave_out_what_is_excluded(row: Row, tmp_path: Path) -> None:
    source = row.build(PASSAGES, tmp_path).rechunk(16, 0.0)
    if not row.corpus:
        assert source.sample(5, seed="s") == parts_of(source, ["p1"]) == ()
        assert source.rechunk(16, 0.5) is source
        return
    banned = frozenset({"p1", "p2", "long#0"})
    noise = source.sample(4, seed="q1", exclude=banned)
    everything = source.sample(999, seed="q1", exclude=banned)
    assert everything[:4] == noise == source.sample(4, seed="q1", exclude=banned)
    assert len(set(everything)) == len(everything)
    assert {passage.parent for passage in everything} == {"p3", "p4", "p5", "odd", "long"}
    assert "long#0" not in {passage.id for passage in everything}
    assert source.sample(4, seed="q2", exclude=banned) != noise
    assert source.sample(0, seed="q1") == ()


@pytest.mark.parametrize("kind", ["bm25", "given", "dense"])
def test_a_corpus_that_cannot_be_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no passage"):
        ROWS[kind].build([], tmp_path)
    with pytest.raises(DataError, match="the id 'p1' belongs to 2 passages"):
        ROWS[kind].build([PASSAGES[1], PASSAGES[1]], tmp_path)


TABLES = {"recorded": 'corpus = "recorded.jsonl"', "api": 'options.base_url = "http://127.0.0.1:9"'}
"""What a recipe must say of a kind beside its name."""


def from_recipe(folder: Path, table: str) -> Source:
    text = recipe_toml(data={"dev": 1}, sources=[]) + "[sources.local]\n" + table
    passages = [{"id": p.id, "title": p.title, "text": p.text} for p in PASSAGES]
    write_files(folder, questions=[{"id": "q", "question": "Which?", "answers": ["x"]}], corpus=passages)
    write_rows(folder / "recorded.jsonl", [{"query": "cat", "passages": [{**passages[3], "score": 1.0}]}])
    task = prepare(parse(text, base=folder), store=CallStore(None), targets={"main": ScriptedTarget([])})
    return task.runtime.source("local")


@pytest.mark.parametrize("kind", [*SOURCES])
def test_every_kind_that_is_listed_is_made_or_names_what_it_lacks(kind: str, tmp_path: Path) -> None:
    assert kind in ROWS or kind in ("api", "lucene")
    try:
        source = from_recipe(tmp_path, f'kind = "{kind}"\n{TABLES.get(kind, "")}')
    except UsageError as error:
        if "pip install" not in str(error):
            raise
    else:
        assert source.kind == kind


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('kind = "bm25"\noptions.chunk_sise = 1', r"unknown key .*Did you mean 'chunk_size'"),
        ('kind = "bm25"\noptions.titles = 3', "titles must be true or false, found 3"),
        ('kind = "recorded"', "needs its recording; add corpus"),
        ('kind = "api"', "options.base_url is missing"),
        ('kind = "api"\noptions.base_url = "http://x"\noptions.sleep = 1', "options.sleep: unknown key"),
        ('kind = "web"\noptions.allow_loopback = true', "allow_loopback: unknown key|pip install"),
    ],
)
def test_wrong_options_are_refused_by_name(table: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=expected):
        from_recipe(tmp_path, table)


def test_an_option_of_a_recipe_reaches_its_source(tmp_path: Path) -> None:
    plain, titled = (
        from_recipe(tmp_path, f'kind = "bm25"\noptions.titles = {on}') for on in ("false", "true")
    )
    assert plain.fingerprint != titled.fingerprint
    replay = from_recipe(tmp_path, f'kind = "recorded"\n{TABLES["recorded"]}')
    assert [hit.passage.id for hit in search(replay, "cat", 3)] == ["p4"]
