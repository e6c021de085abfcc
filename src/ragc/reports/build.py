"""Puts a report together from what it is about: a study, a compiled directory, files of rows.

STUDY      trials, best so far, dev scores by question; after its end verdict and test rows
COMPILED   verdict, scores, thresholds, provenance; and its study, where this machine has it
ROWS       answers by question with traces; of two files or more the first and the last are compared
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragc.core import inputs
from ragc.core.display import quantity
from ragc.core.redact import shorten
from ragc.errors import ArtefactError, UsageError
from ragc.optimizers.results import compiled as programs
from ragc.optimizers.results.compiled import CompiledProgram
from ragc.reports import compiled as compiled_files
from ragc.reports import dimensions, questions, study
from ragc.reports.failures import deciding_metric
from ragc.reports.questions import RunRows
from ragc.reports.report import (
    Cost,
    Difference,
    Fact,
    Importance,
    QuestionLine,
    Report,
    Score,
    Tone,
    Trial,
    Verdict,
)
from ragc.reports.study import StudyFiles

ROWS = ".jsonl"
"""The suffix of a file of rows."""

MOST = 12
"""The most files of rows in one report."""

LONGEST = 100_000
"""Characters of one fact that a report holds, such as a recipe."""

_NAME = 40
"""Characters of the name of a run that stand in a sentence."""

_SPENT = "Whoever chooses a setting by these test questions spends them: the next one needs others."
_NO_ROWS = (
    "A compiled directory holds scores, not answers, and the study that wrote it is not on this machine. "
    "`ragc eval COMPILED --out rows.jsonl` answers again, by replay where it can; name that file too."
)
_NOT_RECORDED = (
    "This study did not record its questions, as those of older versions; `ragc eval COMPILED --out "
    "rows.jsonl` answers again, by replay where it can; name that file too."
)
_NO_TRIALS = "There are no trials to show: none has ended, or an optimizer made them that records none."
_SCRIPT = "Of an Optuna script of your own the values of trials are stored, and no answers."
_UNPROVED = "Nothing is proved before the end: there was no look at test questions."
_HOW = {"finished": "Finished", "running": "Still running", "cut off": "Cut off"}
_FLATTERED = "The best trial was chosen by its scores on dev, so they flatter it."


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a report is about. `runs` are those of files of rows, in the order in which they were named."""

    name: str
    program: CompiledProgram | None = None
    study: StudyFiles | None = None
    runs: tuple[RunRows, ...] = ()


def build(paths: Sequence[str | Path], *, trust_targets: bool = False) -> Report:
    """The report on `paths`: at most one study or compiled directory, and files of rows.

    Raises UsageError, and ArtefactError or DataError for what cannot be read.
    """
    held = read(paths, trust_targets=trust_targets)
    runs, split, gaps = _runs(held)
    questions.check_same_data(runs)
    metric, objectives = _metric(held, runs)
    trials = tuple(study.trials_of(held.study)) if held.study else ()
    provenance = _provenance(held)
    scores, differences = _scores(held, runs, split, metric)
    lines = tuple(questions.question_lines(runs, metric))
    gaps += _row_gaps(runs) if runs else _no_questions(held)
    gaps += _search_gaps(held, trials)
    return Report(
        title=held.name,
        subject="study" if held.study and not held.program else "compiled" if held.program else "rows",
        verdict=_verdict(held, runs, metric, trials, scores, differences, lines),
        metric=metric,
        split=split,
        runs=tuple(one.name for one in runs),
        objectives=objectives,
        changes=questions.changes_of(runs, metric, lines),
        scores=scores,
        differences=differences,
        trials=trials,
        importances=_importances(held, metric, objectives, trials),
        slices=tuple(dimensions.slices(trials, metric, more_is_better=objectives.get(metric, True))),
        thresholds=tuple(compiled_files.thresholds_in(provenance.get("search"))),
        costs=_costs(held, runs, trials),
        budget=tuple(study.budget_of(held.study)) if held.study else (),
        groups=tuple(questions.group_counts([one.name for one in runs], lines)),
        questions=lines,
        facts=tuple(replace(fact, value=fact.value[:LONGEST]) for fact in _facts(held)),
        remarks=tuple(_remarks(held, split, trials)),
        gaps=tuple(gaps),
    )


