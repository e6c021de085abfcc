"""GGatrieval: documents are chosen by how many grammatical parts of the question they align with.

Paper: GGatrieval, sections 3.1 to 3.4, Algorithm 1; progressive selection and verification are those of
LLatrieval, `ragc.programs.selection`. A round searches, aligns every new document with the question in one
call each, chooses documents and verifies them; the next round's queries come from those chosen. A round is
at most four calls deep: all alignments at once, one call to choose for each window, one to verify, all
imagined documents at once. With `crag_filter` CRAG's evaluator, a typed grade as in
`ragc.programs.baselines.crag`, drops candidates before they are aligned, one call more in depth: the row
CRAG of Tables 1 and 2. Dropped documents count as NONE. GGatrieval, section 3.1 (the labels), section 3.2
with equations 1 to 3 (alignment), sections 4.3 and 4.4 with Tables 3 and 4 (documents of a label left out,
conversion rates). A component counts only if it stands in the question, a segment only if it was copied
from the document, both as `ragc.programs.ggatrieval.copying` tells. Documents are ordered by how much of
the question they align with; the order decides which are chosen in the end, and how many of each label
those are is counted.
Differs: a component that is not in the question and a segment that is not in the document are dropped. The
order by labels acts where a round has more documents than a window holds beside those chosen before; at the
defaults (N 10, W 20, k 5) it has not, the choosing call is told that order means nothing, and the order
decides only which documents `top_up` takes. Ties of r keep the order of retrieval, with the hits of several
queries taken in turn, because scores of different queries do not compare. An unaligned component is
reworded by the alignment call and put into the query by us. At most 800 characters of a document are made
part of a query, behind the question, and queries start from the question unless `scqu_base` says prevQ.
With `scqu` off a round reads on in the hits of the question. A document is a candidate once. Rounds end
when nothing new is found. Where nothing is found at all, a format that cites is answered from memory,
without marks. `top_up` is on and takes the best aligned documents first. Gold sub-questions are below the
question, and are queries beside it in the first round; parts and later queries are those of the question
alone. A question word, such as who or when, is aligned with what answers it, of which the paper says
nothing. Both checks are ours, computed on the text. With `align_form = "sentences"` the document comes
first, in numbered sentences, and every part gets an entry, of which the paper says nothing either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Literal

import dspy

from ragc.core import counters
from ragc.programs.base import format_passage
from ragc.programs.ggatrieval import GGatrievalKnobs
from ragc.programs.ggatrieval.copying import find_run, is_copied, parts_in, words_of
from ragc.programs.runtime import Runtime
from ragc.programs.selection import SelectingProgram
from ragc.programs.sentences import all_sentences
from ragc.programs.trace import Note, at_least, record, together
from ragc.records import Hit, Passage
from ragc.signatures.align import PseudoDocument, SyntacticParse, alignment, sentence_alignment
from ragc.signatures.answer import ShortAnswer
from ragc.signatures.grade import RelevanceGrade
from ragc.signatures.select import CondenseDocument, SelectDocuments, with_sub_questions

Label = Literal["FULL", "PARTIAL", "NONE"]
LABELS: tuple[Label, ...] = ("FULL", "PARTIAL", "NONE")


@dataclass(frozen=True, slots=True)
class AlignedDocument:
    """A document, the query that found it, and its alignment with the question.

    `share` is r, the aligned part of all components. `wordings` are other words for components that are not
    aligned. `text` is shown to choosing and verifying calls, empty if the document is irrelevant or was
    `filtered` out.
    """

    passage: Passage
    query: str
    share: float = 0.0
    wordings: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    filtered: bool = False

    @property
    def label(self) -> Label:
        """FULL when every component is aligned, NONE when none is."""
        return "FULL" if self.share == 1 else "PARTIAL" if self.share else "NONE"


def best_first(candidates: Iterable[AlignedDocument]) -> list[AlignedDocument]:
    """Returns `candidates` by label and share, ties in the order given."""
    return sorted(candidates, key=lambda candidate: -candidate.share)


def without_label(
    chosen: Sequence[AlignedDocument], seen: Iterable[AlignedDocument], label: str
) -> list[AlignedDocument]:
    """Returns `chosen` with the documents of `label` replaced by the best aligned others of `seen`."""
    remaining = [c for c in chosen if c.label != label]
    others = [c for c in best_first(seen) if c.label != label and c not in remaining]
    return remaining + others[: len(chosen) - len(remaining)]


def tally(seen: Sequence[AlignedDocument], final: Sequence[AlignedDocument]) -> dict[str, float]:
    """Counts the documents with each label, of all and of the final ones, and the conversion rates.

    The names are `full`, `full_final`, `full_rate` and so on.
    """
    every = {label.lower(): _count(seen, label) for label in LABELS}
    counts = {**every, **{f"{label.lower()}_final": _count(final, label) for label in LABELS}}
    return {**counts, **conversion([counts])}


def conversion(tallies: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns for each label the final documents as a share of all with the label: `full_rate` and so on.

    `tallies` are those of any number of questions; the rate of a label that no document has is absent.
    """
    per_question = list(tallies)
    names = [label.lower() for label in LABELS]
    every = {name: sum(tally[name] for tally in per_question) for name in names}
    final = {name: sum(tally[f"{name}_final"] for tally in per_question) for name in names}
    return {f"{name}_rate": final[name] / every[name] for name in names if every[name]}


