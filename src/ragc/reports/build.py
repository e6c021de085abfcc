"""Builds a report on a study, a compiled directory, or files of rows.

- A study: trials, best so far, dev scores by question; after its end verdict and test rows.
- A compiled directory: verdict, scores, thresholds, provenance; and its study, if this machine has it.
- Rows: answers by question with traces; of two files or more the first and the last are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragc.compiled import base as programs
from ragc.compiled.base import CompiledProgram
from ragc.core.display import quantity
from ragc.core.files import read_bytes
from ragc.errors import ArtefactError, UsageError
from ragc.metrics.stats.resample import DRAWS, DRAWS_OF_MANY, FEWER_BEYOND
from ragc.reports import compiled as compiled_files
from ragc.reports import dimensions, questions, row_files, study, summary, verdicts
from ragc.reports.failures import RIGHT
from ragc.reports.front import front_programs, limit_lines
from ragc.reports.report import (
    CostRow,
    Difference,
    Importance,
    Report,
    ReportFact,
    Score,
    Trial,
    Verdict,
)
from ragc.reports.row_files import RunRows
from ragc.reports.study import StudyFiles
from ragc.reports.values import mapping, totals

ROWS = ".jsonl"
"""The suffix of a file of rows."""

MOST = 12
"""The most files of rows in one report."""

MAX_TRIALS = 2_000
"""Trials that a report shows."""

LONGEST = 100_000
"""Characters of one fact that a report holds, such as a recipe."""

_SPENT = "Whoever chooses a setting by these test questions spends them: the next one needs others."
_NO_ROWS = (
    "A compiled directory holds scores, not answers, and its study is not whole on this machine. "
    "`ragc eval COMPILED --out rows.jsonl` answers again, by replay where it can; name that file too."
)
_NO_TRIALS = "There are no trials to show: none has ended, or an optimizer made them that records none."
_SCRIPT = "Of an Optuna script of your own the values of trials are stored, and no answers."


@dataclass(frozen=True, slots=True)
class Inputs:
    """The subject of a report. `runs` are those of files of rows, in the order in which they were named."""

    name: str
    program: CompiledProgram | None = None
    study: StudyFiles | None = None
    runs: tuple[RunRows, ...] = ()

    @property
    def recipe(self) -> str:
        """The text of the recipe; "" for rows alone."""
        return self.program.recipe if self.program else self.study.recipe if self.study else ""


def build(paths: Sequence[str | Path], *, trust_targets: bool = False) -> Report:
    """Builds the report on `paths`: at most one study or compiled directory, and files of rows.

    Raises UsageError, and ArtefactError or DataError for unreadable files.
    """
    held = read(paths, trust_targets=trust_targets)
    runs, split, gaps = _runs(held)
    questions.check_same_data(runs)
    metric, objectives = _metric(held, runs)
    every_trial = tuple(study.trials_of(held.study)) if held.study else ()
    trials = _shown_trials(every_trial)
    provenance = _provenance(held)
    names = questions.shown_metrics(runs, [metric, *objectives])
    scores, differences = _scores(held, runs, split, metric, names)
    lines = questions.questions_of(runs, metric)
    gaps += _row_gaps(runs, names) if runs else _no_questions(held)
    gaps += [_NO_TRIALS] if held.study and not trials else []
    more_is_better = objectives.get(metric, True)
    report = Report(
        title=held.name,
        subject="study" if held.study and not held.program else "compiled" if held.program else "rows",
        verdict=Verdict(""),
        metric=metric,
        split=split,
        runs=tuple(one.name for one in runs),
        objectives=objectives,
        metrics=names,
        settings=tuple(summary.settings_of(held.program, trials, provenance, held.recipe)),
        changes=questions.changes_of(runs, metric, lines),
        scores=scores,
        differences=differences,
        trials=trials,
        prompts=tuple(summary.prompts_of(runs)),
        importances=_importances(held, metric, objectives, every_trial),
        slices=tuple(dimensions.slices(every_trial, metric, more_is_better=more_is_better)),
        thresholds=tuple(compiled_files.thresholds_in(provenance.get("search"))),
        front=tuple(front_programs(provenance, _run_json(held))),
        costs=_costs(held, runs, every_trial),
        budget=tuple(study.budget_of(held.study)) if held.study else (),
        groups=tuple(questions.group_counts(lines)),
        questions=lines,
        remarks=tuple(_remarks(held, runs, split, trials)),
        gaps=tuple(gaps),
        search_gaps=tuple(_search_gaps(trials, len(every_trial))),
    )
    facts = (*_summary(held, report), *_facts(held))
    return replace(
        report,
        verdict=_verdict(held, runs, report),
        facts=tuple(replace(fact, value=fact.value[:LONGEST]) for fact in facts),
    )


def _shown_trials(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Returns at most `MAX_TRIALS` of `trials`, in order: baseline, chosen one, front, latest."""
    if len(trials) <= MAX_TRIALS:
        return tuple(trials)
    first = [trial for trial in trials if trial is trials[0] or trial.chosen or trial.front][:MAX_TRIALS]
    named = {trial.number for trial in first}
    others = [trial for trial in trials if trial.number not in named]
    latest = others[len(others) - (MAX_TRIALS - len(first)) :]
    return tuple(sorted((*first, *latest), key=lambda trial: trial.number))


