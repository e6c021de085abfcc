"""SlimPLM through the public API, on scripted targets: when it searches, what for, and what is shown."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
from typing import Any

import pytest

from ragc import metrics
from ragc.corpora.models import EmbedReranker
from ragc.corpora.rerank import RerankedSource
from ragc.errors import SourceError, UsageError
from ragc.metrics.base import Scorer
from ragc.optimizers.candidates.demos.bootstrap import set_demos
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.calls.demos import forced_outputs
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call, Note, Search
from ragc.records import Hit, Passage, Question
from ragc.targets.base import Capability, ChatRequest, Reply, TokenLogprob, Usage
from ragc.testing import ListSource, ScriptedTarget
from tests.support.embedders import WordEmbedder

QUESTION = "Which river flows through Paris?"
DRAFT = "The Seine flows through Paris. The Seine ends in Le Havre."
PLENTY = [Passage(f"p{i}", f"Page {i}", f"text {i} of Paris") for i in range(30)]


def claim(text: str, query: str, need: str = "yes") -> dict[str, str]:
    return {"claim": text, "need_search": need, "query": query}


def part(text: str, query: str, need: str = "yes") -> dict[str, str]:
    return {"question": text, "need_search": need, "query": query}


CLAIMS = [
    claim("The Seine flows through Paris", "Seine Paris", "no"),
    claim("It ends in Le Havre", "Seine mouth"),
]
PARTS = [part("river of Paris", "Paris river"), part("what is Paris", "Paris", "no")]


def proxy(**says: Any) -> ScriptedTarget:
    """A proxy that answers by the kind of call; `says` overrides replies by output field.

    `values` may be a function of the user message; `drawn` is the probability of the word it says. A `bare`
    one gives no probabilities.
    """
    replies: dict[str, Any] = {
        "heuristic_answer": DRAFT, "known": "no", "confidence": 0, "claims": CLAIMS, "questions": PARTS
    }  # fmt: skip
    replies |= {name: value for name, value in says.items() if name not in ("hold", "drawn", "bare")}

    def reply(request: ChatRequest) -> Reply:
        assert request.schema is not None
        *reason, name = request.schema["properties"]
        value = replies[name]
        reply = value(request.messages[-1].content) if callable(value) else value
        text = json.dumps({**dict.fromkeys(reason, "It is definite."), name: reply})
        plain_reply = Reply(text, usage=Usage(prompt=7, completion=4))
        if not request.logprobs:
            return plain_reply
        tokens = (text[:-3], 0.0), (text[-3:-2], math.log(says["drawn"])), (text[-2:], 0.0)
        return dataclasses.replace(plain_reply, logprobs=tuple(TokenLogprob(*token) for token in tokens))

    able: tuple[Capability, ...] = ("schema",) if says.get("bare") else ("schema", "logprobs", "seed")
    return ScriptedTarget(reply, hold=says.get("hold", False), capabilities=able)


def speaker(**more: Any) -> ScriptedTarget:
    def reply(request: ChatRequest) -> Reply:
        assert request.schema is not None
        text = json.dumps(dict.fromkeys(request.schema["properties"], "Seine"))
        return Reply(text, usage=Usage(prompt=9, completion=3))

    return ScriptedTarget(reply, **more)


def build_program(
    main: ScriptedTarget, small: ScriptedTarget, source: Any = None, **knobs: Any
) -> RagProgram:
    runtime = Runtime({"main": main, "proxy": small}, {"local": source or ListSource(PLENTY[:4])})
    return method("slimplm").build(runtime, {"wording": "brief", **knobs})


def calls(prediction: Any) -> list[str]:
    return [event.name for event in prediction.trace if isinstance(event, Call)]


def queries(prediction: Any) -> list[str]:
    return [event.query for event in prediction.trace if isinstance(event, Search)]


def notes(prediction: Any) -> list[tuple[str, str]]:
    return [(event.about, event.outcome) for event in prediction.trace if isinstance(event, Note)]


def read_prompts(target: ScriptedTarget) -> list[str]:
    return ["\n".join(m.content for m in request.messages) for request in target.requests]


def test_a_known_question_costs_two_proxy_calls_and_is_answered_without_passages() -> None:
    main, small = speaker(), proxy(known="yes")
    prediction = build_program(main, small)(question=QUESTION)
    assert calls(prediction) == ["draft", "judge", "chat"]
    assert (prediction.answer, prediction.passages, prediction.counters["searches"]) == ("Seine", (), 0)
    assert ("question", "known") in notes(prediction)
    assert DRAFT in read_prompts(small)[1]
    assert DRAFT not in read_prompts(main)[0]


def test_an_unknown_question_is_searched_for_itself_its_parts_and_the_unknown_claims() -> None:
    small = proxy(known=lambda message: "yes" if "Claim: The Seine" in message else "no")
    main, source = speaker(), ListSource(PLENTY)
    prediction = build_program(main, small, source)(question=QUESTION)
    assert calls(prediction) == ["draft", "judge", "parts", "claims", "claim_judge", "claim_judge", "answer"]
    assert queries(prediction) == [QUESTION, "Paris river", "Seine mouth"]
    assert {k for _, k in source.queries} == {10}
    assert ("claims", "1 of 2 known") in notes(prediction)
    assert [p.id for p in prediction.passages] == [f"p{i}" for i in range(10)]
    assert "text 9 of Paris" in read_prompts(main)[0]


def test_proxy_and_main_calls_are_counted_apart_and_proxy_ones_weigh_a_tenth() -> None:
    prediction = build_program(speaker(), proxy())(question=QUESTION)
    cost = prediction.counters
    assert (cost["main_calls"], cost["proxy_calls"]) == (1, 6)
    assert cost["lm_calls"] == 7
    assert cost["weighted_calls"] == pytest.approx(1.6)
    assert (cost["main_generated"], cost["proxy_generated"]) == (3, 24)
    assert cost["weighted_generated"] == pytest.approx(3 + 2.4)
    assert (cost["main_prompt"], cost["proxy_prompt"]) == (9, 42)
    assert cost["weighted_prompt"] == pytest.approx(9 + 4.2)
    again = build_program(speaker(), proxy(known="yes"))(question=QUESTION).counters
    assert (again["main_calls"], again["proxy_calls"]) == (1, 2)


@pytest.mark.parametrize(
    ("knobs", "called", "searched"),
    [
        ({"use_qj": False}, ["draft", "parts", "claims", "claim_judge", "claim_judge", "answer"], None),
        ({"use_qr": False}, ["draft", "judge", "answer"], [QUESTION]),
        ({"use_qr": False, "use_qj": False}, ["answer"], [QUESTION]),
        (
            {"use_qf": False},
            ["draft", "judge", "parts", "claims", "answer"],
            [QUESTION, "Paris river", "Seine mouth"],
        ),
        ({"include_original_query": False}, None, ["Paris river", "Seine Paris", "Seine mouth"]),
        (
            {"include_question_queries": False},
            ["draft", "judge", "claims", "claim_judge", "claim_judge", "answer"],
            [QUESTION, "Seine Paris", "Seine mouth"],
        ),
    ],
)
def test_ablations_leave_out_calls_and_queries(knobs: dict[str, Any], called: Any, searched: Any) -> None:
    full = build_program(speaker(), proxy())(question=QUESTION)
    prediction = build_program(speaker(), proxy(), **knobs)(question=QUESTION)
    assert calls(prediction) == (called or calls(full))
    assert queries(prediction) == (searched or queries(full))
    assert (calls(prediction), queries(prediction)) != (calls(full), queries(full))


@pytest.mark.parametrize(
    ("confidence", "threshold", "known"), [(50, 0.5, False), (60, 0.5, True), (100, 1.0, False)]
)
def test_a_confidence_above_the_threshold_is_known(confidence: int, threshold: float, known: bool) -> None:
    small = proxy(confidence=confidence)
    program = build_program(speaker(), small, judge_by="confidence", judge_threshold=threshold)
    prediction = program(question=QUESTION)
    assert (calls(prediction)[-1] == "chat") is known
    assert (
        small.requests[1].schema
        != build_program(speaker(), proxy()).judge.request(question="", heuristic_answer="").schema
    )
    if not known:
        assert all(
            e.outputs.keys() == {"reason", "confidence"}
            for e in prediction.trace
            if isinstance(e, Call) and "judge" in e.name
        )


def test_the_papers_sampling_is_the_default_and_reaches_every_role() -> None:
    main, small = speaker(), proxy()
    build_program(main, small, proxy_tokens=128)(question=QUESTION)
    for request in (*main.requests, *small.requests):
        assert (request.sampling.temperature, request.sampling.top_p) == (0.01, 0.85)
    assert [r.sampling.max_tokens for r in small.requests] == [128, 128, 128, 128, 128, 128]


def test_claims_and_parts_that_speak_of_something_else_are_dropped_and_counted() -> None:
    small = proxy(
        claims=[
            claim("Bananas ripen quickly", "bananas"),
            claim("The Seine is long", " "),
            claim("", "Seine"),
            CLAIMS[1],
        ],
        questions=[part("bananas", "ripe bananas"), PARTS[0]],
    )
    prediction = build_program(speaker(), small)(question=QUESTION)
    assert queries(prediction) == [QUESTION, "Paris river", "Seine mouth"]
    assert prediction.counters["dropped"] == 4
    assert calls(prediction).count("claim_judge") == 1


def test_queries_of_the_same_words_are_searched_once() -> None:
    small = proxy(
        claims=[claim("Paris has the Seine", "Paris RIVER?"), claim("Paris has it", QUESTION.lower())]
    )
    assert queries(build_program(speaker(), small)(question=QUESTION)) == [QUESTION, "Paris river"]


@pytest.mark.parametrize(
    ("says", "called"),
    [
        ({"known": 7}, ["draft", "parts", "claims", "answer"]),
        ({"claims": "river"}, ["draft", "judge", "parts", "answer"]),
        ({"questions": 3}, ["draft", "judge", "claims", "claim_judge", "claim_judge", "answer"]),
        ({"heuristic_answer": {"a": 1, "b": 2}}, ["parts", "answer"]),
        ({"heuristic_answer": " "}, ["draft", "parts", "answer"]),
    ],
)
def test_what_the_proxy_says_and_nobody_can_read_leads_to_a_search(says: Any, called: list[str]) -> None:
    prediction = build_program(speaker(), proxy(**says))(question=QUESTION)
    assert calls(prediction) == called
    assert prediction.answer == "Seine"
    assert queries(prediction)[0] == QUESTION
    unread = [outcome for _, outcome in notes(prediction) if outcome.startswith("unreadable")]
    assert len(unread) == prediction.counters["repairs"] == prediction.counters["dropped"]


def test_a_reply_cut_short_keeps_the_claims_that_are_whole() -> None:
    cut = json.dumps({"claims": CLAIMS})[:-40]

    def reply(request: ChatRequest) -> Any:
        assert request.schema is not None
        if "claims" in request.schema["properties"]:
            return Reply(cut, finish="length")
        return (
            {"heuristic_answer": DRAFT}
            if "heuristic_answer" in request.schema["properties"]
            else {"reason": "", "known": "no"}
        )

    program = build_program(speaker(), ScriptedTarget(reply), include_question_queries=False)
    prediction = program(question=QUESTION)
    assert queries(prediction) == [QUESTION, "Seine Paris"]
    assert (prediction.counters["repairs"], prediction.counters["dropped"]) == (0, 1)


def test_no_query_left_ends_in_the_plain_answer_without_a_search() -> None:
    small = proxy(claims=[])
    prediction = build_program(
        speaker(), small, include_original_query=False, include_question_queries=False
    )(question=QUESTION)
    assert (queries(prediction), calls(prediction)[-1]) == ([], "chat")


def test_the_prompt_cap_drops_references_two_by_two() -> None:
    long = [Passage(f"p{i}", "", f"Paris {i} " + "word " * 98) for i in range(9)]
    main = speaker()
    prediction = build_program(main, proxy(), ListSource(long), prompt_token_cap=500)(question=QUESTION)
    assert len(read_prompts(main)[0].split()) <= 500
    assert (len(prediction.passages), prediction.counters["trimmed"]) == (3, 6)
    narrow = build_program(speaker(context_tokens=400), proxy(), ListSource(long))(question=QUESTION)
    assert len(narrow.passages) == 2
    none = build_program(speaker(context_tokens=135), proxy(), ListSource(long))(question=QUESTION)
    assert (none.passages, calls(none)[-1]) == ((), "chat")


def test_pages_are_cut_into_paragraphs_and_the_best_of_each_page_comes_first() -> None:
    text = "Seine\nA river.\nSection::::Course.\nIt flows through Paris.\nBULLET::::- Rouen\nIt is long."
    pages = [
        Passage("s", "Seine", text),
        Passage("one", "Other", "Just one river"),
        Passage("b", "B", "x\n\nParis"),
    ]
    main = speaker()
    prediction = build_program(main, proxy(), ListSource(pages))(question=QUESTION)
    assert [p.text for p in prediction.passages] == [
        "It flows through Paris.", "Just one river", "Paris", "A river.", "x", "It is long."
    ]  # fmt: skip
    for passage in prediction.passages:
        whole = next(page for page in pages if page.id == passage.parent)
        assert whole.text[passage.start :].startswith(passage.text)
    assert prediction.passages[1] is pages[1]
    zipped = build_program(speaker(), proxy(), ListSource(pages), round_robin="zip")(question=QUESTION)
    assert [p.text for p in zipped.passages] == ["It flows through Paris.", "Just one river", "Paris"]


class ByQuery(ListSource):
    """Ten pages for every query, which no other query finds; `shared` ones come before them."""

    def __init__(self, shared: int = 0) -> None:
        super().__init__([])
        self.shared = shared

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        names = [f"shared {i}" for i in range(self.shared)] + [f"{query} {i}" for i in range(k - self.shared)]
        return tuple(Hit(Passage(name, name, f"{name} of Paris"), 1.0) for name in names)


FOUR = [QUESTION, "Paris river", "Seine Paris", "Seine mouth"]


def shown_of(prediction: Any, queries: list[str]) -> list[int]:
    """How many references each of the queries found, by the ids of their pages."""
    return [sum(p.id.startswith(f"{query} ") for p in prediction.passages) for query in queries]


def test_every_query_has_its_share_of_the_references_unless_they_are_dealt_by_page() -> None:
    by_query = build_program(speaker(), proxy(), ByQuery())(question=QUESTION)
    assert queries(by_query) == FOUR
    assert shown_of(by_query, FOUR) == [5, 5, 5, 5]
    assert [p.id for p in by_query.passages[:4]] == [f"{query} 0" for query in FOUR]
    for how in ("true", "zip"):
        by_page = build_program(speaker(), proxy(), ByQuery(), deal_by="page", round_robin=how)
        assert shown_of(by_page(question=QUESTION), FOUR) == [10, 10, 0, 0]
    shared = build_program(speaker(), proxy(), ByQuery(shared=4))(question=QUESTION)
    assert len({p.id for p in shared.passages}) == len(shared.passages) == 20
    assert sum(p.id.startswith("shared") for p in shared.passages) == 4
    assert shown_of(shared, FOUR) == [4, 4, 4, 4]


# What it learns from train questions


TRAIN = {
    "Which river flows through Paris?": (DRAFT, ("Seine",)),
    "who wrote the opera carmen": ("It was written by Verdi.", ("Georges Bizet", "Bizet")),
    "what is the capital of australia": ("Its capital is Canberra.", ("Canberra",)),
    "who painted the night watch": ("It was painted by Rembrandt.", ("Rembrandt van Rijn", "Rembrandt")),
    "when did the berlin wall fall": ("It fell in 1991.", ("1989", "9 November 1989")),
    "where is the great barrier reef": ("I am not sure.", ("Coral Sea", "Queensland")),
    "who discovered penicillin": ("", ("Alexander Fleming",)),
}


def train() -> list[Question]:
    return [Question(f"t{at}", text, answers) for at, (text, (_, answers)) in enumerate(TRAIN.items())]


def drafting(**says: Any) -> ScriptedTarget:
    def draft(message: str) -> str:
        return next((draft for question, (draft, _) in TRAIN.items() if question in message), DRAFT)

    return proxy(heuristic_answer=draft, **says)


def fitted(**knobs: Any) -> RagProgram:
    program = build_program(speaker(), drafting(), **knobs)
    asyncio.run(program.fit(train(), Scorer.of(metrics.get("f1"))))
    return program


def test_the_judge_is_shown_drafts_of_train_questions_with_what_their_gold_answers_say_of_them() -> None:
    program = fitted()
    labels = [(question.split()[-1], known) for question, _, known in program.labels]
    assert labels == [("Paris?", "yes"), ("carmen", "no"), ("australia", "yes"), ("watch", "no")]
    assert all(set(demo) == set(program.judge.signature.fields) for demo in program.judge.demos)
    prediction = program(question="who built the eiffel tower")
    judged = program.judge.messages(question="who built the eiffel tower", heuristic_answer=DRAFT)
    shown = [json.loads(m.content) for m in judged if m.role == "assistant"]
    assert [reply["known"] for reply in shown] == ["yes", "no", "yes", "no"]
    assert len({reply.get("reason") for reply in shown}) == 2
    assert "Canberra" in judged[5].content
    assert not program.claim_judge.demos
    assert prediction.answer == "Seine"


def test_how_much_of_the_gold_answers_a_draft_needs_is_a_knob() -> None:
    half = {question: known for question, _, known in fitted(judge_demos=16).labels}
    assert half.get("who painted the night watch", "no") == "no"
    third = {question: known for question, _, known in fitted(judge_demos=16, known_theta=0.4).labels}
    assert third["who painted the night watch"] == "yes"


def test_labels_are_balanced_counted_and_none_where_all_drafts_are_alike() -> None:
    assert [known for _, _, known in fitted(judge_demos=3).labels] == ["yes", "no"]
    assert fitted(known_theta=1.0).labels == ()
    for off in ({"judge_demos": 0}, {"use_qj": False}):
        program = fitted(**off)
        assert program.labels == ()
        assert program.runtime.targets["proxy"].requests == []  # type: ignore[attr-defined]


def test_labels_are_saved_and_stand_in_the_place_of_other_demonstrations(tmp_path: Any) -> None:
    program = fitted()
    wrong = {"question": QUESTION, "heuristic_answer": DRAFT, "known": "no"}
    set_demos(program, {"judge": [wrong], "draft": [{"question": QUESTION, "heuristic_answer": DRAFT}]})
    assert wrong not in list(program.judge.demos)
    assert len(program.draft.demos) == 1
    program.save(tmp_path / "state.json")
    twin = build_program(speaker(), drafting())
    twin.load(tmp_path / "state.json")
    assert (twin.labels, list(twin.judge.demos)) == (program.labels, list(program.judge.demos))
    unfit = set_demos(build_program(speaker(), drafting()), {"judge": [wrong]})
    assert list(unfit.judge.demos) == [wrong]
    with pytest.raises(UsageError, match="a question, a draft, and 'yes' or 'no'"):
        twin.learned = {"labels": [["q", "d", "maybe"]]}


# What its judgements ask


def correctness(small: ScriptedTarget, **knobs: Any) -> RagProgram:
    return build_program(speaker(), small, judge_asks="correctness", **knobs)


@pytest.mark.parametrize("wording", ["full", "brief"])
def test_the_judge_may_ask_how_likely_a_draft_is_right(wording: str) -> None:
    small, plain = proxy(), proxy()
    prediction = correctness(small, wording=wording)(question=QUESTION)
    usual = build_program(speaker(), plain, wording=wording)(question=QUESTION)
    assert (calls(prediction), queries(prediction)) == (calls(usual), queries(usual))
    prompts, before = read_prompts(small), read_prompts(plain)
    same = [one == other for one, other in zip(prompts, before, strict=True)]
    assert same == [True, False, True, False, False, False]  # the draft and the parts of the question stay
    for prompt in (prompts[1], prompts[4]):
        assert "likely right" in prompt
        assert "not whether it is true" not in prompt.lower()
        assert "Do not judge whether" not in prompt
    assert "keeps the word of doubt" in prompts[3]
    assert [r.schema for r in small.requests] == [r.schema for r in plain.requests]


@pytest.mark.parametrize("asks", ["style", "correctness"])
def test_probabilities_decide_where_the_proxy_gives_them_and_words_where_not(asks: str) -> None:
    able = proxy(known="yes", drawn=0.6)
    prediction = build_program(speaker(), able, judge_asks=asks, judge_by="auto", judge_threshold=0.7)(
        question=QUESTION
    )
    assert ("judge", "0.60 sure that no search is needed") in notes(prediction)
    assert calls(prediction)[-1] == "answer"
    unable = proxy(known="yes", bare=True)
    prediction = build_program(speaker(), unable, judge_asks=asks, judge_by="auto", judge_threshold=0.7)(
        question=QUESTION
    )
    assert (calls(prediction), [r.logprobs for r in unable.requests]) == (
        ["draft", "judge", "chat"],
        [False, False],
    )


# With an embedder


class Broken(WordEmbedder):
    def embed(self, texts: Any) -> Any:
        raise SourceError("the weights are gone")


@pytest.mark.parametrize("how", ["dense", "reranked"])
def test_paragraphs_are_ranked_by_the_embedder_of_a_source_where_there_is_one(how: str) -> None:
    page = Passage("page", "", "The river that flows through Paris.\n\nA zebra.")
    source: Any = ListSource([page])
    embedder = WordEmbedder("letters", "zebra", QUESTION)
    if how == "dense":
        source.embedder = embedder
    else:
        source = RerankedSource(source, EmbedReranker(embedder))
    prediction = build_program(speaker(), proxy(), source)(question=QUESTION)
    assert [p.text for p in prediction.passages] == ["A zebra.", "The river that flows through Paris."]
    assert ("reranking", "2 paragraphs of 1 pages, by letters") in notes(prediction)
    assert prediction.counters["bm25_ranked"] == 0
    words = build_program(speaker(), proxy(), source, encoder="bm25")(question=QUESTION)
    assert [p.text for p in words.passages] == ["The river that flows through Paris.", "A zebra."]


def test_an_embedder_that_fails_is_noted_and_words_rank_in_its_place() -> None:
    source: Any = ListSource([Passage("page", "", "A zebra.\n\nThe river that flows through Paris.")])
    source.embedder = Broken("letters")
    prediction = build_program(speaker(), proxy(), source)(question=QUESTION)
    assert prediction.passages[0].text == "The river that flows through Paris."
    assert ("encoder", "failed, BM25 in its place: the weights are gone") in notes(prediction)
    assert prediction.counters["failed_searches"] == 1


def test_no_proxy_is_needed_where_nothing_is_judged_or_rewritten() -> None:
    alone = Runtime({"main": speaker()}, {"local": ListSource(PLENTY[:4])})
    prediction = method("slimplm").build(alone, {"use_qj": False, "use_qr": False})(question=QUESTION)
    assert (calls(prediction), queries(prediction)) == (["answer"], [QUESTION])
    assert prediction.counters["weighted_calls"] == prediction.counters["main_calls"] == 1


@pytest.mark.parametrize(
    ("says", "probability", "threshold", "known"),
    [("yes", 0.9, 0.5, True), ("yes", 0.6, 0.7, False), ("no", 0.9, 0.5, False), ("no", 0.6, 0.3, True)],
)
def test_the_probability_of_the_word_decides_against_the_threshold(
    says: str, probability: float, threshold: float, known: bool
) -> None:
    small = proxy(known=says, drawn=probability)
    prediction = build_program(speaker(), small, judge_by="logprobs", judge_threshold=threshold)(
        question=QUESTION
    )
    assert (calls(prediction)[-1] == "chat") is known
    sure = probability if says == "yes" else 1 - probability
    assert ("judge", f"{sure:.2f} sure that no search is needed") in notes(prediction)
    assert [r.logprobs for r in small.requests[:2]] == [False, True]


def test_a_cited_answer_is_held_to_the_passages_shown_and_one_without_passages_has_no_marks() -> None:
    main = ScriptedTarget([{"answer": "It is the Seine [1][9]."}, {"answer": "It is the Seine."}])
    prediction = build_program(main, proxy(), answer_format="cited")(question=QUESTION)
    assert (prediction.answer, prediction.counters["dropped"]) == ("It is the Seine [1].", 1)
    prediction = build_program(main, proxy(known="yes"), answer_format="cited")(question=QUESTION)
    assert prediction.answer == "It is the Seine."
    assert "[1]" not in read_prompts(main)[1]


def test_a_run_that_is_given_its_answer_reads_what_the_question_finds_and_asks_nobody() -> None:
    main, small = speaker(), proxy(known="yes")
    with forced_outputs({"answer": "the Seine"}):
        prediction = build_program(main, small)(question=QUESTION)
    assert (prediction.answer, calls(prediction), queries(prediction)) == (
        "the Seine",
        ["answer"],
        [QUESTION],
    )
    assert prediction.passages
    assert main.requests == small.requests == []
