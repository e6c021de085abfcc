"""Replies in prose, as steps, in tables and under other names: one case for each rule of reading."""

from __future__ import annotations

from typing import Any

import pytest
from dspy.adapters.utils import serialize_for_json

from ragc.errors import ParseFailure
from ragc.programs.calls.layouts import JSON_LAYOUTS
from ragc.programs.calls.replies import read_laid_out, read_reply
from ragc.signatures.align import AlignComponent, SyntacticParse
from ragc.signatures.answer import ClosedBookAnswer, KnownAnswer, ShortAnswer, apply_format, with_reasoning
from ragc.signatures.claims import ClaimSplit, JudgeKnown, QuestionSplit
from ragc.signatures.draft import DraftSentence, UncertainSpans
from ragc.signatures.grade import CheckRelevance, NeedInfo, RelevanceGrade, SupportGrade, Utility
from ragc.signatures.judge import JudgeAnswer
from ragc.signatures.query import AnswerPath, ChooseAction, RewriteQuery, with_confidence
from ragc.signatures.route import DomainRouter, DynamismRouter, EntityExtract
from ragc.signatures.select import RankPassages, SelectDocuments, VerifyDocuments
from ragc.signatures.step import AgentStep, ReactStep, Reflect, SelfAskStep

REASONED = with_reasoning(ShortAnswer)
YES_NO = apply_format(ClosedBookAnswer, "yesno")
CHOICE = apply_format(ClosedBookAnswer, "choice")
SURE = with_confidence(AnswerPath)


def read(signature: Any, text: str, layout: str = "minimal") -> dict[str, Any]:
    json = layout in JSON_LAYOUTS
    reading = read_reply(signature, text) if json else read_laid_out(signature, text, layout)
    return {name: serialize_for_json(value) for name, value in reading.outputs.items()}


