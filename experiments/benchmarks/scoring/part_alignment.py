"""How well GGatrieval's aligning call finds the parts of a question that a passage has, and skips the others.

    python -m experiments.benchmarks.scoring.part_alignment RECIPE [--vary KNOB=VALUE ...]
        [--wording full|brief ...] [--limit N] [--set KEY=VALUE ...] [--out FILE]

The 40 pairs of `alignment_pairs.jsonl`, written and labelled by hand, have a question with its parts, a
passage, and for each part the pieces of the passage that say it, none where the passage does not. The target
[targets.main] of RECIPE aligns each pair, in each wording, with GGatrieval's defaults or, in turn,
with each KNOB=VALUE: `--vary align_form=parts align_form=sentences` compares two forms of the call. What
counts as aligned is what the program counts, after its checks.

FILE (part_alignment.jsonl) gets one JSON line a pair as soon as it is aligned; the same command goes on where
it was ended. Lines of another model or other prompts stay, and are not counted. Printed are with 95%
intervals, pairs counted as groups:

    absent    parts that the passage lacks, and that were not aligned
    present   parts that the passage has, and that were aligned with a piece that says them
    label     pairs with the right label of FULL, PARTIAL or NONE
    copies    segments with the words of the part itself, though the passage does not have them
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy

from experiments.benchmarks.scoring.resumed import Resumed
from ragc import recipe
from ragc.core import event_loop
from ragc.core.digest import digest
from ragc.errors import UsageError
from ragc.metrics.stats.intervals import mean_ci
from ragc.programs.base import format_passage
from ragc.programs.ggatrieval import METHOD, GGatrievalKnobs
from ragc.programs.ggatrieval.alignment import AlignedDocument, to_candidate
from ragc.programs.ggatrieval.copying import is_copied, key_of
from ragc.programs.ggatrieval.program import GGatrieval
from ragc.programs.knobs import WORDINGS, Value
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call
from ragc.records import Passage
from ragc.store.call_store import CallStore, open_store
from ragc.targets import build as build_target
from ragc.targets.base import Target
from ragc.testing import ListSource

SEED = 0
PAIRS = Path(__file__).with_name("alignment_pairs.jsonl")


@dataclass(frozen=True, slots=True)
class Pair:
    """A question with its parts and a passage; `pieces` are those of it that say each part, none for some."""

    id: str
    question: str
    passage: Passage
    parts: tuple[str, ...]
    pieces: tuple[tuple[str, ...], ...]

    @property
    def label(self) -> str:
        """FULL, PARTIAL or NONE."""
        return label_of([bool(pieces) for pieces in self.pieces])


@dataclass(frozen=True, slots=True)
class Aligned:
    """What a call said of a pair: whether each part counts as aligned, and the segments that it gave for it.

    `call` is a digest of the model and its prompt, `form` the knob that was varied. `readable` is False where
    the reply could not be read, and nothing is aligned.
    """

    call: str
    id: str
    wording: str
    form: str
    present: tuple[bool, ...]
    segments: tuple[tuple[str, ...], ...]
    readable: bool

    @property
    def key(self) -> tuple[str, ...]:
        """What no two lines share."""
        return (self.call, self.id)


def label_of(present: Sequence[bool]) -> str:
    """The label of a document of whose question these parts are there."""
    return "FULL" if all(present) else "PARTIAL" if any(present) else "NONE"


def read_pairs(path: Path = PAIRS) -> list[Pair]:
    """The labelled pairs."""
    pairs = []
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        passage = Passage(row["id"], row["title"], row["text"])
        parts = tuple(part["part"] for part in row["parts"])
        pieces = tuple(tuple(part["pieces"]) for part in row["parts"])
        pairs.append(Pair(row["id"], row["question"], passage, parts, pieces))
    return pairs


def knob_of(text: str) -> dict[str, Value]:
    """The knob and the value of `KNOB=VALUE`; nothing for "". Raises UnknownName and UsageError."""
    if not text:
        return {}
    name, sign, value = text.partition("=")
    if not sign:
        raise UsageError(f"--vary takes KNOB=VALUE, found {text!r}; for instance wording=brief.")
    knob = GGatrievalKnobs.knob(name)
    words: Mapping[str, Value] = {"true": True, "false": False}
    numbers: Mapping[str, Any] = {"int": int, "float": float}
    read: Any = numbers.get(knob.kind, lambda word: words.get(word, word))
    try:
        return {name: knob.check(read(value))}
    except ValueError:
        return {name: knob.check(value)}


class AligningAlone(GGatrieval):
    """GGatrieval as far as the alignment of given parts with one passage."""

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Aligns the context's `parts` with its `passage`; the trace has the reply."""
        passage: Passage = context["passage"]
        await self._align(question, context["parts"], AlignedDocument(passage, question))
        return dspy.Prediction(answer="", passages=())


def program_of(target: Target, store: CallStore, wording: str, form: str) -> AligningAlone:
    """The aligning call on `target` in a wording, with the knob that `form` sets."""
    runtime = Runtime({"main": target}, {"local": ListSource([])}, store=store)
    program = AligningAlone(runtime, GGatrievalKnobs.of({"wording": wording, **knob_of(form)}))
    program.method = METHOD
    return program


