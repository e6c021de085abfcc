"""Which source a step searches: the preferred one first, another when that one adds nothing.

Paper: PrefRAG, section 3.2 (retrieval source selection) and appendices A.4 (the preference in words) and
E (more than two sources). What is compared follows the authors' code: nothing at the first search, then
by the question, with all passages known so far.
Differs: a comparison that cannot be read is a no (the code looks for "true" in its text); where the
preferred source finds nothing the other one is asked without a comparison; of several sources a step may
name the preferred one, which any may be, and what that finds is kept, as there is none to switch to; a
confidence in place of true or false is ours, and so is `no_repeats`: a query that is asked again goes to a
source that was not asked for it, without a comparison, which is no switch, and is dropped when all were.
Without `pref` only the preferred source is searched, or with `free_choice` the one that the step names (the
paper's ablation does not say).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragc.errors import UsageError
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.prefrag import PrefRagKnobs
from ragc.programs.prefrag.trajectory import RunState, collect_passages, number_passages, render_passages
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, above, record
from ragc.records import Passage
from ragc.signatures.grade import comparison

_SOURCE_DESCRIPTIONS = {"local": "a curated collection", "web": "pages of the open web"}
_COUNT_NAMES = ("total_local", "total_web", "switches", "repeats", "supplements")


def _source_names(runtime: Runtime, knobs: PrefRagKnobs) -> tuple[str, ...]:
    """Returns the sources that may be searched, the preferred one first; raises UsageError."""
    first, known = knobs.preferred_source, tuple(runtime.sources)
    if first not in known:
        raise UsageError(
            f"The knob preferred_source asks for a source named {first!r}, found "
            f"{', '.join(known) or 'none'}; add [sources.{first}] or choose another preferred_source."
        )
    if not knobs.pref and not knobs.free_choice:
        return (first,)
    others = tuple(name for name in known if name != first)
    if not others:
        knob = "pref" if knobs.pref else "free_choice"
        raise UsageError(
            f"The knob {knob} needs a source beside {first!r} and there is none; "
            f"add [sources.{'local' if first == 'web' else 'web'}] or set {knob} to false."
        )
    return (first, *others)


def _actions(names: Sequence[str], knobs: PrefRagKnobs, *, compares: bool) -> dict[str, tuple[str, str]]:
    """Returns by action the source that it searches and its description for the model."""
    if len(names) == 1 or (compares and len(names) == 2):
        return {"search": (names[-1], "finds passages for a short query")}
    descriptions = {name: f"searches {_SOURCE_DESCRIPTIONS.get(name, name)}" for name in names}
    first, *others = names
    if compares:
        descriptions |= {
            name: f"finds passages, if need be in {_SOURCE_DESCRIPTIONS.get(name, name)}" for name in others
        }
    elif knobs.pref:
        descriptions[first] += "; prefer this one, use others only for what it does not have"
    return {f"search_{name}": (name, about) for name, about in descriptions.items()}


class SourceChoice(RagProgram):
    """Searches of a preferred source and others, and the choice between them.

    `tools` has by action its source and its description for the model.
    """

    def __init__(self, runtime: Runtime, knobs: PrefRagKnobs) -> None:
        super().__init__(runtime, knobs)
        self.used = {name: self.cut_source(name) for name in _source_names(runtime, knobs)}
        self.compares = knobs.pref and knobs.pref_style == "module"
        self.tools = _actions(tuple(self.used), knobs, compares=self.compares)
        if self.compares:
            self.compare = self.predictor(comparison(knobs.source_check), max_tokens=256)

    @property
    def first_source(self) -> str:
        """Returns the source that is searched first."""
        return next(iter(self.used))

    async def search_preferred_first(
        self, run: RunState, name: str, query: str
    ) -> tuple[Passage, ...] | None:
        """Returns the preferred source's passages if they add something, else those of the source `name`.

        With `no_repeats` a search is not repeated: the first source that was not searched for `query` is
        searched instead. None when all were.
        """
        unasked = [source for source in self.used if not self._was_searched(run, source, query)]
        if not unasked:
            return None
        first = self.first_source
        preferred = first if self.compares and name != first else name
        if preferred not in unasked:
            other = name if name in unasked else unasked[0]
            run.counts["repeats"] += 1
            record(Note("repeat", f"{preferred} was searched for this, {other} was not"))
            return await self.search_source(run, other, query)
        passages = await self.search_source(run, preferred, query)
        if preferred == name or (passages and await self._adds_information(run, query, passages)):
            return passages
        run.counts["switches"] += 1
        record(Note("switch", f"{first} to {name}"))
        return await self.search_source(run, name, query)

    def _was_searched(self, run: RunState, name: str, query: str) -> bool:
        """Returns whether a search is skipped as a repetition."""
        return self.knobs.no_repeats and (name, query.casefold()) in run.searches

    async def _adds_information(self, run: RunState, query: str, passages: tuple[Passage, ...]) -> bool:
        """Returns whether `passages` add to known ones; the first do, unless they are compared too."""
        known = collect_passages(run.turns)
        if not known and not self.knobs.compare_first:
            return True
        key = run.question if self.knobs.compare_key == "question" else query
        return await self.add_something(self._comparison_inputs(key, known, passages))

    async def add_something(self, inputs: Mapping[str, Any]) -> bool:
        """Returns whether the new passages among `inputs` of the comparison add to the known ones."""
        reply = await self.compare.try_call(**inputs)
        if reply is None:
            return False
        if self.knobs.source_check == "status":
            return bool(reply.status)
        sure, least = reply.confidence / 100, self.knobs.source_check_threshold
        return above("source_check_threshold", sure, least)

    def _comparison_inputs(
        self, question: str, known: tuple[Passage, ...], new: tuple[Passage, ...]
    ) -> dict[str, Any]:
        """Returns the comparison's inputs, cut to fit: the oldest of `known` first, then the last of `new`.

        The first of `new` stays: the call cuts it when it does not fit alone. The numbers of `new` continue
        those
        of `known`, and a passage in both has one number. A program compiled before passages were numbered
        through gets lists.
        """
        call = self.compare
        numbered = call.signature.input_fields["new"].annotation is str

        def inputs(known: Sequence[Passage], new: Sequence[Passage]) -> dict[str, Any]:
            if not numbered:
                known_texts, new_texts = ([format_passage(p) for p in passages] for passages in (known, new))
                return {"question": question, "known": known_texts, "new": new_texts}
            numbers = number_passages((*known, *new))
            return {
                "question": question,
                "known": render_passages(known, numbers),
                "new": render_passages(new, numbers),
            }

        known = self.shrink_to_fit(call, known, lambda less: inputs(less, new), lambda less: less[1:])
        shown_new = self.shrink_to_fit(call, new, lambda less: inputs(known, less))
        return inputs(known, shown_new or new[:1])

    async def search_source(self, run: RunState, name: str, query: str) -> tuple[Passage, ...]:
        """Searches the source `name` for `query`, and counts the search."""
        run.searches.add((name, query.casefold()))
        kind = "local" if name == "local" else "web"
        run.counts[f"total_{kind}"] += 1
        k = self.knobs.k_local if kind == "local" else self.knobs.k_web
        hits = await self.search(name, query, k, source=self.used[name])
        return tuple(hit.passage for hit in hits)

    def tallies(self, run: RunState) -> dict[str, int]:
        """Returns how often each source was searched, and how often its passages were used."""
        counts = {name: run.counts[name] for name in _COUNT_NAMES}
        unused = counts["switches"] if self.first_source == "local" else 0
        counts["used_local"] = counts["total_local"] - unused
        counts["used"] = counts["total_local"] + counts["total_web"] - counts["switches"]
        return counts
