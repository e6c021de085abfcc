"""`api`: facts on one name from a CRAG mock API (finance, music, movie, sports, open).

    name ──► domains of the question ──► names the API knows (`names`) ──► calls that the
    question's words and dates ask for (`question`) ──► passages of markdown (`facts`)

The query is one name, as RAG-X's `EntityExtract` finds it. If the question has no name, it is the question
itself, which gives what its words and dates alone ask for, such as the Grammys of a year. The rules read the
question being answered (`current_question`), with the time it was asked and the domain that the program
named. An unknown name gives nothing. Paper: RAG-X, "Guidelines for Extracting Information from the Mock API
Responses".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import httpx

from ragc.core.digest import digest
from ragc.core.event_loop import gather_or_cancel
from ragc.corpora.sources.base import current_question
from ragc.corpora.sources.crag_api import facts as api_open
from ragc.corpora.sources.crag_api import finance, movie, music, names, sports
from ragc.corpora.sources.crag_api import question as api_rules
from ragc.corpora.sources.crag_api.client import ApiClient, Limits
from ragc.corpora.sources.crag_api.facts import Ask, Fact
from ragc.corpora.sources.crag_api.question import ParsedQuestion
from ragc.records import Hit, Passage

Look = Callable[[Ask, str, ParsedQuestion], Coroutine[Any, Any, list[Fact]]]

LOOKS: dict[str, Look] = {
    "finance": finance.look_up,
    "music": music.look_up,
    "movie": movie.look_up,
    "sports": sports.look_up,
    "open": api_open.find_facts,
}
"""What looks a name up in each domain."""


class ApiSource:
    """Searches the CRAG mock API at `base_url`, such as http://127.0.0.1:8000.

    `timeout_s` and `connect_timeout_s` are seconds for one call and its connection, `tries` the tries of a
    call, `concurrency` the calls in flight. Raises UsageError for an invalid address or number, and when
    rapidfuzz is not installed. `transport` and `sleep` replace the network and the clock in tests.
    """

    kind = "api"

    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float = 10.0,
        connect_timeout_s: float = 5.0,
        tries: int = 4,
        concurrency: int = 8,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        names.check_installed()
        limits = Limits(timeout_s, connect_timeout_s, tries, concurrency)
        self._client = ApiClient(base_url, limits, transport=transport, sleep=sleep)
        self.endpoint = self._client.endpoint
        self.fingerprint = digest([self.kind, self.endpoint, api_rules.VERSION])

    def __deepcopy__(self, memo: object) -> ApiSource:
        return self

    def __repr__(self) -> str:
        return f"ApiSource({self.endpoint!r})"

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` passages on the name `query`, best first, ties by passage id.

        A passage's score is how well its name fits (0 to 100), plus 100 when the question asks for it.
        `()` when the API does not know the name. Raises SourceError when any of the calls fails.
        """
        name = " ".join(query.encode("utf-8", "replace").decode().split())  # a lone surrogate cannot be sent
        if not name or k < 1:
            return ()
        question = api_rules.parse_question(current_question.get(), name)
        for group in question.domains:
            looks = (LOOKS[domain](self._client.ask, name, question) for domain in group)
            facts = [fact for domain_facts in await gather_or_cancel(looks) for fact in domain_facts]
            if facts:
                best = {hit.passage.id: hit for hit in (fact.hit() for fact in facts)}
                return tuple(sorted(best.values(), key=lambda hit: (-hit.score, hit.passage.id))[:k])
        return ()

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Returns no passages: the API cannot list any to draw from."""
        return ()

    def rechunk(self, chunk_size: int, overlap: float) -> ApiSource:
        """Returns the same source: its passages are short already."""
        return self

    async def aclose(self) -> None:
        """Closes the pooled connections; a later search opens new ones."""
        await self._client.aclose()
