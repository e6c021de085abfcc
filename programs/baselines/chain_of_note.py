"""Chain-of-Note: one call that writes a reading note for each passage and then answers.

Paper: Chain-of-Note, section 3: top 5 passages; three kinds of note (it answers, it only gives context,
it is irrelevant); "unknown" when nothing supports an answer. The model is asked and not trained, as where
RQ-RAG (section 3.2) compares with it.
Differs: notes are a typed list, no longer than the passages; a note on a passage that was not shown, or a
second note on the same one, is dropped and counted. Noise, chunks and the question's place are vanilla's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy

from ragc.core import counters
from ragc.programs.baselines.knobs import ChainOfNoteKnobs
from ragc.programs.baselines.vanilla import Vanilla
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record
from ragc.signatures.answer import UNKNOWN, ReadingNotes, ShortAnswer, abstaining, limited_to

_NOTE_TOKENS = 64


class ChainOfNote(Vanilla):
    """One search of the source `local`, one typed call."""

    def __init__(self, runtime: Runtime, knobs: ChainOfNoteKnobs) -> None:
        super().__init__(runtime, knobs)
        most = knobs.top_k + knobs.noise_n
        signature: Any = limited_to(ReadingNotes, most) if knobs.notes else ShortAnswer
        signature = self.reading(signature)
        if knobs.abstain:
            signature = abstaining(signature, own=self.may_know)
        note_tokens = _NOTE_TOKENS * most if knobs.notes else 0
        unknown = (UNKNOWN,) if knobs.abstain else ()
        self.answer = self.answer_call(signature, also=unknown, extra_tokens=note_tokens)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Searches, then writes notes and the answer in one call."""
        prediction = await super().aforward(question, **context)
        kinds = self._kinds(prediction.reading.notes, len(prediction.passages)) if self.knobs.notes else []
        tallies = {f"notes_{kind}": kinds.count(kind) for kind in ("answers", "context", "irrelevant")}
        return dspy.Prediction(answer=prediction.answer, passages=prediction.passages, tallies=tallies)

    @staticmethod
    def _kinds(notes: Sequence[Any], shown_n: int) -> list[str]:
        """Returns the kinds of the notes on shown passages, one a passage; the rest are dropped."""
        kinds: dict[int, str] = {}
        for note in notes:
            if note.passage <= shown_n:
                kinds.setdefault(note.passage, note.kind)
        if len(kinds) < len(notes):
            counters.count(dropped=len(notes) - len(kinds))
            record(Note("notes", f"{len(notes) - len(kinds)} on no passage, or on one noted before"))
        return list(kinds.values())