def names_of(candidates: Sequence[AlignedDocument]) -> str:
    """Returns each document in words, by id and label."""
    return ", ".join(f"{candidate.passage.id} {candidate.label}" for candidate in candidates) or "none"


def _count(candidates: Sequence[AlignedDocument], label: Label) -> int:
    return sum(candidate.label == label for candidate in candidates)


SLOTS = (
    "subject", "predicate", "object", "predicative", "attributive", "adverbial", "complement", "apposition",
)  # fmt: skip
MAX_PARTS = 8
"""Components of one question, as many as an alignment can name."""


def components_of(reply: Any, question: str) -> tuple[str, ...]:
    """Returns the parts of a SyntacticParse that occur in `question`, each once; else the whole question.

    At most `MAX_PARTS`; further ones, and parts that do not occur, are dropped and counted.
    """
    components: dict[tuple[str, ...], str] = {}
    dropped = 0
    for slot in SLOTS:
        if part := str(getattr(reply, slot, "")).strip():
            parts, wrong = parts_in(part, question)
            dropped += wrong
            components |= {words_of(name): name for name in parts}
    counters.count(dropped=dropped + max(0, len(components) - MAX_PARTS))
    return tuple(components.values())[:MAX_PARTS] or (question,)


def to_candidate(reply: Any, components: Sequence[str], passage: Passage, query: str) -> AlignedDocument:
    """Returns the candidate that an aligning call's reply describes; drops and counts invalid claims.

    A match without a verdict counts; one that names sentence 0 says that there is none. A piece copied from
    another sentence than the one named counts. Without the output `synonyms` nothing is reworded.
    """
    n = len(components)
    text = format_passage(passage)
    claims = [match for match in reply.aligned if match.segment.strip() and getattr(match, "sentence", 1)]
    sound = [m for m in claims if m.component <= n and is_copied(m.segment, text)]
    real = {match.component for match in sound if getattr(match, "same", True)}
    others = reply.synonyms if "synonyms" in reply else ()
    counters.count(dropped=len(claims) - len(sound) + sum(other.component > n for other in others))
    wordings = {
        components[o.component - 1]: o.wording.strip()
        for o in others
        if o.component <= n and o.component not in real and o.wording.strip()
    }
    return AlignedDocument(passage, query, len(real) / n, wordings)


def reword(query: str, wordings: Mapping[str, str]) -> str:
    """Replaces in `query` every component of `wordings` that occurs there in one piece.

    Longest first if two overlap.
    """
    spans = [(*run, wording) for part, wording in wordings.items() if (run := find_run(part, query))]
    chosen: list[tuple[int, int, str]] = []
    for start, end, wording in sorted(spans, key=lambda span: span[0] - span[1]):
        if all(end <= other[0] or start >= other[1] for other in chosen):
            chosen.append((start, end, wording))
    for start, end, wording in sorted(chosen, reverse=True):
        query = query[:start] + wording + query[end:]
    return query


