"""The first lines of a report: the verdict, a recommendation, and sentences that qualify them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ragc.compiled.verdict import CROSS_VALIDATED, FOR_TRYING, judge_of, on_procedure
from ragc.core.display import quantity
from ragc.core.redact import shorten
from ragc.metrics.base import AS_JUDGED
from ragc.reports.compiled import NOT_EQUAL, RUNS, differences_in, look_in, scores_in
from ragc.reports.questions import metric_of
from ragc.reports.report import Difference, Score, Tone, Trial, Verdict
from ragc.reports.study import StudyFiles
from ragc.reports.values import decimals_of, entries, figure, signed, text

MAX_NAME = 40
"""Characters of the name of a run that stand in a sentence."""

MAX_MORE = 5_000
"""Further questions beyond which a recommendation names no number."""

OPTIMISM_NOTE = "The best trial was chosen by its scores on dev, so they flatter it."
DEV_ROWS = (
    "These are dev questions: a program that was chosen by them is flattered, and only questions that no "
    "search used can prove it better."
)

_TONES: Mapping[str, Tone] = {
    "better": "better",
    "worse": "worse",
    "not shown to be better": "open",
    "cannot tell": "open",
}
_NOT_MEASURED = {"not measured": "Not measured on test questions", FOR_TRYING: "No verdict, for trying only"}
_WHEN = {RUNS["baseline"]: "before", RUNS["winner"]: "after"}
_UNPROVED = "Nothing is proved before the end: there was no look at test questions."
_HOW = {"finished": "Finished", "running": "Still running", "cut off": "Cut off"}
_NORMAL_95, _NORMAL_80 = 1.959964, 0.841621


def unfinished(files: StudyFiles, metric: str, trials: Sequence[Trial]) -> Verdict:
    """Returns how far a study has come, and the best so far."""
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
        places = decimals_of([value, first])
        beside = "" if first is None or best["trial"] == 0 else f", the baseline {figure(first, places)}"
        flattered = f" {OPTIMISM_NOTE}" if done["done"] else ""
        sentences.append(
            f"Best so far is {where} with {metric} {figure(value, places)} on dev{beside}.{flattered}"
        )
    wait = "Keep the baseline until the study has ended and its choice was measured on test questions."
    return Verdict(headline, "open", (*sentences, state.next), "" if files.finished else wait)


def compiled_verdict(provenance: Mapping[str, Any], run: Mapping[str, Any], metric: str) -> Verdict:
    """Returns the verdict of a compile, with the figures of `metric`; `run` is `run.json`."""
    held = text(provenance.get("verdict")) or "not measured"
    plain, bracket, seen = held.partition(" (")  # behind it: how many questions were seen before
    plain, mark = (plain, bracket + seen) if plain in _TONES else (held, "")
    tone = _TONES.get(plain, "none")
    gaps, scores = list(differences_in(provenance, metric, run)), list(scores_in(provenance))
    gap = next((one for one in gaps if one.metric == metric), None)
    if gap and gap.verdict == "not shown to be better" and plain in ("better", "worse"):  # by earlier looks
        plain, tone = gap.verdict, "open"
    sentences, advice = [], ""
    folds = entries(provenance.get("cross_validation"))
    where = CROSS_VALIDATED if folds else "on test"
    if folds:
        sentences.append(on_procedure(held, "", len(folds))[1])
    if gap:
        names = {RUNS["baseline"]: "the baseline", RUNS["winner"]: "the compiled program"}
        advice = recommendation(gap, gaps, scores, names)
        means = _means(gap, scores)
        places = decimals_of([*means.values(), gap.mean, gap.low, gap.high])
        parts = [f"{figure(means[run], places)} {when}" for run, when in _WHEN.items() if run in means]
        sentences.append(
            f"{metric} {where}: {', '.join(parts)}, difference {signed(gap.mean, places)} with a 95% "
            f"interval from {signed(gap.low, places)} to {signed(gap.high, places)}, p = {gap.p:.4f}, "
            f"{gap.n:,} questions."
        )
    if tone == "open":
        sentences.append(NOT_EQUAL)
    if gap and (judge := judge_of(provenance, metric)):
        sentences.append(f"This is {AS_JUDGED} ({judge}); no label of a person corrects it.")
    if held == "not measured":
        sentences.append("There was no look at test questions, so nothing is proved; dev scores flatter.")
        advice = "Keep the baseline until both programs were measured on test questions."
    if held.startswith(FOR_TRYING):
        sentences.append("Too few of the written questions are good for a verdict; a person may review them.")
        advice = "Keep the baseline until both programs were measured on better questions."
    if look := look_in(run):
        sentences.append(look)
    headline = f"{plain} than the baseline{mark}" if plain in _TONES else _NOT_MEASURED.get(held, held)
    if plain == "cannot tell":
        headline = f"too few groups of questions to tell{mark}"
    return Verdict(f"{headline[:1].upper()}{headline[1:]}", tone, tuple(sentences), advice)


def compared(
    runs: Sequence[str],
    metric: str,
    scores: Sequence[Score],
    differences: Sequence[Difference],
    right: int,
    questions: int,
    *,
    on_dev: bool,
) -> Verdict:
    """Returns the verdict on files of rows: of two or more, the last against the first."""
    tones: dict[str, Tone] = {"better": "better", "worse": "worse"}
    cautions = [DEV_ROWS] if on_dev else []
    gap = next((one for one in differences if one.metric == metric), None)
    if len(runs) > 1 and gap is None:
        return Verdict("Not compared", "none", ("The runs share no question that both scored.",))
    if gap is not None:
        means = _means(gap, scores)
        places = decimals_of([*means.values(), gap.mean, gap.low, gap.high])
        parts = [f"{figure(mean, places)} for {short(name)}" for name, mean in means.items()]
        parts.append(f"difference {signed(gap.mean, places)}")
        figures = (
            f"{metric} on {gap.n:,} common questions: {', '.join(parts)} with a 95% interval from "
            f"{signed(gap.low, places)} to {signed(gap.high, places)}, p = {gap.p:.4f}."
        )
        if gap.verdict == "not shown to be better":
            cautions.append(NOT_EQUAL)
        verdict = f"{short(gap.after)} is {gap.verdict} than {short(gap.before)}"
        if gap.verdict == "cannot tell":
            verdict = f"Too few groups of questions to tell {short(gap.after)} from {short(gap.before)}"
        advice = recommendation(gap, differences, scores, {gap.before: gap.before, gap.after: gap.after})
        return Verdict(verdict, tones.get(gap.verdict, "open"), (figures, *cautions), advice)
    score = next((one for one in scores if one.metric == metric), None)
    if score is None:
        return Verdict("No scores", "none", ("No metric of these rows applies to any question.",))
    places = decimals_of([score.mean, score.low, score.high])
    sentence = (
        f"95% interval from {figure(score.low, places)} to {figure(score.high, places)}; {right:,} of "
        f"{questions:,} are right."
    )
    headline = f"{metric} {figure(score.mean, places)} on {quantity(score.n, 'question')}"
    return Verdict(headline, "none", (sentence, *cautions))


def short(name: str) -> str:
    """Returns `name`, cut to what fits into a sentence."""
    return shorten(name, MAX_NAME)


def _means(gap: Difference, scores: Sequence[Score]) -> dict[str, float]:
    """Returns the means of both sides of `gap`, as far as they are known."""
    return {
        one.run: one.mean
        for name in (gap.before, gap.after)
        for one in scores
        if (one.run, one.metric, one.split) == (name, gap.metric, gap.split)
    }


def recommendation(
    gap: Difference, all_gaps: Sequence[Difference], scores: Sequence[Score], names: Mapping[str, str]
) -> str:
    """Returns what to do after the deciding difference `gap`; `names` are those of the programs."""
    before, after = short(names[gap.before]), short(names[gap.after])
    if gap.verdict == "better":
        costs = [
            change_of(one, scores)
            for one in all_gaps
            if one.metric != gap.metric and one.split == gap.split and one.verdict == "worse"
        ]
        also = f"; {' and '.join(costs[:3])}, which is worse" if costs else ""
        return f"Use {after}: {change_of(gap, scores)}{also}."
    if gap.verdict == "worse":
        return f"Keep {before}: with {after} {change_of(gap, scores)}."
    more = further_questions(gap)
    if more is None:
        return f"Keep {before}: these questions show no gain by {gap.metric}."
    if more > MAX_MORE:
        return (
            f"Keep {before}: to show a gain in {gap.metric} as small as the measured one, more than "
            f"{MAX_MORE:,} further questions would be needed."
        )
    return (
        f"These questions cannot tell; keep {before} until about {more:,} more have been asked, which would "
        "show a difference as large as the measured one with 80% probability."
    )


def change_of(gap: Difference, scores: Sequence[Score]) -> str:
    """Returns how the metric of `gap` changed, with its interval: "f1 rises by 0.410 to 0.730"."""
    ends = sorted((abs(gap.low), abs(gap.high)))
    places = decimals_of([*ends, *_means(gap, scores).values()])
    verb = "rises" if gap.mean > 0 else "falls"
    return f"{gap.metric} {verb} by {figure(ends[0], places)} to {figure(ends[1], places)}"


def further_questions(gap: Difference) -> int | None:
    """Estimates how many more questions show a true difference as large as `gap` with 80% probability.

    By the normal approximation, in two significant digits. None if the measured difference is zero or for the
    worse.
    """
    better = (gap.mean > 0) == metric_of(gap.metric, ())[0]
    error = (gap.high - gap.low) / (2 * _NORMAL_95)
    if not gap.mean or not better or not error:
        return None
    needed = gap.n * ((_NORMAL_95 + _NORMAL_80) * error / abs(gap.mean)) ** 2 - gap.n
    whole = max(1, math.ceil(min(needed, 1e12)))
    unit: int = 10 ** max(0, len(str(whole)) - 2)
    return math.ceil(whole / unit) * unit
