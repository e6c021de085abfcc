"""The first screen of a report: what changed, with which model, when and at what cost."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragc.compiled.base import CompiledProgram
from ragc.core.redact import redact, shorten
from ragc.errors import RagcError
from ragc.optimizers.candidates.space import Candidate
from ragc.programs import METHODS
from ragc.reports.report import BudgetLine, CostRow, ReportFact, Setting, ShownPrompt, Trial
from ragc.reports.row_files import RunRows
from ragc.reports.study import params_of
from ragc.reports.values import amount, entries, mapping, money, number, text, totals, written_amount

SUMMARY = "summary"
"""The section of the facts that stand on the first screen."""

MAX_SETTING = 300
"""Characters of the value of a setting."""

MAX_PREDICTORS = 30
"""Predictors whose prompts a report holds."""

MAX_SEARCHED = 200
"""Questions that are looked through for the prompts of a predictor."""

_LABELS = {"demos": "demonstrations", "demo_set": "demonstration set"}
_DERIVED = "demo_set"


def settings_of(
    program: CompiledProgram | None, trials: Sequence[Trial], provenance: Mapping[str, Any], recipe: str
) -> Iterator[Setting]:
    """Yields what changed from the baseline to the compiled program, or to a study's best trial."""
    chosen = next((trial for trial in trials if trial.chosen), None)
    if trials and chosen:
        before: Mapping[str, Any] = trials[0].params
        after: Mapping[str, Any] = chosen.params
    elif program:
        before, after = _defaults(program, recipe), _compiled(program, provenance)
    else:
        return
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old == new or name == _DERIVED:
            continue
        if not trials and name not in before and name not in ("demos", "program"):
            old = ""
        label = _LABELS.get(name, name.replace("target ", "model of "))
        yield Setting(label, _written(old, name), _written(new, name))


def _written(value: Any, name: str) -> str:
    """Returns `value` for people; a missing one means the program's own."""
    if value is None:
        return "0" if name == "demos" or name.endswith(": demos") else "as in the program"
    if isinstance(value, bool):
        return "on" if value else "off"
    return shorten(redact(f"{value:,.4g}" if isinstance(value, float) else str(value)), MAX_SETTING) or "none"


def _compiled(program: CompiledProgram, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the choices of a compiled program, by its provenance or as far as its state shows them."""
    candidate = mapping(mapping(provenance.get("search")).get("candidate"))
    try:
        return params_of(Candidate.of(candidate)) | dict(program.state.knobs)
    except (KeyError, TypeError, ValueError, AttributeError):
        counts = {len(held.demos) for held in program.state.predictors.values()}
        return {**program.state.knobs, "demos": " to ".join(map(str, sorted({min(counts), max(counts)})))}


def _defaults(program: CompiledProgram, recipe: str) -> dict[str, Any]:
    """Returns the settings before a compile: the defaults of ragc's program, and those of the recipe."""
    entry = next((one for one in METHODS if program.state.method in (one.id, *one.also)), None)
    if entry is None:
        return {}
    try:
        knobs = mapping(tomllib.loads(recipe).get("knobs"))
        return {**entry.knobs.of(knobs).to_json(), "demos": 0}
    except (tomllib.TOMLDecodeError, RecursionError, RagcError, TypeError):
        return {}


def facts_of_summary(
    *,
    provenance: Mapping[str, Any],
    run: Mapping[str, Any],
    recipe: str,
    questions: int,
    split: str,
    costs: Sequence[CostRow],
    budget: Sequence[BudgetLine],
) -> Iterator[ReportFact]:
    """Yields model, date, questions, dollars and seconds, as far as they are known."""
    if models := _models(provenance, recipe):
        yield ReportFact(SUMMARY, "model" if len(models) == 1 else "models", ", ".join(models))
    if run.get("finished"):
        yield ReportFact(SUMMARY, "date", text(run["finished"])[:16].replace("T", " "))
    data = mapping(provenance.get("data"))
    sizes = {name: int(amount(mapping(data.get(name)).get("n"))) for name in ("test", "dev", "train")}
    listed = [f"{n:,} {name}" for name, n in sizes.items() if n]
    if listed or questions:
        yield ReportFact(
            SUMMARY,
            "questions",
            ", ".join(listed) or f"{questions:,} {split if split != 'rows' else ''}".strip(),
        )
    charged = {line.kind: line.spent for line in budget}
    total = costs[0].amounts if provenance and costs else totals(cost.amounts for cost in costs)
    counted = number(mapping(provenance.get("counters")).get("usd"))
    charges = mapping(run.get("charged"))  # of a compiled program without its study
    counted = amount(charges.get("usd")) if charges else number(total.get("usd", counted))
    if (usd := charged.get("US dollars", counted)) is not None:
        yield ReportFact(SUMMARY, "dollars", money(usd))
    calls = charged.get("LM calls", amount(charges.get("calls")) or total.get("lm_calls"))
    if calls:
        yield ReportFact(SUMMARY, "LM calls", written_amount(calls))
    summed = total.get("prompt_tokens", 0) + total.get("completion_tokens", 0)
    if tokens := charged.get("tokens", amount(charges.get("tokens")) or summed):
        yield ReportFact(SUMMARY, "tokens", written_amount(tokens))
    seconds = amount(run.get("seconds")) or 60 * charged.get("minutes", 0)
    if seconds:
        yield ReportFact(SUMMARY, "seconds", f"{seconds:,.1f}")


def _models(provenance: Mapping[str, Any], recipe: str) -> list[str]:
    """Returns the names of the models by role, by the provenance or the recipe."""
    held = {role: text(mapping(one).get("name")) for role, one in mapping(provenance.get("targets")).items()}
    if not held:
        try:
            targets = mapping(tomllib.loads(recipe).get("targets"))
        except (tomllib.TOMLDecodeError, RecursionError):
            return []
        held = {
            role: text(mapping(one).get("model")) or text(mapping(one).get("kind"))
            for role, one in targets.items()
        }
    named = {role: redact(name) for role, name in held.items() if name}
    if len(set(named.values())) == 1:
        return [next(iter(named.values()))]
    return [f"{name} ({role})" for role, name in named.items()]


def prompts_of(runs: Sequence[RunRows]) -> Iterator[ShownPrompt]:
    """Yields for every run the messages of each predictor for one question, the same question if possible."""
    if not runs:
        return
    shared = [key for key in runs[0].run.answered if all(key in one.run.answered for one in runs)]
    wanted: list[str] = []
    for one in runs:
        keys = [*wanted, *shared, *one.run.answered] if one.answered else []
        seen: dict[str, ShownPrompt] = {}
        with one.source.opened() as get:
            for key in dict.fromkeys(keys[:MAX_SEARCHED]):
                if key in one.answered:
                    for prompt in _prompts_in(one.name, key, get(key)):
                        seen.setdefault(prompt.predictor, prompt)
                if seen:
                    break
        wanted += [prompt.question for prompt in seen.values()]
        yield from list(seen.values())[:MAX_PREDICTORS]


def _prompts_in(run: str, question: str, row: Mapping[str, Any]) -> Iterator[ShownPrompt]:
    for event in map(mapping, entries(row.get("trace"))):
        messages = [mapping(message) for message in entries(mapping(event.get("sent")).get("messages"))]
        if "call" in event and messages:
            written = tuple(
                {"role": text(m.get("role")), "content": text(m.get("content"))} for m in messages
            )
            yield ShownPrompt(run, text(event["call"]), question, written)