def _summary(held: Inputs, report: Report) -> Iterator[ReportFact]:
    return summary.facts_of_summary(
        provenance=_provenance(held),
        run=_run_json(held),
        recipe=held.recipe,
        questions=len(report.questions),
        split=report.split,
        costs=report.costs,
        budget=report.budget,
    )


def read(paths: Sequence[str | Path], *, trust_targets: bool = False) -> Inputs:
    """Reads everything that `paths` name. Raises what `build` raises."""
    rows = [Path(path) for path in paths if str(path).endswith(ROWS)]
    others = [Path(path) for path in paths if not str(path).endswith(ROWS)]
    if not paths or len(others) > 1:
        raise UsageError(
            "A report is about one study or compiled directory, files of rows, or both; found "
            f"{len(others)} directories. To compare two programs, score each with `ragc eval --out` and name "
            "both files."
        )
    if len(rows) > MOST:
        raise UsageError(f"A report shows at most {MOST} files of rows beside each other, found {len(rows)}.")
    names = questions.distinct_names([path.stem for path in rows])
    runs = tuple(row_files.read_rows(path, name) for path, name in zip(rows, names, strict=True))
    if not others:
        return Inputs(" and ".join(names), runs=runs)
    path = others[0]
    if (path / "program.json").is_file():
        program = programs.load(path)
        return Inputs(path.resolve().name, program, study.study_of(path, program.provenance), runs)
    try:
        files = study.read_study(path, trust_targets=trust_targets)
    except ArtefactError:
        if path.suffix == programs.PACKED and path.is_file():
            programs.load(path)
        if path.is_file():
            raise UsageError(
                f"{path} is no study, no compiled directory and no file of rows; rows end in {ROWS}, as "
                "`ragc eval --out` writes them."
            ) from None
        raise
    return Inputs(path.resolve().name, None, files, runs)


def _provenance(held: Inputs) -> dict[str, object]:
    if held.program:
        return dict(held.program.provenance)
    return dict(held.study.provenance) if held.study and held.study.finished else {}


def _runs(held: Inputs) -> tuple[list[RunRows], str, list[str]]:
    """Returns the runs with questions, the name of their split, and what is missing."""
    if held.runs:
        return list(held.runs), "rows", []
    if held.study is None:
        return [], "", []
    if runs := study.runs_on_test(held.study):
        return runs, "test", []
    if runs := study.runs_on_dev(held.study):
        why = "Of the dev questions a study records the scores of every trial, not the answers"
        return runs, "dev", [f"{why}; `ragc eval --split dev --out rows.jsonl` writes those."]
    return [], "", []


