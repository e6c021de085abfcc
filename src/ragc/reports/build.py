"""Builds a report on a study, a compiled directory, or files of rows.

- A study: trials, best so far, dev scores by question; after its end verdict and test rows.
- A compiled directory: verdict, scores, thresholds, provenance; and its study, if this machine has it.
- Rows: answers by question with traces; of two files or more the first and the last are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc.compiled import base as programs
from ragc.compiled.base import CompiledProgram
from ragc.core.display import dollars, quantity
from ragc.core.files import read_bytes
from ragc.core.redact import redact, shorten
from ragc.errors import UsageError
from ragc.programs import METHODS
from ragc.recipe import Recipe
from ragc.recipe.load import parse_partly
from ragc.reports import compiled, questions, study, verdicts
from ragc.reports.compiled import Measured
from ragc.reports.failures import deciding_metric
from ragc.reports.questions import Run
from ragc.reports.report import Report, Trial, amount, total
from ragc.reports.study import StudyFiles


@dataclass(frozen=True, slots=True)
class Subject:
    """What a report is about. `runs` are those of files of rows, in the order in which they were named."""

    title: str
    runs: list[Run]
    recipe: Recipe | None = None
    program: CompiledProgram | None = None
    study: StudyFiles | None = None
    measured: Measured = field(default_factory=Measured)

    @property
    def is_compiled(self) -> bool:
        """Whether a compile ended with the program that the report is about."""
        return bool(self.program or (self.study and self.study.measured))


def build(paths: Sequence[str | Path], *, trust_targets: bool = False) -> Report:
    """Builds the report on `paths`: at most one study or compiled directory, and files of rows.

    Raises UsageError, and ArtefactError or DataError for unreadable files.
    """
    subject = read(paths, trust_targets=trust_targets)
    files, measured = subject.study, subject.measured
    split, runs = ("rows", subject.runs) if subject.runs else study.runs_of(files) if files else ("", [])
    questions.check_same_data(runs)
    metric, objectives = _metric(subject, runs)
    metrics = questions.metrics_of(runs, [metric, *objectives])
    lines = questions.questions_of(runs, metric)
    outcomes = list(questions.groups_of(runs, lines))
    trials = list(study.trials_of(files)) if files else []
    more_is_better = objectives.get(metric, True)

    scores = list(compiled.scores(measured))
    gaps = list(compiled.differences(measured, metric))
    if subject.runs or not subject.is_compiled:
        scores += questions.scores_of(runs, split, metrics)
        gaps += questions.differences_of(runs[0].scored, runs[-1].scored, split, metrics) if runs[1:] else []
    splits = list(dict.fromkeys(score["split"] for score in scores))
    amounts = {
        "the compile, cached calls included": {name: n for name, n in measured.counters.items() if n},
        "last run on this machine": measured.run.model_dump(
            include={"sent", "replayed", "seconds"}, exclude_none=True
        ),
        f"all {len(trials)} trials, cached calls included": total(trial.counters for trial in trials),
    }
    for run in runs if split != "dev" else ():
        amounts[run.name] = total(row.counters for row in run.scored.answered.values())
    costs = [{"part": part, "amounts": spent} for part, spent in amounts.items() if spent]
    budget = study.budget_of(files) if files else []
    facts = {"summary": _summary(subject, len(lines), split, costs, budget), **_facts(subject)}
    remarks = tuple(_remarks(subject, split, trials))
    if subject.is_compiled:
        verdict = verdicts.compiled_verdict(measured, metric, gaps, scores)
    elif files:
        verdict = verdicts.unfinished(files, metric, trials)
    else:
        cautions = [remark for remark in remarks if remark == verdicts.DEV_ROWS]
        verdict = verdicts.compared(metric, scores, gaps, outcomes, cautions)
    return Report(
        title=subject.title,
        subject="compiled" if subject.program else "study" if files else "rows",
        verdict=verdict,
        metric=metric,
        split=split,
        runs=tuple(run.name for run in runs),
        objectives=objectives,
        metrics=metrics,
        remarks=remarks,
        gaps=_gaps(subject, runs, split, trials),
        questions=lines,
        records={
            "setting": list(_settings(subject, trials)),
            "changes": questions.changes_of(runs, metric, lines),
            "score": sorted(
                scores, key=lambda score: (splits.index(score["split"]), score["metric"] != metric)
            ),
            "difference": sorted(gaps, key=lambda gap: gap.metric != metric),
            "trial": trials,
            "importance": study.importances(trials, metric, more_is_better=more_is_better),
            "slice": list(study.slices(trials, metric, more_is_better=more_is_better)),
            "threshold": [fit.model_dump() for fit in measured.search.calibration],
            "front": compiled.front(measured),
            "cost": costs,
            "budget": budget,
            "group": outcomes,
            "fact": [
                {"section": section, "name": name, "value": value}
                for section, named in facts.items()
                for name, value in named.items()
                if value
            ],
        },
    )


def read(paths: Sequence[str | Path], *, trust_targets: bool = False) -> Subject:
    """Reads everything that `paths` name. Raises what `build` raises."""
    rows = [Path(path) for path in paths if str(path).endswith(".jsonl")]
    others = [Path(path) for path in paths if not str(path).endswith(".jsonl")]
    if not paths or len(others) > 1:
        raise UsageError(
            "A report is about one study or compiled directory, files of rows, or both; found "
            f"{len(others)} directories. To compare two programs, score each with `ragc eval --out` and name "
            "both files."
        )
    names = questions.distinct_names([path.stem for path in rows])
    runs = [Run.read(path, name) for path, name in zip(rows, names, strict=True)]
    if not others:
        return Subject(" and ".join(names), runs)
    path = others[0]
    if (path / "program.json").is_file() or (path.suffix == programs.PACKED and path.is_file()):
        program = programs.load(path)
        measured = Measured.of(program.provenance, program.run, path)
        recipe = parse_partly(program.recipe, where=str(path / "recipe.toml"), base=path)[0]
        return Subject(path.resolve().name, runs, recipe, program, study.study_of(path, measured), measured)
    if path.is_file() and path.suffix != ".toml":
        raise UsageError(
            f"{path} is no study, no compiled directory and no file of rows; rows end in .jsonl, as "
            "`ragc eval --out` writes them."
        )
    files = study.read_study(path, trust_targets=trust_targets)
    return Subject(path.resolve().name, runs, files.recipe, None, files, files.measured or Measured())


def _metric(subject: Subject, runs: Sequence[Run]) -> tuple[str, dict[str, bool]]:
    """Returns the deciding metric, and the objectives with whether more is better."""
    if subject.recipe:
        search = subject.recipe.search
        return search.pick_name, {name.removeprefix("-"): name[0] != "-" for name in search.objectives}
    shared = [name for name in questions.metrics_of(runs) if all(name in run.scored.metrics for run in runs)]
    first = deciding_metric([{"scores": dict.fromkeys(runs[0].scored.metrics)}])
    metric = first if first in shared else next(iter([*shared, *questions.metrics_of(runs)]), "")
    return metric, {metric: questions.metric_of(metric)[0]} if metric else {}


def _settings(subject: Subject, trials: Sequence[Trial]) -> Iterator[dict[str, str]]:
    """Yields what changed from the baseline to the compiled program, or to a study's best trial.

    `before` is "" if the baseline's value is unknown.
    """
    program, chosen = subject.program, next((trial for trial in trials if trial.chosen), None)
    if chosen:
        before, after = trials[0].params, chosen.params
    elif program and subject.recipe:
        entry = next((entry for entry in METHODS if program.state.method in (entry.id, *entry.also)), None)
        before = {**entry.knobs.of(subject.recipe.fixed(entry)).to_json(), "demos": 0} if entry else {}
        candidate = subject.measured.search.candidate
        shown = {"demos": max(len(call.demos) for call in program.state.predictors.values())}
        after = {**(study.params_of(candidate) if candidate else shown), **program.state.knobs}
    else:
        return
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old != new and name != "demo_set":
            is_unknown = not chosen and name not in before and name not in ("demos", "program")
            label = "demonstrations" if name == "demos" else name.replace("target ", "model of ")
            first = "" if is_unknown else _shown(old, name)
            yield {"name": label, "before": first, "after": _shown(new, name)}


def _shown(value: Any, name: str) -> str:
    """Returns the value of a setting for people; a missing one means the program's own."""
    if value is None:
        return "0" if name == "demos" or name.endswith(": demos") else "as in the program"
    if isinstance(value, bool):
        return "on" if value else "off"
    return shorten(redact(f"{value:,.4g}" if isinstance(value, float) else str(value))) or "none"