def read(paths: Sequence[str | Path], *, trust_targets: bool = False) -> Inputs:
    """Reads everything that `paths` name. Raises as `build`."""
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
    runs = tuple(questions.read_rows(path, name) for path, name in zip(rows, names, strict=True))
    if not others:
        return Inputs(" and ".join(names), runs=runs)
    path = others[0]
    if (path / "program.json").is_file():
        program = programs.load(path)
        return Inputs(path.resolve().name, program, study.study_of(path, program.provenance), runs)
    try:
        files = study.read_study(path, trust_targets=trust_targets)
    except ArtefactError:
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
    """The runs with questions, the name of their split, and what is lacking."""
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
    """The deciding metric, and the objectives with whether more is better."""
    recipe = held.program.recipe if held.program else held.study.recipe if held.study else ""
    objectives = compiled_files.objectives_of(recipe)
    if held.study:
        objectives = {one.metric.id: one.sign > 0 for one in held.study.objectives}
        return held.study.pick, objectives
    if objectives:
        return next(iter(objectives)), objectives
    shared = (
        [name for name in runs[0].run.metrics if all(name in one.run.metrics for one in runs)] if runs else []
    )
    every = [name for one in runs for name in one.run.metrics]
    metric = next((name for name in shared if name == deciding_metric(runs[0].rows.values())), "")
    metric = metric or next(iter([*shared, *every]), "")
    return metric, {metric: questions.metric_of(metric, ())[0]} if metric else {}


def _scores(
    held: Inputs, runs: Sequence[RunRows], split: str, metric: str
) -> tuple[tuple[Score, ...], tuple[Difference, ...]]:
    provenance = _provenance(held)
    scores = list(compiled_files.scores_in(provenance))
    differences = list(compiled_files.differences_in(provenance, metric))
    known = {(score.run, score.split) for score in scores}
    fresh = [one for one in runs if (one.name, split) not in known]
    scores += questions.scores_of(fresh, split)
    if fresh and len(runs) > 1:
        gaps = questions.differences_of(runs[0].run, runs[-1].run, split)
        differences += sorted(gaps, key=lambda one: one.metric != metric)
    return _decided(scores, metric), tuple(differences)


def _decided(scores: Sequence[Score], metric: str) -> tuple[Score, ...]:
    """`scores` by split as they come, and in each split those of `metric` first."""
    splits = list(dict.fromkeys(score.split for score in scores))
    return tuple(sorted(scores, key=lambda one: (splits.index(one.split), one.metric != metric)))


def _verdict(
    held: Inputs,
    runs: Sequence[RunRows],
    metric: str,
    trials: Sequence[Trial],
    scores: Sequence[Score],
    differences: Sequence[Difference],
    lines: Sequence[QuestionLine],
) -> Verdict:
    if held.program:
        return compiled_files.verdict_in(held.program.provenance, held.program.run, metric)
    if held.study and held.study.finished and held.study.provenance:
        return compiled_files.verdict_in(held.study.provenance, {}, metric)
    if held.study:
        return _unfinished(held.study, metric, trials)
    return _compared(runs, metric, scores, differences, lines)


def _unfinished(files: StudyFiles, metric: str, trials: Sequence[Trial]) -> Verdict:
    """How far a study has come, and the best so far."""
    state, done = files.status, files.status.trials
    headline = f"{_HOW.get(state.state, 'At rest')}: {done['done']} of {done['wanted']} trials"
    sentences = [] if files.finished else [_UNPROVED]
    best = files.status.best or {}
    value = best.get("values", {}).get(metric)
    if value is None:
        sentences.append("No trial has ended yet, so there is nothing to show of the search.")
    else:
        where = "the baseline" if best["trial"] == 0 else f"trial {best['trial']}"
        first = next((trial.values.get(metric) for trial in trials[:1]), None)
        beside = "" if first is None or best["trial"] == 0 else f", the baseline {first:.3f}"
        flattered = f" {_FLATTERED}" if done["done"] else ""
        sentences.append(f"Best so far is {where} with {metric} {value:.3f} on dev{beside}.{flattered}")
    return Verdict(headline, "open", (*sentences, state.next))


def _compared(
    runs: Sequence[RunRows],
    metric: str,
    scores: Sequence[Score],
    differences: Sequence[Difference],
    lines: Sequence[QuestionLine],
) -> Verdict:
    """The verdict on files of rows: of two or more, the last against the first."""
    tones: dict[str, Tone] = {"better": "better", "worse": "worse"}
    gap = next((one for one in differences if one.metric == metric), None)
    if len(runs) > 1 and gap is None:
        return Verdict("Not compared", "none", ("The runs share no question that both scored.",))
    if gap is not None:
        sides = [
            next((one for one in scores if (one.run, one.metric) == (name, metric)), None)
            for name in (gap.before, gap.after)
        ]
        means = [f"{one.mean:.3f} for {_short(one.run)}" for one in sides if one]
        figures = (
            f"{metric} on {gap.n:,} common questions: {', '.join([*means, f'difference {gap.mean:+.3f}'])} "
            f"with a 95% interval from {gap.low:+.3f} to {gap.high:+.3f}, p = {gap.p:.4f}."
        )
        verdict = f"{_short(gap.after)} is {gap.verdict} than {_short(gap.before)}"
        if gap.verdict == "cannot tell":
            verdict = f"Too few groups of questions to tell {_short(gap.after)} from {_short(gap.before)}"
        return Verdict(verdict, tones.get(gap.verdict, "open"), (figures, *_cautions(gap)))
    score = next((one for one in scores if one.metric == metric), None)
    if score is None:
        return Verdict("No scores", "none", ("No metric of these rows applies to any question.",))
    right = sum(answer.group == "right" for line in lines for answer in line.runs.values())
    sentence = (
        f"95% interval from {score.low:.3f} to {score.high:.3f}; {right:,} of {len(lines):,} are right."
    )
    return Verdict(f"{metric} {score.mean:.3f} on {quantity(score.n, 'question')}", "none", (sentence,))