def _metric(held: Inputs, runs: Sequence[RunRows]) -> tuple[str, dict[str, bool]]:
    """Returns the deciding metric, and the objectives with whether more is better."""
    objectives = compiled_files.objectives_of(held.recipe)
    if held.study:
        objectives = {one.metric.id: one.sign > 0 for one in held.study.rule.objectives}
        return held.study.rule.pick.metric.id, objectives
    if objectives:
        return next(iter(objectives)), objectives
    named = [one.run.metrics for one in runs]
    every = [name for names in named for name in names]
    common = set(every).intersection(*named)
    shared = [name for name in dict.fromkeys(every) if name in common]
    metric = next((name for name in shared if name == runs[0].deciding_metric), "")
    metric = metric or next(iter([*shared, *every]), "")
    return metric, {metric: questions.metric_of(metric, ())[0]} if metric else {}


def _scores(
    held: Inputs, runs: Sequence[RunRows], split: str, metric: str, names: Sequence[str]
) -> tuple[tuple[Score, ...], tuple[Difference, ...]]:
    provenance = _provenance(held)
    scores = list(compiled_files.scores_in(provenance))
    differences = list(compiled_files.differences_in(provenance, metric, _run_json(held)))
    known = {(score.run, score.split) for score in scores}
    fresh = [one for one in runs if (one.name, split) not in known]
    scores += questions.scores_of(fresh, split, names)
    if fresh and len(runs) > 1:
        gaps = questions.differences_of(runs[0].run, runs[-1].run, split, names)
        differences += sorted(gaps, key=lambda one: one.metric != metric)
    return _decided(scores, metric), tuple(differences)


def _run_json(held: Inputs) -> Mapping[str, Any]:
    """Returns the content of `run.json` of a compiled program; {} without one."""
    return held.program.run if held.program else {}


def _decided(scores: Sequence[Score], metric: str) -> tuple[Score, ...]:
    """Returns `scores` by split as they come, and in each split those of `metric` first."""
    splits = list(dict.fromkeys(score.split for score in scores))
    return tuple(sorted(scores, key=lambda one: (splits.index(one.split), one.metric != metric)))


def _verdict(held: Inputs, runs: Sequence[RunRows], report: Report) -> Verdict:
    metric = report.metric
    if held.program:
        return verdicts.compiled_verdict(held.program.provenance, held.program.run, metric)
    if held.study and held.study.finished and held.study.provenance:
        return verdicts.compiled_verdict(held.study.provenance, {}, metric)
    if held.study:
        return verdicts.unfinished(held.study, metric, report.trials)
    right = sum(line.n for line in report.groups if line.group == RIGHT.id)
    n = len(report.questions)
    dev = any(one.on_dev for one in runs)
    return verdicts.compared(report.runs, metric, report.scores, report.differences, right, n, on_dev=dev)


def _importances(
    held: Inputs, metric: str, objectives: dict[str, bool], trials: Sequence[Trial]
) -> tuple[Importance, ...]:
    if not trials:
        return ()
    own = study.optuna_study_of(held.study) if held.study else None
    return dimensions.importances(trials, metric, more_is_better=objectives.get(metric, True), own=own)


def _costs(held: Inputs, runs: Sequence[RunRows], trials: Sequence[Trial]) -> tuple[CostRow, ...]:
    costs = list(compiled_files.costs_in(_provenance(held), _run_json(held)))
    if trials:
        total = totals(trial.counters for trial in trials)
        costs.append(CostRow(f"all {len(trials)} trials, replayed calls included", total))
    answered = [one for one in runs if one.answered]
    return (*costs, *questions.costs_of(answered))