READ = [
    # Thoughts, tokens of templates and formulas.
    (ShortAnswer, "<think>\nLyon?\n</think>\n\n**Paris**", {"answer": "Paris"}),
    (ShortAnswer, "[THINK]Lyon?[/THINK]Paris", {"answer": "Paris"}),
    (ShortAnswer, "Perhaps Lyon.\n</think>\nParis", {"answer": "Paris"}),
    (ShortAnswer, "Paris<|im_end|>", {"answer": "Paris"}),
    (ShortAnswer, "The final answer is $\\boxed{Paris}$.", {"answer": "Paris"}),
    # Prose before the answer, labels, and what is said beside it.
    (REASONED, "Passage 1 says so.\n\nAnswer: Paris", {"reasoning": "Passage 1 says so.", "answer": "Paris"}),
    (REASONED, 'It says so.\n\n{"answer": "Paris"}', {"reasoning": "It says so.", "answer": "Paris"}),
    (REASONED, "It says so. The answer is Paris.", {"reasoning": "It says so.", "answer": "Paris"}),
    (REASONED, '{"answer": "Paris"}', {"reasoning": "", "answer": "Paris"}),
    (ShortAnswer, "Answer: Paris\nExplanation: passage 1", {"answer": "Paris"}),
    (ShortAnswer, "Paris\n\nPassage 2 says that this is so.", {"answer": "Paris"}),
    (ShortAnswer, "Sure, here is the answer:\n\nParis", {"answer": "Paris"}),
    (ShortAnswer, "Answer: Lyon\n\nSorry, a mistake. The correct answer is Paris.", {"answer": "Paris"}),
    (ShortAnswer, "Answer: Paris\n\nQuestion: And Italy?\nAnswer: Rome", {"answer": "Paris"}),
    (ShortAnswer, "Paris\n\nQuestion: And of Italy?\nAnswer: Rome", {"answer": "Paris"}),
    (ShortAnswer, "Paris\nParis\nParis", {"answer": "Paris"}),
    (ShortAnswer, "**[[ ## answer ## ]]**\nParis\n\n**[[ ## completed ## ]]**", {"answer": "Paris"}),
    (ShortAnswer, "## answer ##\nParis\n\n## completed ##", {"answer": "Paris"}),
    (ShortAnswer, "[[##answer##]]\nParis\n[[##completed##]]", {"answer": "Paris"}),
    (ShortAnswer, "<final_answer>Paris</final_answer>", {"answer": "Paris"}),
    (ShortAnswer, "It goes into <answer> tags.\n\n<answer>Paris</answer>", {"answer": "Paris"}),
    (ShortAnswer, "Answer\uff1aParis", {"answer": "Paris"}),
    (ShortAnswer, "Antwort: Paris", {"answer": "Paris"}),
    (ShortAnswer, "Cities with trams:\n1. **Paris**\n2. **Lyon**", {"answer": "Paris, Lyon"}),
    (RewriteQuery, "Original query: a b\nImproved query: c d", {"query": "c d"}),
    (SURE, "Paris (confidence: 70)", {"answer": "Paris", "confidence": 70}),
    (KnownAnswer, "I'm not sure.", {"answer": "I don't know"}),
    # Options, truth values and numbers in words.
    (YES_NO, "Y", {"answer": "yes"}),
    (CHOICE, "I think the answer is B", {"answer": "B"}),
    (Reflect, "Grade: Partially", {"explanation": "", "grade": "PARTIALLY CORRECT", "improvement": ""}),
    (DynamismRouter, "fast", {"pace": "fast-changing"}),
    (DomainRouter, "Movies", {"domain": "movie"}),
    (SupportGrade, "[No support / Contradictory]", {"support": "none"}),
    (SupportGrade, "The passages fully support the answer.", {"support": "fully"}),
    (JudgeKnown, "Known (True)", {"reason": "Known (True)", "known": "yes"}),
    (CheckRelevance, "The passage is not relevant.", {"relevant": False}),
    (VerifyDocuments, "Insufficient", {"sufficient": "NO"}),
    (VerifyDocuments, '{"sufficient": "insufficient"}', {"sufficient": "NO"}),
    (NeedInfo, "I need additional information.", {"need": True}),
    (JudgeAnswer, "INCORRECT - it names another city.", {"correct": False}),
    (RelevanceGrade, "Grade: \u2212100", {"grade": {"points": -100}}),
    (RelevanceGrade, '{"grade": 0.9}', {"grade": {"points": 90}}),
    (RelevanceGrade, "It is about other things.", {"grade": {"points": -100}}),
    (Utility, "I rate this answer a 5 because it is brief.", {"utility": 5}),
    (Utility, "\u2605\u2605\u2605\u2606\u2606", {"utility": 3}),
    # Lists, maps, tables and records.
    (RankPassages, "1. Document 1\n2. Document 3", {"order": [1, 3]}),
    (RankPassages, "| Rank | Passage |\n|---|---|\n| 1 | 3 |\n| 2 | 1 |", {"order": [3, 1]}),
    (SelectDocuments, "Documents 1 and 3 answer the question.", {"ids": [1, 3]}),
    (SelectDocuments, "None of the documents is of use.", {"ids": []}),
    (EntityExtract, "Rome (person)", {"entities": {"items": [{"text": "Rome", "kind": "person"}]}}),
    (UncertainSpans, "Graz: 40", {"doubts": {"spans": [{"span": "Graz", "confidence": 40}]}}),
    (
        AlignComponent,
        '{"aligned": {"1": "William"}}',
        {"aligned": [{"component": 1, "segment": "William", "same": True}], "synonyms": []},
    ),
    (
        ClaimSplit,
        "- **Claim:** Rome is old.\n  - **Need search:** no\n  - **Query:** age of Rome",
        {"claims": [{"claim": "Rome is old.", "need_search": "no", "query": "age of Rome"}]},
    ),
    (
        QuestionSplit,
        '{"questions": ["Who directed Jaws?"]}',
        {"questions": [{"question": "Who directed Jaws?", "need_search": "yes", "query": ""}]},
    ),
    (DraftSentence, "The answer is complete.", {"sentence": ""}),
    # Steps.
    (SelfAskStep, "Follow up: Who wrote Emma?", {"kind": "follow_up", "text": "Who wrote Emma?"}),
    (SelfAskStep, "So the final answer is: Goethe", {"kind": "answer", "text": "Goethe"}),
    (SelfAskStep, '{"follow_up": "Who wrote Emma?"}', {"kind": "follow_up", "text": "Who wrote Emma?"}),
    (
        SelfAskStep,
        "Follow up: Who wrote Emma?\nIntermediate answer: Jane Austen.\nFollow up: When?",
        {"kind": "follow_up", "text": "Who wrote Emma?"},
    ),
    (ReactStep, "local[Varda]", {"thought": "", "action": "local", "action_input": "Varda"}),
    (ReactStep, "Thought: t\nAction: web[V]", {"thought": "t", "action": "web", "action_input": "V"}),
    (
        ReactStep,
        '{"name": "web", "arguments": {"query": "Varda"}}',
        {"thought": "", "action": "web", "action_input": "Varda"},
    ),
    (
        AgentStep,
        "Thought: t\nStep: search[Varda]",
        {"thought": "t", "step": {"action": "search", "action_input": "Varda"}},
    ),
]