_QUERY_TEXT = 800
"""Characters of a document that become part of a query."""


class GGatrieval(SelectingProgram):
    """Parse, then up to `rounds` times: search, align, select, verify; then one cited answer.

    With the knob `asqa_sub_questions` the context's `sub_questions`, a list of texts, are used.
    """

    def __init__(self, runtime: Runtime, knobs: GGatrievalKnobs) -> None:
        super().__init__(runtime, knobs)
        self.local = self.cut_source("local")
        aligning = alignment if knobs.align_form == "parts" else sentence_alignment
        if knobs.crag_filter:
            self.grade = self.predictor(RelevanceGrade, max_tokens=24)
        self.parse = self.predictor(SyntacticParse, max_tokens=200)
        self.align = self.predictor(
            aligning(reflect=knobs.fga_reflect, reword=knobs.scqu and knobs.rounds > 1), max_tokens=900
        )
        self.condense = self.predictor(CondenseDocument, max_tokens=150)
        self.imagine = self.predictor(PseudoDocument, max_tokens=150)
        self.select = self.predictor(SelectDocuments, max_tokens=100)
        self.verify = self.verifying_call()
        self.answer = self.answer_call(self.reading(ShortAnswer))

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answers `question` from the documents chosen last."""
        narrower = self._sub_questions(context)
        full_question = with_sub_questions(question, narrower)
        parsed, new = await together(
            self.parse.try_call(question=question), self._candidates([question, *narrower], {})
        )
        parts = components_of(parsed, question)
        chosen: list[AlignedDocument] = []
        seen: dict[str, AlignedDocument] = {}
        rounds, ordered = 0, False
        while new:
            rounds += 1
            new = await together(*(self._inspect(question, full_question, parts, c) for c in new))
            seen |= {candidate.passage.id: candidate for candidate in new}
            labels = ", ".join(f"{_count(new, label)} {label}" for label in LABELS)
            record(Note(f"labels, round {rounds}", labels))
            relevant = [candidate for candidate in new if candidate.text]
            if relevant:
                browse = [*chosen, *self._rank(relevant)]
                ordered |= len(browse) > self.knobs.window
                chosen = await self.choose(full_question, browse, lambda one: one.text, self._rank(browse))
                record(Note(f"chosen, round {rounds}", names_of(chosen)))
            if rounds == self.knobs.rounds or (
                relevant and await self.is_sufficient(full_question, [c.text for c in chosen])
            ):
                break
            new = await self._candidates(await self._queries(question, chosen), seen)
        if self.knobs.fga_rerank and chosen and not ordered:
            record(Note("order", "no choice had more documents than a window holds, where order says little"))
        return await self._answer(full_question, chosen, list(seen.values()), rounds)

    def _sub_questions(self, context: dict[str, Any]) -> list[str]:
        """Returns the gold sub-questions, if they are used."""
        if not self.knobs.asqa_sub_questions:
            return []
        texts = [text for each in context.get("sub_questions") or () if (text := str(each).strip())]
        if not texts:
            record(Note("sub-questions", "none came with the question"))
        return texts

    async def _candidates(self, queries: Sequence[str], seen: dict[str, AlignedDocument]) -> Any:
        """Returns at most `candidates` documents, not in `seen`, from the queries' hits in turn."""
        n_candidates = self.knobs.candidates
        hit_lists: list[tuple[Hit, ...]] = await together(
            *(self.search("local", query, n_candidates + len(seen), source=self.local) for query in queries)
        )
        new: dict[str, AlignedDocument] = {}
        for row in zip_longest(*hit_lists):
            for query, hit in zip(queries, row, strict=True):
                if hit is not None and hit.passage.id not in seen:
                    new.setdefault(hit.passage.id, AlignedDocument(hit.passage, query))
        return list(new.values())[:n_candidates]

    async def _inspect(
        self, question: str, full_question: str, parts: tuple[str, ...], candidate: AlignedDocument
    ) -> AlignedDocument:
        """Returns `candidate` with its share and the text for choosing calls, computed concurrently.

        A candidate that the filter drops, or that is irrelevant, has no text.
        """
        if self.knobs.crag_filter and not await self._passes_filter(question, candidate):
            return replace(candidate, filtered=True)
        aligning = self._align(question, parts, candidate)
        if not self.knobs.doc_condense:
            return replace(await aligning, text=format_passage(candidate.passage))
        both: Any = await together(aligning, self.condensed(full_question, candidate.passage))
        aligned: AlignedDocument = both[0]
        return replace(aligned, text=both[1])

    async def _passes_filter(self, question: str, candidate: AlignedDocument) -> bool:
        """Returns whether CRAG's evaluator gives it at least `crag_keep`; an unreadable grade is 0."""
        reply = await self.grade.try_call(question=question, passage=format_passage(candidate.passage))
        return at_least("crag_keep", 0.0 if reply is None else reply.grade.points / 100, self.knobs.crag_keep)

    async def _align(
        self, question: str, parts: tuple[str, ...], candidate: AlignedDocument
    ) -> AlignedDocument:
        """Returns `candidate` with its share; it stays NONE when the reply is unreadable."""
        inputs: dict[str, Any] = {"question": question, "components": list(parts)}
        if self.knobs.align_form == "parts":
            reply = await self.align.try_call(**inputs, passage=format_passage(candidate.passage))
        else:
            reply = await self.align.try_call(**inputs, sentences=self._sentences(candidate.passage, inputs))
        return candidate if reply is None else to_candidate(reply, parts, candidate.passage, candidate.query)

    def _sentences(self, passage: Passage, inputs: Mapping[str, Any]) -> list[str]:
        """Returns the sentences of `passage`, its title first, as many as fit the aligning call."""
        whole = all_sentences(format_passage(passage)) or [""]
        fitting = self.shrink_to_fit(
            self.align,
            whole,
            lambda subset: {**inputs, "sentences": subset},
            lambda sentences: sentences[: len(sentences) * 9 // 10],
            budgeted=False,
        )
        return fitting or whole[:1]

    def _rank(self, new: Sequence[AlignedDocument]) -> list[AlignedDocument]:
        """Returns the best aligned first, ties as retrieved; all as retrieved with `fga_rerank` off."""
        return best_first(new) if self.knobs.fga_rerank else list(new)

    async def _queries(self, question: str, chosen: Sequence[AlignedDocument]) -> list[str]:
        """Returns the next round's queries, one a chosen document (SCQU); else the question."""
        if not self.knobs.scqu or not chosen:
            return [question]
        used = best_first(chosen)[:1] if self.knobs.scqu_scope == "best" else chosen
        queries = await together(*(self._query(question, candidate) for candidate in used))
        return list(dict.fromkeys(queries))

    async def _query(self, question: str, candidate: AlignedDocument) -> str:
        """Returns the question with the document if well aligned, else reworded with an imagined one."""
        query = candidate.query if self.knobs.scqu_base == "prevQ" else question
        if at_least("tau", candidate.share, self.knobs.tau):
            text = format_passage(candidate.passage)
        else:
            query = reword(query, candidate.wordings)
            reply = await self.imagine.try_call(query=query)
            text = "" if reply is None else reply.passage
        return f"{query}\n{text[:_QUERY_TEXT]}".strip()

    async def _answer(
        self, full_question: str, chosen: list[AlignedDocument], seen: list[AlignedDocument], rounds: int
    ) -> dspy.Prediction:
        """Returns the answer from the final documents, with the counts of labels."""
        relevant = [candidate for candidate in seen if candidate.text]
        final = without_label(chosen, relevant, self.knobs.drop_label)
        if final != chosen:
            record(Note(f"without {self.knobs.drop_label}", names_of(final)))
        prediction = await self.answer_chosen(full_question, [c.passage for c in final])
        filtered = sum(candidate.filtered for candidate in seen)
        more = {"irrelevant": len(seen) - len(relevant) - filtered, "filtered": filtered, "rounds": rounds}
        tallies = {**tally(seen, final[: len(prediction.passages)]), **more}
        return dspy.Prediction(answer=prediction.answer, passages=prediction.passages, tallies=tallies)