def _facts(held: Inputs) -> Iterator[ReportFact]:
    if held.study:
        yield from study.facts_of(held.study)
    if held.program:
        program = held.program
        yield ReportFact("program", "method", program.state.method)
        for name, value in program.state.knobs.items():
            yield ReportFact("program", name, str(value))
        prompts = _prompts(program)
        yield from compiled_files.facts_in(program.provenance, program.run, program.recipe, prompts)
    elif held.study:
        yield from compiled_files.facts_in(held.study.provenance, {}, held.study.recipe, {})
    for one in held.runs:
        backends = {name for row in one.run.answered.values() for name in row.backends.values()}
        judged = f", judged by {', '.join(sorted(backends))}" if backends else ""
        yield ReportFact("rows", one.name, f"{quantity(len(one.run.answered), 'question')}{judged}")


def _prompts(program: CompiledProgram) -> dict[str, str]:
    """Returns the files in `prompts/`, which are for people."""
    if program.path is None:
        return {}
    out = {}
    for name in program.state.predictors:
        path = program.path / "prompts" / f"{name}.md"
        try:
            out[name] = read_bytes(path, within=program.path).decode("utf-8", "replace")
        except OSError:
            continue
    return out


def _remarks(held: Inputs, runs: Sequence[RunRows], split: str, trials: Sequence[Trial]) -> Iterator[str]:
    provenance = _provenance(held)
    for one in held.runs:
        labelled = one.agreement.remarks if one.agreement else ()
        yield from (f"{one.name}: {remark}" for remark in (*one.run.remarks, *labelled))
    if held.runs and any(one.on_dev for one in runs):
        yield verdicts.DEV_ROWS
    if split == "test":
        yield _SPENT
    if split == "dev" or (trials and not provenance):
        yield verdicts.OPTIMISM_NOTE
    yield from limit_lines(provenance)
    for text in (provenance.get("remarks"), mapping(provenance.get("search")).get("remarks")):
        yield from (str(remark) for remark in text) if isinstance(text, list) else ()


def _no_questions(held: Inputs) -> list[str]:
    """Returns why there is no table of questions, and how to get one."""
    if held.study and held.study.is_script:
        return [_SCRIPT]
    if held.study and not held.study.finished:
        return ["No question was answered by any finished trial yet."]
    return [_NO_ROWS]


def _row_gaps(runs: Sequence[RunRows], names: Sequence[str]) -> list[str]:
    """Returns remarks on what rows lack, such as questions that a licence forbids to copy."""
    rows = [row for one in runs for row in one.run.answered.values()]
    gaps = []
    every = {name for one in runs for name in one.run.metrics}
    if len(every) > len(names):
        gaps.append(
            f"The rows have {len(every):,} metrics. The first {len(names)} are shown and compared, and p is "
            "adjusted for these; the rows beside this page have the scores of all."
        )
    if (most := max(len(one.run.answered) for one in runs)) > FEWER_BEYOND:
        gaps.append(
            f"With {most:,} questions intervals and p come from {DRAWS_OF_MANY:,} resamples, not {DRAWS:,}."
        )
    if len(runs) > 2:
        gaps.append(
            f"{verdicts.short(runs[-1].name)}, named last, is tested against "
            f"{verdicts.short(runs[0].name)}, named first. The other programs are shown beside them "
            "without a test; name two files to test two of them."
        )
    if not any(row.question for row in rows):
        gaps.append("The rows hold no questions, so their ids are shown. A trace may repeat a question.")
    if not any(row.answers for row in rows):
        gaps.append("The rows hold no gold answers, so no answer is marked in passages.")
    return gaps


def _search_gaps(trials: Sequence[Trial], every: int) -> list[str]:
    """Returns remarks on what the section on the search lacks, which shows `trials` of `every` trial."""
    if not trials:
        return []
    if every > len(trials):
        return [
            f"Of {every:,} trials the baseline, the front and the latest are shown, {len(trials):,} in all."
        ]
    whole = sum(trial.complete for trial in trials)
    if whole < dimensions.MIN_TRIALS:
        return [f"Importances need {dimensions.MIN_TRIALS} complete trials or more, and there are {whole}."]
    return []