def name_of(program: AligningAlone) -> str:
    """A digest of the model of `program` and of the prompt of its aligning call."""
    call = program.align
    inputs = {
        name: [] if "list" in str(info.annotation) else ""
        for name, info in call.signature.input_fields.items()
    }
    prompt = [message.content for message in call.messages(**inputs)]
    return digest([program.runtime.target("main").identity, prompt])[:16]


async def align(program: AligningAlone, pair: Pair, form: str) -> Aligned:
    """What `program` says of `pair`."""
    prediction = await program.acall(question=pair.question, parts=pair.parts, passage=pair.passage)
    calls = [event for event in prediction.trace if isinstance(event, Call)]
    matches = [_as_object(match) for match in calls[0].outputs["aligned"]] if calls else []
    of_part = [[m for m in matches if m.component == number] for number in range(1, len(pair.parts) + 1)]
    present = [
        to_candidate(dspy.Prediction(aligned=own), pair.parts, pair.passage, pair.question).share > 0
        for own in of_part
    ]
    segments = [[match.segment for match in own if match.segment.strip()] for own in of_part]
    return Aligned(
        name_of(program),
        pair.id,
        program.knobs.wording,
        form,
        tuple(present),
        tuple(map(tuple, segments)),
        bool(calls),
    )


def _as_object(match: Any) -> Any:
    """A match of a reply, which a trace may hold as a JSON object."""
    return SimpleNamespace(**match) if isinstance(match, Mapping) else match


async def align_all(
    target: Target,
    pairs: Sequence[Pair],
    out: Path,
    *,
    store: CallStore,
    forms: Sequence[str],
    wordings: Sequence[str],
) -> list[Aligned]:
    """What the target says of every pair; lines that `out` lacks are made and added to it."""
    await target.open(None)
    free = asyncio.Semaphore(target.concurrency)
    programs = [(program_of(target, store, wording, form), form) for wording in wordings for form in forms]
    with Resumed(out) as lines:
        there = {one.key: one for one in map(_aligned, lines.there)}

        async def one(program: AligningAlone, form: str, pair: Pair) -> Aligned:
            known = there.get((name_of(program), pair.id))
            if known is not None:
                return known
            async with free:
                aligned = await align(program, pair, form)
            lines.add(asdict(aligned))
            return aligned

        return await asyncio.gather(*(one(*program, pair) for pair in pairs for program in programs))


def _aligned(row: Mapping[str, Any]) -> Aligned:
    return Aligned(
        **{**row, "present": tuple(row["present"]), "segments": tuple(map(tuple, row["segments"]))}
    )


def says_part(segments: Iterable[str], pieces: Iterable[str]) -> bool:
    """Whether a segment holds one of the `pieces` word for word, or stands in it."""
    return any(
        is_copied(piece, segment) or is_copied(segment, piece) for segment in segments for piece in pieces
    )


def report(aligned: Iterable[Aligned], pairs: Sequence[Pair]) -> Iterator[str]:
    """The figures of each wording and form."""
    by_id = {pair.id: pair for pair in pairs}
    groups: dict[tuple[str, str], list[Aligned]] = {}
    for one in aligned:
        groups.setdefault((one.wording, one.form), []).append(one)
    for (wording, form), group in groups.items():
        unread = sum(not one.readable for one in group)
        yield f"{wording}{f', {form}' if form else ''}: {len(group)} pairs, {unread} replies not readable"
        yield from _figures([(by_id[one.id], one) for one in group])


def _figures(group: Sequence[tuple[Pair, Aligned]]) -> Iterator[str]:
    absent, present, copies = list[tuple[str, bool]](), list[tuple[str, bool]](), list[tuple[str, bool]]()
    for pair, one in group:
        text = format_passage(pair.passage)
        for part, pieces, aligned, segments in zip(
            pair.parts, pair.pieces, one.present, one.segments, strict=True
        ):
            copies += [(pair.id, key_of(s) == key_of(part) and not is_copied(part, text)) for s in segments]
            if pieces:
                present.append((pair.id, aligned and says_part(segments, pieces)))
            else:
                absent.append((pair.id, not aligned))
    labels = [(pair.id, label_of(one.present) == pair.label) for pair, one in group]
    for name, flags in (("absent", absent), ("present", present), ("label", labels), ("copies", copies)):
        yield f"  {name:<8} {_share(flags)}"


def _share(flags: Sequence[tuple[str, bool]]) -> str:
    if not flags:
        return "none"
    result = mean_ci([float(flag) for _, flag in flags], seed=SEED, groups=[id for id, _ in flags])
    counted = f"{sum(flag for _, flag in flags)} of {len(flags)}"
    return f"{result.mean:.3f} [{result.low:.3f}, {result.high:.3f}]  {counted}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--vary", nargs="+", default=("",), metavar="KNOB=VALUE")
    parser.add_argument("--wording", nargs="+", choices=WORDINGS, default=WORDINGS)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--out", type=Path, default=Path("part_alignment.jsonl"))
    args = parser.parse_args(arguments)
    target = build_target(recipe.load(args.recipe, args.sets).target_specs()["main"])
    pairs = read_pairs()[: args.limit]
    aligned = event_loop.run(
        align_all(target, pairs, args.out, store=open_store(), forms=args.vary, wordings=args.wording)
    )
    print(target.name)
    print("\n".join(report(aligned, pairs)))


if __name__ == "__main__":
    main()