def _summary(
    subject: Subject,
    questions: int,
    split: str,
    costs: Sequence[Mapping[str, Any]],
    budget: Sequence[Mapping[str, Any]],
) -> dict[str, str]:
    """Returns model, date, questions, dollars and seconds for the first screen, as far as they are known."""
    measured, run = subject.measured, subject.measured.run
    models = {role: target.name for role, target in measured.targets.items()}
    if not models and subject.recipe:
        models = {role: spec.model or spec.kind for role, spec in subject.recipe.targets.items()}
    several = len(set(models.values())) > 1
    named = dict.fromkeys(f"{name} ({role})" if several else name for role, name in models.items())
    sizes = {name: measured.data[name].n for name in ("test", "dev", "train") if name in measured.data}
    amounts = measured.counters or total(cost["amounts"] for cost in costs)
    tokens = amounts.get("prompt_tokens", 0) + amounts.get("completion_tokens", 0)
    spent = {"LM calls": amounts.get("lm_calls", 0), "tokens": tokens, "US dollars": amounts.get("usd", -1)}
    spent |= {line["kind"]: line["spent"] for line in budget}
    seconds = run.seconds or 60 * spent.get("minutes", 0)
    return {
        "models" if several else "model": ", ".join(map(redact, named)),
        "date": run.finished[:16].replace("T", " "),
        "questions": ", ".join(f"{n:,} {name}" for name, n in sizes.items() if n)
        or (f"{questions:,} {split.removeprefix('rows')}".strip() if questions else ""),
        "dollars": dollars(spent["US dollars"]) if spent["US dollars"] >= 0 else "",
        "LM calls": amount(spent["LM calls"]) if spent["LM calls"] else "",
        "tokens": amount(spent["tokens"]) if spent["tokens"] else "",
        "seconds": f"{seconds:,.1f}" if seconds else "",
    }


