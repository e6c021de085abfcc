"""RAG-X through the public API, on scripted targets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ragc.corpora.chunking import chunk
from ragc.errors import SourceError, UsageError
from ragc.programs.base import RagProgram
from ragc.programs.method import Method
from ragc.programs.ragx_knobs import MANUAL, STAGED, RagXKnobs
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call, Note, Search
from ragc.records import Hit, Passage
from ragc.signatures.invalid import INVALID, UNSURE
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import ListSource, ScriptedTarget

QUESTION = "Who sang Hello with Adele in London?"
METHOD = Method("ragx", "about", "paper", "ragc.programs.ragx:RagX", RagXKnobs)
NAMES = {"items": [{"text": "Adele", "kind": "person"}, {"text": "Hello", "kind": "song"}]}


def passages(n: int, name: str = "w") -> list[Passage]:
    return [Passage(f"{name}{i}", f"{name} title {i}", f"{name} text {i}.") for i in range(n)]


class Spy(ListSource):
    """A list source that keeps its queries."""

    def __init__(self, found: list[Passage]) -> None:
        super().__init__(found)
        self.asked: list[tuple[str, int]] = []

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        self.asked.append((query, k))
        return await super().search(query, k)


class Broken(ListSource):
    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        raise SourceError("the index is gone")


def wanted(request: ChatRequest) -> str:
    """The output field that a request is for."""
    assert request.schema is not None
    return str(list(request.schema["properties"])[-1])


def by_field(**replies: Any) -> Callable[[ChatRequest], dict[str, Any]]:
    """Replies by output field; a list gives one after the other."""
    known = {"domain": "music", "entities": NAMES, "choice": "both", "answer": "x", **replies}

    def reply(request: ChatRequest) -> dict[str, Any]:
        field = wanted(request)
        value = known[field].pop(0) if isinstance(known[field], list) else known[field]
        assert request.schema is not None
        return {name: value if name == field else "so" for name in request.schema["properties"]}

    return reply


def made(target: ScriptedTarget, sources: dict[str, Any] | None = None, **knobs: Any) -> RagProgram:
    found = {"web": ListSource(passages(9)), "kg": ListSource(passages(2, "k"))}
    return METHOD.build(Runtime({"main": target}, found if sources is None else sources), knobs)


def asked(target: ScriptedTarget) -> list[str]:
    return [wanted(request) for request in target.requests]


def last(target: ScriptedTarget) -> str:
    return target.requests[-1].messages[-1].content


@pytest.mark.parametrize(
    ("policy", "web", "kg", "own"),
    [
        ("llm", 0, 0, True),
        ("web", 1, 0, False),
        ("kg", 0, 2, False),
        ("all", 1, 2, False),
        ("llm_web", 1, 0, True),
        ("llm_kg", 0, 2, True),
        ("llm_all", 1, 2, True),
    ],
)
def test_a_manual_policy_asks_once_from_its_sources(policy: str, web: int, kg: int, own: bool) -> None:
    target = ScriptedTarget(by_field())
    said = made(target, source_policy=policy)(question=QUESTION)
    assert asked(target) == (["domain", "entities", "answer"] if kg else ["answer"])
    searches = [event.source for event in said.trace if isinstance(event, Search)]
    assert sorted(searches) == ["kg"] * kg + ["web"] * web
    assert said.counters["searches"] == web + kg
    assert ("from what you know" in target.requests[-1].messages[0].content.replace("and ", "")) == own
    shown = [p.id for p in said.passages]
    assert shown == (["k0", "k1"] if kg else []) + (["w0", "w1", "w2"] if web else [])
    assert all(p.text in last(target) for p in said.passages)
    assert ("Passages" in last(target)) == (policy != "llm")


def test_every_policy_is_covered_and_the_default_is_llm_web() -> None:
    assert set(RagXKnobs.knob("source_policy").options) == {*MANUAL, *STAGED}
    assert RagXKnobs().source_policy == "llm_web"


@pytest.mark.parametrize("policy", ["predefined_web", "predefined_kg", "predefined_all"])
def test_a_predefined_policy_looks_up_only_when_the_model_alone_is_unsure(policy: str) -> None:
    sure = ScriptedTarget(by_field())
    said = made(sure, source_policy=policy)(question=QUESTION)
    assert (asked(sure), said.answer, said.passages) == (["answer"], "x", ())
    assert "Passages" not in last(sure)
    unsure = ScriptedTarget(by_field(answer=["Sorry, I don’t know that.", "y"]))
    said = made(unsure, source_policy=policy)(question=QUESTION)
    routed = [] if policy == "predefined_web" else ["domain", "entities"]
    assert (asked(unsure), said.answer) == (["answer", *routed, "answer"], "y")
    assert {p.id[0] for p in said.passages} == {"web": {"w"}, "kg": {"k"}, "all": {"w", "k"}}[policy[11:]]
    assert "passages alone" in unsure.requests[-1].messages[0].content
    assert said.counters["missing"] == 0


@pytest.mark.parametrize("policy", ["predefined_web", "agent"])
def test_second_stage_internal_allows_own_knowledge_there(policy: str) -> None:
    target = ScriptedTarget(by_field(answer=[UNSURE, "y"], choice="web"))
    made(target, source_policy=policy, second_stage_internal=True)(question=QUESTION)
    assert "from the passages and from what you know" in target.requests[-1].messages[0].content


@pytest.mark.parametrize(("choice", "found"), [("web", {"w"}), ("api", {"k"}), ("both", {"w", "k"})])
def test_the_agent_chooses_its_sources_and_always_reasons(choice: str, found: set[str]) -> None:
    target = ScriptedTarget(by_field(answer=[UNSURE, "y"], choice=choice))
    said = made(target, source_policy="agent")(question=QUESTION)
    routed = [] if choice == "web" else ["domain", "entities"]
    assert asked(target) == ["answer", "choice", *routed, "answer"]
    assert {p.id[0] for p in said.passages} == found
    answers = [r for r in target.requests if wanted(r) == "answer"]
    assert all(list(r.schema["properties"]) == ["reasoning", "answer"] for r in answers if r.schema)
    assert [r.sampling.max_tokens for r in answers] == [512, 512]


def test_a_sure_agent_asks_once() -> None:
    target = ScriptedTarget(by_field())
    assert made(target, source_policy="agent")(question=QUESTION).answer == "x"
    assert asked(target) == ["answer"]


def test_an_agent_whose_choice_cannot_be_read_says_it_does_not_know() -> None:
    target = ScriptedTarget([{"reasoning": "so", "answer": UNSURE}, "d", "d"], capabilities=())
    said = made(target, source_policy="agent")(question=QUESTION)
    assert (said.answer, said.passages, target.left) == (UNSURE, (), 0)
    assert said.counters["searches"] == 0
    assert said.counters["missing"] == 1
    assert Note("sources", "none") in said.trace


def test_dynamism_tells_the_choice_how_fast_the_answer_changes() -> None:
    target = ScriptedTarget(by_field(answer=[UNSURE, "y"], choice="web", pace="real-time"))
    made(target, source_policy="agent", dynamism=True)(question=QUESTION)
    assert asked(target) == ["answer", "pace", "choice", "answer"]
    assert "Pace: real-time" in target.requests[2].messages[-1].content
    plain = ScriptedTarget(by_field(answer=[UNSURE, "y"], choice="web"))
    made(plain, source_policy="agent")(question=QUESTION)
    assert "Pace" not in plain.requests[1].messages[-1].content


def test_the_query_time_is_told() -> None:
    target = ScriptedTarget(by_field())
    program = made(target)
    program(question=QUESTION, query_time="2024-03-01")
    assert "Query time: 2024-03-01" in last(target)
    program(question=QUESTION)
    assert "Query time: unknown" in last(target)


@pytest.mark.parametrize(
    ("said", "answer", "tallies"),
    [
        ("Paris", "Paris", (0, 0)),
        ("Invalid question.", INVALID, (1, 0)),
        ("I don’t know.", UNSURE, (0, 1)),
        ("i DON'T know who", UNSURE, (0, 1)),
        ("  ", UNSURE, (0, 1)),
    ],
)
def test_refusals_get_their_exact_words_a_note_and_a_tally(
    said: str, answer: str, tallies: tuple[int, int]
) -> None:
    made_of = made(ScriptedTarget([{"answer": said}]))(question=QUESTION)
    assert made_of.answer == answer
    assert (made_of.counters["invalid"], made_of.counters["missing"]) == tallies
    assert (Note("answer", answer) in made_of.trace) == (sum(tallies) == 1)


def test_an_invalid_question_is_not_looked_up() -> None:
    target = ScriptedTarget([{"answer": "invalid question"}])
    said = made(target, source_policy="predefined_web")(question=QUESTION)
    assert (said.answer, said.counters["searches"], target.left) == (INVALID, 0, 0)


def test_an_answer_that_cannot_be_read_or_was_cut_is_unsure() -> None:
    said = made(ScriptedTarget(["no", "no"], capabilities=()))(question=QUESTION)
    assert (said.answer, said.counters["missing"], said.counters["repairs"]) == (UNSURE, 1, 1)
    assert any(isinstance(event, Note) and event.about == "answer" for event in said.trace)
    cut = Reply('{"reasoning": "first of all', finish="length")
    said = made(ScriptedTarget([cut]), cot=True)(question=QUESTION)
    assert (said.answer, said.counters["truncated"]) == (UNSURE, 1)


@pytest.mark.parametrize(
    ("knobs", "look"),
    [
        ({"top_k": 5}, lambda r: "w text 4" in r.messages[-1].content),
        ({"query_pos": "after"}, lambda r: r.messages[-1].content.endswith(f"Question: {QUESTION}")),
        ({"query_pos": "both"}, lambda r: r.messages[-1].content.count(QUESTION) == 2),
        ({"cot": True}, lambda r: r.sampling.max_tokens == 512),
        ({"max_answer_tokens": 60}, lambda r: r.sampling.max_tokens == 60),
        (
            {"noise_n": 2},
            lambda r: r.messages[-1].content.find("w text 8") > r.messages[-1].content.find("w text 2"),
        ),
        ({"noise_n": 2, "noise_pos": "random"}, lambda r: "w text 7" in r.messages[-1].content),
        ({"temperature": 0.5}, lambda r: r.sampling.temperature == 0.5),
        ({"temperature": 0.5, "top_p": 0.7}, lambda r: r.sampling.top_p == 0.7),
        ({"layout": "json"}, lambda r: "[[ ## question ## ]]" in r.messages[-1].content),
        ({"source_policy": "web"}, lambda r: "passages alone" in r.messages[0].content),
    ],
)
def test_every_shared_knob_changes_what_is_sent(knobs: dict[str, Any], look: Any) -> None:
    plain, other = ScriptedTarget(by_field()), ScriptedTarget(by_field())
    made(plain)(question=QUESTION)
    made(other, **knobs)(question=QUESTION)
    assert look(other.requests[0])
    assert not look(plain.requests[0])


def test_where_random_noise_stands_depends_on_the_question_alone() -> None:
    def order(question: str) -> list[str]:
        said = made(ScriptedTarget(by_field()), noise_n=3, noise_pos="random")(question=question)
        return [p.id for p in said.passages]

    assert order("a") == order("a")
    assert len({tuple(order(q)) for q in "abcdef"}) > 1


def test_icl_n_bounds_the_demonstrations() -> None:
    target = ScriptedTarget(by_field())
    program = made(target, icl_n=1)
    demo = {"question": "Q1?", "query_time": "t", "passages": ["p"], "answer": "a"}
    program.answer.demos = [demo, {**demo, "question": "Q2?"}]
    program(question=QUESTION)
    assert [m.role for m in target.requests[0].messages] == ["system", "user", "assistant", "user"]


def test_chunking_knobs_reach_the_sources() -> None:
    cuts: list[tuple[int, float]] = []

    class Cut(ListSource):
        def rechunked(self, chunk_size: int, overlap: float) -> ListSource:
            cuts.append((chunk_size, overlap))
            return self

    source = Cut(passages(2))
    knobs = {"chunk_size": 100, "overlap": 0.2, "broad": True, "broad_chunk": 1024, "dense_share": 0.5}
    made(ScriptedTarget([]), {"web": source, "dense": source}, **knobs)
    assert cuts == [(100, 0.2), (100, 0.2), (1024, 0.0)]


@pytest.mark.parametrize(
    ("share", "found"),
    [(0.0, ["w0", "w1", "w2", "w3"]), (0.5, ["d0", "d1", "w0", "w1"]), (1.0, ["d0", "d1", "d2", "d3"])],
)
def test_dense_share_divides_the_passages_between_the_views(share: float, found: list[str]) -> None:
    sources = {"web": Spy(passages(9)), "dense": Spy(passages(9, "d"))}
    said = made(ScriptedTarget(by_field()), sources, top_k=4, dense_share=share)(question=QUESTION)
    assert [p.id for p in said.passages] == found
    assert said.counters["searches"] == len({id[0] for id in found})


class Cutting(ListSource):
    """A source that can be cut, ranked by a number in the text that a chunk begins with."""

    def rechunked(self, chunk_size: int, overlap: float) -> ListSource:
        return ListSource([part for p in self.passages for part in chunk(p, chunk_size, overlap)])


def test_broad_keeps_only_chunks_that_start_in_the_best_blocks() -> None:
    pages = [Passage(f"p{i}", "", f"page {i} " + "word " * 120) for i in range(30)]
    dense = ListSource([Passage("p25", "", "far"), Passage("p1", "", "near"), Passage("p2", "", "near")])
    sources = {"web": Cutting(pages), "dense": dense}
    knobs: dict[str, Any] = {"top_k": 2, "dense_share": 1.0, "broad_k": 20}
    narrow = made(ScriptedTarget(by_field()), sources, broad=True, **knobs)(question=QUESTION)
    wide = made(ScriptedTarget(by_field()), sources, **knobs)(question=QUESTION)
    assert [p.id for p in narrow.passages] == ["p1", "p2"]
    assert [p.id for p in wide.passages] == ["p25", "p1"]
    assert (narrow.counters["searches"], wide.counters["searches"]) == (2, 1)


def test_long_blocks_hold_the_chunks_cut_from_their_pages_and_the_search_goes_as_deep() -> None:
    long = Passage("long", "", " ".join(f"Sentence {i} is here." for i in range(600)))
    block = chunk(long, 1024)[1]

    class Middle(Cutting):
        """Its one long block is the middle of the second page, whose chunks come last first."""

        def rechunked(self, chunk_size: int, overlap: float) -> ListSource:
            parts = super().rechunked(chunk_size, overlap).passages
            return Spy([block] if chunk_size == 1024 else list(reversed(parts)))

    first = Passage("first", "", "Another page. " * 200)
    program = made(
        ScriptedTarget(by_field()), {"web": Middle([first, long])}, broad=True, broad_chunk=1024, broad_k=20
    )
    found = program(question=QUESTION).passages
    held = [part for part in chunk(long, 200) if block.start <= part.start < block.start + len(block.text)]
    assert list(found) == held[::-1][:3]
    assert len(held) < len(chunk(long, 200)[1:-1])
    assert program.web.asked == [(QUESTION, 20 * 6)]


def test_rerank_keeps_the_best_of_a_pool_and_drops_numbers_that_are_not_there() -> None:
    target = ScriptedTarget(by_field(order=[[4, 0, 99, 4, 2]]))
    said = made(target, rerank=True, pool=5, top_n=3)(question=QUESTION)
    assert asked(target) == ["order", "answer"]
    assert [p.id for p in said.passages] == ["w3", "w1", "w0"]
    assert said.counters["dropped"] == 2  # 0 and 99; the one that came twice is there
    assert "w text 4" in target.requests[0].messages[-1].content
    assert "w text 5" not in target.requests[0].messages[-1].content


def test_a_ranking_that_cannot_be_read_keeps_the_order() -> None:
    target = ScriptedTarget(["no", "no", {"answer": "x"}], capabilities=())
    said = made(target, rerank=True, pool=3, top_n=2)(question=QUESTION)
    assert ([p.id for p in said.passages], said.answer) == (["w0", "w1"], "x")


def test_a_pool_that_does_not_fit_is_ranked_as_far_as_it_does() -> None:
    long = [Passage(f"p{i}", "", "word " * 60) for i in range(5)]
    target = ScriptedTarget(by_field(order=[[2, 5]]), context_tokens=400)
    said = made(target, {"web": ListSource(long)}, rerank=True, pool=5, top_n=1)(question=QUESTION)
    assert [p.id for p in said.passages] == ["p1"]
    assert said.counters["trimmed"] > 0
    assert said.counters["dropped"] == 1


def test_entities_that_the_question_or_the_domain_does_not_hold_are_dropped() -> None:
    items = [
        {"text": "adele", "kind": "person"},
        {"text": "Adele", "kind": "person"},
        {"text": "Beyonce", "kind": "person"},
        {"text": "Hello", "kind": "movie"},
        {"text": "none", "kind": "song"},
    ]
    kg = Spy(passages(9, "k"))
    target = ScriptedTarget(by_field(entities={"items": items}))
    said = made(target, {"kg": kg}, source_policy="kg", top_k=2)(question=QUESTION)
    assert kg.asked == [("adele", 2)]
    assert said.counters["dropped"] == 3
    assert "Domain: music" in target.requests[1].messages[-1].content


def test_facts_of_several_entities_are_merged_without_duplicates() -> None:
    class ByName(ListSource):
        async def search(self, query: str, k: int) -> tuple[Hit, ...]:
            both = Passage("both", "", "both")
            return (Hit(both, 1.0), Hit(Passage(query, "", query), 0.5))

    said = made(ScriptedTarget(by_field()), {"kg": ByName([])}, source_policy="kg")(question=QUESTION)
    assert [p.id for p in said.passages] == ["both", "Adele", "Hello"]


def test_an_open_or_unread_domain_and_a_question_without_entities_search_nothing() -> None:
    target = ScriptedTarget(by_field(domain="open"))
    said = made(target, source_policy="kg")(question=QUESTION)
    assert (asked(target), said.counters["searches"]) == (["domain", "answer"], 0)
    assert "Passages:\nnone" in last(target)
    unread = ScriptedTarget(["?", "?", {"answer": "x"}], capabilities=())
    assert made(unread, source_policy="kg")(question=QUESTION).answer == "x"
    lost = ScriptedTarget([{"domain": "music"}, "?", "?", {"answer": "x"}], capabilities=())
    said = made(lost, source_policy="kg")(question=QUESTION)
    assert (said.answer, said.counters["searches"], lost.left) == ("x", 0, 0)
    assert Note("kg", "no entity, not searched") in said.trace


@pytest.mark.parametrize("policy", [*MANUAL, *STAGED])
@pytest.mark.parametrize("kind", [ListSource, Broken])
def test_sources_that_are_empty_or_fail_end_in_an_answer(policy: str, kind: type[ListSource]) -> None:
    sources = {"web": kind([]), "kg": kind([]), "dense": kind([])}
    replies = ["I don't know", "y"] if policy in STAGED else ["y"]
    knobs = {"rerank": True, "broad": True, "noise_n": 2, "dense_share": 0.5, "source_policy": policy}
    said = made(ScriptedTarget(by_field(answer=replies)), sources, **knobs)(question=QUESTION)
    assert (said.answer, said.passages) == ("y", ())
    failed = said.counters["searches"] if kind is Broken else 0
    assert said.counters["failed_searches"] == failed


@pytest.mark.parametrize(
    ("knobs", "steps", "peak"),
    [
        ({"source_policy": "llm_web"}, 1, 1),
        ({"source_policy": "llm_all"}, 3, 1),
        ({"source_policy": "llm_all", "rerank": True}, 3, 2),
        ({"source_policy": "predefined_all", "rerank": True}, 4, 2),
        ({"source_policy": "agent", "rerank": True}, 5, 2),
    ],
)
def test_calls_that_do_not_wait_for_each_other_run_together(
    knobs: dict[str, Any], steps: int, peak: int
) -> None:
    replies = [UNSURE, "y"] if knobs["source_policy"] in STAGED else "y"
    target = ScriptedTarget(by_field(answer=replies, order=[[1]]), hold=True)
    said = made(target, **knobs)(question=QUESTION)
    assert (said.answer, target.steps, target.peak) == ("y", steps, peak)


def test_the_searches_for_entities_run_together() -> None:
    class Counting(ListSource):
        flying = peak = 0

        async def search(self, query: str, k: int) -> tuple[Hit, ...]:
            self.flying += 1
            self.peak = max(self.peak, self.flying)
            await asyncio.sleep(0)
            self.flying -= 1
            return await super().search(query, k)

    source = Counting(passages(2, "k"))
    made(ScriptedTarget(by_field()), {"kg": source}, source_policy="kg")(question=QUESTION)
    assert source.peak == 2


def test_passages_that_do_not_fit_are_trimmed_from_the_end() -> None:
    sources = {"web": ListSource([Passage(f"w{i}", "", "word " * 60) for i in range(3)])}
    said = made(ScriptedTarget(by_field(), context_tokens=310), sources)(question=QUESTION)
    assert [p.id for p in said.passages] == [f"w{i}" for i in range(3 - said.counters["trimmed"])]
    assert said.counters["trimmed"] > 0


def test_the_router_may_be_the_proxy() -> None:
    main, proxy = ScriptedTarget(by_field()), ScriptedTarget(by_field())
    sources = {"kg": ListSource(passages(2, "k"))}
    runtime = Runtime({"main": main, "proxy": proxy}, sources)
    said = METHOD.build(runtime, {"source_policy": "kg", "router_role": "proxy"})(question=QUESTION)
    assert (asked(proxy), asked(main)) == (["domain"], ["entities", "answer"])
    assert [event.role for event in said.trace if isinstance(event, Call)] == ["proxy", "main", "main"]


@pytest.mark.parametrize(
    ("knobs", "sources", "message"),
    [
        ({}, {}, r"source_policy = 'llm_web' .*'web', found none; add \[sources.web\]"),
        ({"source_policy": "agent"}, {"web": 1}, r"source_policy = 'agent' .*'kg', found web"),
        ({"dense_share": 0.5}, {"web": 1}, "dense_share = 0.5 .*or set dense_share = 0"),
        ({"source_policy": "kg", "router_role": "proxy"}, {"kg": 1}, "or set router_role = 'main'"),
        ({"pool": 4}, {"web": 1}, "pool must be one of"),
    ],
)
def test_what_is_missing_is_named_with_its_knob(
    knobs: dict[str, Any], sources: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        made(ScriptedTarget([]), dict.fromkeys(sources, ListSource([])), **knobs)


def test_own_knowledge_alone_needs_no_source() -> None:
    assert (
        made(ScriptedTarget(by_field()), {}, source_policy="llm", dense_share=0.5)(question="Q?").answer
        == "x"
    )


def test_lists_are_bounded_in_the_schemas_and_choices_are_closed() -> None:
    target = ScriptedTarget(by_field(answer=[UNSURE, "y"], order=[[1]]))
    made(target, source_policy="agent", rerank=True)(question=QUESTION)
    schemas = {wanted(r): r.schema for r in target.requests if r.schema}
    assert schemas["entities"]["$defs"]["Entities"]["properties"]["items"]["maxItems"] == 6
    assert schemas["entities"]["$defs"]["Entity"]["properties"]["text"]["maxLength"] == 80
    assert schemas["order"]["properties"]["order"]["maxItems"] == 40
    assert schemas["choice"]["properties"]["choice"]["enum"] == ["web", "api", "both"]
    assert "open" in schemas["domain"]["properties"]["domain"]["enum"]
    assert all(schema["additionalProperties"] is False for schema in schemas.values())