@pytest.mark.parametrize(("signature", "text", "outputs"), READ)
def test_what_a_person_can_read_is_read(signature: Any, text: str, outputs: dict[str, Any]) -> None:
    assert read(signature, text) == outputs


REFUSED = [
    (ShortAnswer, "I can't help with that request."),
    (ShortAnswer, "Could you please share the passages?"),
    (ShortAnswer, "<html><title>502 Bad Gateway</title></html>"),
    (ShortAnswer, "Sure, here is the JSON object you asked for:"),
    (ShortAnswer, "<think>I should"),
    (ShortAnswer, "the the the the the the the the the"),
    (ShortAnswer, '{"answer": "a name, number or short phrase"}'),
    (ShortAnswer, '{"answer": "{answer}"}'),
    (ShortAnswer, '{"answer": "Sydney"}\n{"answer": "Melbourne"}'),
    (ShortAnswer, "Answer: Sydney\nAnswer: Melbourne"),
    (ShortAnswer, '{"error": "overloaded"}'),
    (REASONED, "The first passage speaks of the church and of"),
    (YES_NO, "Yes and no."),
    (YES_NO, "It depends on what one counts."),
    (CHOICE, "A. Mars\nB. Jupiter"),
    (CheckRelevance, '{"relevant": true | false}'),
    (CheckRelevance, "The passage may or may not be relevant."),
    (CheckRelevance, "Is the passage relevant?"),
    (SupportGrade, "fully / partially"),
    (Utility, '{"utility": 3.5}'),
    (RewriteQuery, "You could try one of these:\n1. a b\n2. c d"),
    (ChooseAction, "To answer the question, the birthplace must be found."),
    (ReactStep, "Next:\n- local[a]\n- web[b]\n- finish[c]"),
    (Reflect, "Grade: CORRECT or INCORRECT\nExplanation: as one reads it"),
    (SyntacticParse, "{}"),
    (AgentStep, '{"thought": "t", "step": {"action": "finish", "answ'),
]


@pytest.mark.parametrize(("signature", "text"), REFUSED)
def test_what_is_not_clear_is_refused(signature: Any, text: str) -> None:
    with pytest.raises(ParseFailure):
        read(signature, text)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("chat", "[[ ## answer ## ]] Oslo [[ ## completed ## ]]"),
        ("chat", "[[ ## answer ## ]]\nAnswer: Oslo"),
        ("chat", '[[ ## answer ## ]]\n{"answer": "Oslo"}'),
        ("xml", "<answer>Oslo<\\answer>"),
    ],
)
def test_an_answer_is_taken_out_of_a_frame_inside_its_frame(layout: str, text: str) -> None:
    assert read(ShortAnswer, text, layout) == {"answer": "Oslo"}


@pytest.mark.parametrize(("layout", "text"), [("chat", "[[ ## answer ## ]]\n\n"), ("xml", "<answer/>")])
def test_an_empty_frame_holds_no_answer(layout: str, text: str) -> None:
    with pytest.raises(ParseFailure):
        read(ShortAnswer, text, layout)


def test_parts_that_a_question_lacks_may_be_left_out_or_called_so() -> None:
    outputs = read(SyntacticParse, "- **Subject**: who\n- **Predicate**: wrote\n- **Object**: N/A")
    assert (outputs["subject"], outputs["object"], outputs["apposition"]) == ("who", "", "")


def test_a_thought_may_say_what_an_answer_may_not() -> None:
    text = '{"thought": "I cannot find it yet.", "action": "web", "action_input": "Varda"}'
    assert read(ReactStep, text)["thought"] == "I cannot find it yet."


@pytest.mark.parametrize("tag", ["think", "reflection", "scratchpad"])
def test_letters_that_grow_in_lower_case_move_no_end_of_thoughts(tag: str) -> None:
    text = f"<{tag}>\u0130stanbul or \u0130zmir?</{tag}>Ankara"
    assert read(ShortAnswer, text) == {"answer": "Ankara"}
