"""Selection as LLatrieval has it, which GGatrieval builds on: condense, choose window by window, verify.

Paper: LLatrieval (Li et al. 2024) and the authors' code; GGatrieval, section 3.4. `SelectingProgram` holds
what the two programs share, so that they differ in nothing but what their papers do.

- Condensing: one call a document; one that is irrelevant is shown to nobody.
- Choosing: a window begins with the documents chosen before; the choice from it begins the next. What does
  not fit a call waits for the next. A reply that cannot be read chooses the window's first k.
- Verifying: one call about the documents chosen. The example that it is shown is a question with its answer,
  from the demonstrations of the answering call, as in the authors' prompt: it says how much an answer wants.

Differs: `top_up` fills a choice of fewer than k with the next best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import dspy

from ragc.core import counters
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.calls.predict import RagPredict
from ragc.programs.trace import Note, record
from ragc.records import Passage
from ragc.signatures.answer import UNCITED, ClosedBookAnswer
from ragc.signatures.select import irrelevant, pick_positions, verifying

T = TypeVar("T")


class SelectingProgram(RagProgram):
    """A program that condenses, chooses and verifies documents before it answers."""

    condense: RagPredict
    select: RagPredict
    verify: RagPredict
    answer: RagPredict

    def verifying_call(self) -> RagPredict:
        """Builds the call that judges whether the documents suffice; it shows pairs, not demonstrations."""
        call = self.predictor(verifying(examples=self.knobs.verify_demo > 0), max_tokens=30)
        call.max_demos = 0
        return call

    async def condensed(self, question: str, passage: Passage) -> str:
        """Returns `passage` as choosing calls see it: "" if irrelevant, all of it if the reply is empty."""
        whole = format_passage(passage)
        if not self.knobs.doc_condense:
            return whole
        reply = await self.condense.try_call(question=question, document=whole)
        summary = "" if reply is None else reply.summary.strip()
        if irrelevant(summary):
            return ""
        return format_passage(replace(passage, text=summary)) if summary else whole

    async def choose(
        self, question: str, browse: Sequence[T], text_of: Callable[[T], str], fill: Sequence[T]
    ) -> list[T]:
        """Returns at most `k_support` of `browse`, earlier choices first; `text_of` returns the text to show.

        With `top_up` a shorter choice is filled from `fill`, in its order.
        """
        k = self.knobs.k_support
        chosen: list[T] = []
        rest = list(browse)
        while rest:
            window = [*chosen, *rest[: max(1, self.knobs.window - len(chosen))]]
            while len(window) > len(chosen) and not self.select.fits(
                **self._inputs(question, window, text_of)
            ):
                window.pop()
            taken = len(window) - len(chosen)
            if not taken:  # the next document fits no call beside those chosen
                counters.count(trimmed=1)
                rest = rest[1:]
                continue
            rest = rest[taken:]
            chosen = await self._pick(question, window, text_of)
        if self.knobs.top_up:
            chosen += [one for one in fill if one not in chosen][: k - len(chosen)]
        return chosen

    async def _pick(self, question: str, window: list[T], text_of: Callable[[T], str]) -> list[T]:
        k = self.knobs.k_support
        reply = await self.select.try_call(**self._inputs(question, window, text_of))
        if reply is None:
            return window[:k]
        positions, wrong = pick_positions(reply.ids, len(window), k)
        counters.count(dropped=wrong)
        return [window[at] for at in positions]

    def _inputs(self, question: str, window: Sequence[T], text_of: Callable[[T], str]) -> dict[str, Any]:
        texts = [text_of(one) for one in window]
        return {"question": question, "k": self.knobs.k_support, "documents": texts}

    async def is_sufficient(self, question: str, texts: Sequence[str]) -> bool:
        """Returns whether the model finds the documents `texts` sufficient.

        False without documents, with `verify` off, and for an unreadable reply.
        """
        if not texts or not self.knobs.verify:
            return False
        more = self._examples()
        shown = self.shrink_to_fit(
            self.verify,
            list(texts),
            lambda subset: {**more, "question": question, "documents": subset},
        )
        if not shown:
            return False
        reply = await self.verify.try_call(**more, question=question, documents=shown)
        return reply is not None and bool(reply.sufficient == "YES")

    async def answer_chosen(self, question: str, passages: Sequence[Passage]) -> dspy.Prediction:
        """Returns the answer from `passages`; if there are none to cite, one from memory without marks.

        The call from memory is no predictor of the program, as it only serves questions without hits.
        """
        if passages or self.knobs.answer_format not in UNCITED:
            return await self.answer_from(self.answer, question, passages)
        record(Note("answer", "nothing was found to cite: from memory, without marks"))
        call = self.answer_call(ClosedBookAnswer)
        call.name, call.lm = self.answer.name, self.answer.lm
        reply = await call.acall(question=question)
        return dspy.Prediction(answer=self.hold_to_passages(reply.answer, 0), passages=())

    def _examples(self) -> Mapping[str, Any]:
        """Returns at most `verify_demo` questions with answers, from the answering call's demonstrations."""
        pairs = [
            f"{demo['question']}\n{demo['answer']}"
            for demo in map(dict, self.answer.demos)
            if demo.get("question") and demo.get("answer")
        ]
        shown = pairs[: min(self.knobs.verify_demo, self.knobs.icl_n)]
        return {"examples": shown} if shown else {}