def _facts(subject: Subject) -> dict[str, dict[str, str]]:
    """Returns where the figures come from, by section."""
    program, recipe, measured = subject.program, subject.recipe, subject.measured
    prompts, rows = {}, {}
    if program and program.path:
        for name in program.state.predictors:
            with suppress(OSError):
                content = read_bytes(program.path / "prompts" / f"{name}.md", within=program.path)
                prompts[name] = content.decode("utf-8", "replace")
    for run in subject.runs:
        backends = {name for row in run.scored.answered.values() for name in row.backends.values()}
        judged = f", judged by {', '.join(sorted(backends))}" if backends else ""
        rows[run.name] = f"{quantity(len(run.rows), 'question')}{judged}"
    knobs = {"method": program.state.method, **program.state.knobs} if program else {}
    text = program.recipe if program else recipe.to_toml() if recipe else ""
    return {
        "study": study.facts_of(subject.study) if subject.study else {},
        "program": {name: str(value) for name, value in knobs.items()},
        "data": {
            name: f"{split.n:,} questions, {split.fingerprint[:16]}" for name, split in measured.data.items()
        },
        "sources": {
            name: f"{source.kind}, {source.fingerprint[:16]}" for name, source in measured.sources.items()
        },
        "models": {name: redact(target.name) for name, target in measured.targets.items()},
        "versions": measured.versions,
        "run": {
            "seed": "" if measured.seed is None else str(measured.seed),
            "finished": measured.run.finished,
            "machine": measured.run.machine,
        },
        "recipe": {"recipe.toml": redact(text)},
        "prompts": prompts,
        "rows": rows,
    }


def _remarks(subject: Subject, split: str, trials: Sequence[Trial]) -> Iterator[str]:
    """Yields what the figures cannot show."""
    for run in subject.runs:
        labelled = run.agreement.remarks if run.agreement else ()
        yield from (f"{run.name}: {remark}" for remark in (*run.scored.remarks, *labelled))
    if any(row.get("split") == "dev" for run in subject.runs for row in run.rows.values()):
        yield verdicts.DEV_ROWS
    if split == "test":
        yield "Whoever chooses a setting by these test questions spends them: the next one needs others."
    if split == "dev" or (trials and not subject.is_compiled):
        yield verdicts.OPTIMISM_NOTE
    yield from compiled.limit_lines(subject.measured)
    yield from (*subject.measured.remarks, *subject.measured.search.remarks)


def _gaps(subject: Subject, runs: Sequence[Run], split: str, trials: Sequence[Trial]) -> tuple[str, ...]:
    """Returns what the report lacks and how to get it, such as questions that a licence forbids to copy."""
    files, rows = subject.study, [row for run in runs for row in run.scored.answered.values()]
    is_script, is_over = bool(files and files.is_script), not files or files.status.state == "finished"
    first, last = (shorten(run.name, verdicts.MAX_NAME) for run in (runs[0], runs[-1])) if runs else ("", "")
    lacking = {
        "Of the dev questions a study records the scores of every trial, not the answers; "
        "`ragc eval --split dev --out rows.jsonl` writes those.": split == "dev",
        "Of an Optuna script of your own the values of trials are stored, and no answers.": not runs
        and is_script,
        "A compiled directory holds scores, not answers, and its study is not on this machine. "
        "`ragc eval COMPILED --out rows.jsonl` answers again, from stored replies where it can; name that "
        "file too.": not runs and is_over and not is_script,
        "No question was answered by any finished trial yet.": not (runs or is_over or is_script),
        f"{last}, named last, is tested against {first}, named first. The other programs are shown next to "
        "them without a test; name two files to test two of them.": len(runs) > 2,
        "The rows hold no questions, so their ids are shown. A trace may repeat a question.": rows
        and not any(row.question for row in rows),
        "The rows hold no gold answers, so no answer is marked in passages.": rows
        and not any(row.answers for row in rows),
        "There are no trials to show: none has ended, or an optimizer made them that records none.": files
        and not trials,
    }
    return tuple(sentence for sentence, is_so in lacking.items() if is_so)