def _cautions(gap: Difference) -> tuple[str, ...]:
    return (compiled_files.NOT_EQUAL,) if gap.verdict == "not shown to be better" else ()


def _importances(
    held: Inputs, metric: str, objectives: dict[str, bool], trials: Sequence[Trial]
) -> tuple[Importance, ...]:
    if not trials:
        return ()
    own = study.optuna_study_of(held.study) if held.study else None
    return dimensions.importances(trials, metric, more_is_better=objectives.get(metric, True), own=own)


def _costs(held: Inputs, runs: Sequence[RunRows], trials: Sequence[Trial]) -> tuple[Cost, ...]:
    costs = list(compiled_files.costs_in(_provenance(held), held.program.run if held.program else {}))
    if trials:
        total: dict[str, float] = {}
        for trial in trials:
            for name, amount in trial.counters.items():
                total[name] = total.get(name, 0) + amount
        costs.append(Cost(f"all {len(trials)} trials, replayed calls included", total))
    answered = [one for one in runs if any("prediction" in row for row in one.rows.values())]
    return (*costs, *questions.costs_of(answered))


def _facts(held: Inputs) -> Iterator[Fact]:
    if held.study:
        yield from study.facts_of(held.study)
    if held.program:
        program = held.program
        yield Fact("program", "method", program.state.method)
        for name, value in program.state.knobs.items():
            yield Fact("program", name, str(value))
        prompts = _prompts(program)
        yield from compiled_files.facts_in(program.provenance, program.run, program.recipe, prompts)
    elif held.study:
        yield from compiled_files.facts_in(held.study.provenance, {}, held.study.recipe, {})
    for one in held.runs:
        backends = {name for row in one.run.answered.values() for name in row.backends.values()}
        judged = f", judged by {', '.join(sorted(backends))}" if backends else ""
        yield Fact("rows", one.name, f"{quantity(len(one.rows), 'question')}{judged}")


def _prompts(program: CompiledProgram) -> dict[str, str]:
    """The files in `prompts/`, which are for reading."""
    if program.path is None:
        return {}
    out = {}
    for name in program.state.predictors:
        path = program.path / "prompts" / f"{name}.md"
        try:
            out[name] = inputs.read_bytes(path, within=program.path).decode("utf-8", "replace")
        except OSError:
            continue
    return out


def _remarks(held: Inputs, split: str, trials: Sequence[Trial]) -> Iterator[str]:
    provenance = _provenance(held)
    for one in held.runs:
        yield from (f"{one.name}: {remark}" for remark in one.run.remarks)
    if split == "test":
        yield _SPENT
    if split == "dev" or (trials and not provenance):
        yield _FLATTERED
    for text in (provenance.get("remarks"), _search(provenance).get("remarks")):
        yield from (str(remark) for remark in text) if isinstance(text, list) else ()


def _search(provenance: dict[str, object]) -> dict[str, object]:
    held = provenance.get("search")
    return held if isinstance(held, dict) else {}


def _no_questions(held: Inputs) -> list[str]:
    """Why there is no table of questions, and what would give one."""
    if held.study and held.study.is_script:
        return [_SCRIPT]
    if held.study and not held.study.finished:
        return ["No question was answered by any finished trial yet."]
    if held.study:
        return [_NOT_RECORDED]
    return [_NO_ROWS]


def _row_gaps(runs: Sequence[RunRows]) -> list[str]:
    """What rows lack, such as those of data whose licence forbids to copy questions."""
    rows = [row for one in runs for row in one.run.answered.values()]
    gaps = []
    if len(runs) > 2:
        gaps.append(
            f"{_short(runs[-1].name)}, named last, is tested against {_short(runs[0].name)}, named first. "
            "The other programs are shown beside them without a test; name two files to test two of them."
        )
    if not any(row.question for row in rows):
        gaps.append("The rows hold no questions, so their ids are shown. A trace may repeat a question.")
    if not any(row.answers for row in rows):
        gaps.append("The rows hold no gold answers, so no answer is marked in passages.")
    return gaps


def _short(name: str) -> str:
    return shorten(name, _NAME)


def _search_gaps(held: Inputs, trials: Sequence[Trial]) -> list[str]:
    if held.study is None:
        return []
    if not trials:
        return [_NO_TRIALS]
    whole = sum(trial.complete for trial in trials)
    if whole < dimensions.FEWEST:
        return [f"Importances need {dimensions.FEWEST} complete trials or more, and there are {whole}."]
    return []
