"""The first lines of a report: the verdict, a recommendation, and sentences that qualify them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragc.compiled.verdict import CROSS_VALIDATED, FOR_TRYING, NOT_MEASURED, judge_of, on_procedure
from ragc.core.display import quantity
from ragc.core.redact import shorten
from ragc.metrics.base import AS_JUDGED
from ragc.reports.compiled import RUNS, Measured
from ragc.reports.questions import metric_of
from ragc.reports.report import Difference, Tone, Trial, Verdict, decimals_of, figure, signed
from ragc.reports.study import StudyFiles

MAX_NAME = 40
"""Characters of the name of a run that stand in a sentence."""

MAX_MORE = 5_000
"""Further questions beyond which a recommendation names no number."""

OPTIMISM_NOTE = "The best trial was chosen by its scores on dev, so they flatter it."
DEV_ROWS = (
    "These are dev questions: a program that was chosen by them is flattered, and only questions that no "
    "search used can prove it better."
)
NOT_EQUAL = "Not shown to be better does not mean equal: more questions could show a smaller difference."
"""The caution that goes with a verdict that is open."""

_TONES: Mapping[str, Tone] = {
    "better": "better",
    "worse": "worse",
    "not shown to be better": "open",
    "cannot tell": "open",
}
_NO_VERDICTS = {
    NOT_MEASURED: (
        "not measured on test questions",
        "No test question was answered, so nothing is proved; dev scores flatter.",
        "test",
    ),
    FOR_TRYING: (
        "no verdict, for trying only",
        "Too few of the written questions are good for a verdict; a person may review them.",
        "better",
    ),
}
"""Verdicts that say nothing: the headline, a sentence, and the questions that would say something."""
_STATES = {"finished": "Finished", "running": "Still running", "cut off": "Cut off"}
_NORMAL_95, _NORMAL_80 = 1.959964, 0.841621

Scores = Sequence[Mapping[str, Any]]
"""The records of scores in a report."""


def unfinished(files: StudyFiles, metric: str, trials: Sequence[Trial]) -> Verdict:
    """Returns how far a study has come, and the best so far."""
    state, done, best = files.status, files.status.trials, files.status.best
    so_far = "No trial has ended yet, so there is nothing to show of the search."
    if best:
        value, first = best["values"][metric], trials[0].values[metric] if best["trial"] else None
        places = decimals_of([value, first])
        where = f"trial {best['trial']}" if best["trial"] else "the baseline"
        so_far = f"Best so far is {where} with {metric} {figure(value, places)} on dev"
        so_far += "." if first is None else f", the baseline {figure(first, places)}."
        so_far += f" {OPTIMISM_NOTE}" if done["done"] else ""
    headline = f"{_STATES.get(state.state, 'At rest')}: {done['done']} of {done['wanted']} trials"
    if state.state == "finished":
        return Verdict(headline, "open", (so_far, state.next))
    return Verdict(
        headline,
        "open",
        ("Nothing is proved before the end: no test question was answered.", so_far, state.next),
        "Keep the baseline until the study has ended and its choice was measured on test questions.",
    )


def compiled_verdict(measured: Measured, metric: str, gaps: Sequence[Difference], scores: Scores) -> Verdict:
    """Returns the verdict of a compile, with its differences `gaps` and the figures of `metric`."""
    verdict, look = measured.judged.verdict, measured.run.look
    plain = verdict.partition(" (")[0]  # behind it: how many questions were used before
    headline, sentences, advice = verdict, [], ""
    if plain in _TONES:
        headline = (
            "too few groups of questions to tell" if plain == "cannot tell" else f"{plain} than the baseline"
        )
        headline += verdict.removeprefix(plain)
    if folds := len(measured.cross_validation):
        sentences.append(on_procedure(verdict, "", folds)[1])
    if gap := next((gap for gap in gaps if gap.metric == metric), None):
        advice = recommendation(gap, gaps, scores, "the baseline", "the compiled program")
        sides = dict(zip(RUNS.values(), ("before", "after"), strict=True))
        where = CROSS_VALIDATED if folds else "on test"
        sentences.append(f"{_figures(gap, scores, where, sides)}, {gap.n:,} questions.")
    if _TONES.get(plain) == "open":
        sentences.append(NOT_EQUAL)
    if gap and (judge := judge_of({"backends": measured.backends}, metric)):
        sentences.append(f"This is {AS_JUDGED} ({judge}); no label of a person corrects it.")
    for beginning, (title, sentence, on) in _NO_VERDICTS.items():
        if verdict.startswith(beginning):
            headline = verdict.replace(beginning, title)
            sentences.append(sentence)
            advice = f"Keep the baseline until both programs were measured on {on} questions."
    if look and look.sentence:
        is_first = look.number == 1 and not look.again
        sentences.append("Nobody had used these test questions before." if is_first else look.sentence)
    tone = _TONES.get(plain, "none")
    return Verdict(f"{headline[:1].upper()}{headline[1:]}", tone, tuple(sentences), advice)


def compared(
    metric: str,
    scores: Scores,
    gaps: Sequence[Difference],
    outcomes: Iterable[Mapping[str, Any]],
    cautions: Sequence[str],
) -> Verdict:
    """Returns the verdict on files of rows: of two or more, the last against the first.

    `gaps` are their differences, `outcomes` the groups of questions, `cautions` sentences on the questions.
    """
    if gap := next((gap for gap in gaps if gap.metric == metric), None):
        before, after = shorten(gap.before, MAX_NAME), shorten(gap.after, MAX_NAME)
        sides = {gap.before: f"for {before}", gap.after: f"for {after}"}
        figures = f"{_figures(gap, scores, f'on {gap.n:,} common questions', sides)}."
        note = [NOT_EQUAL] if gap.verdict == "not shown to be better" else []
        headline = f"{after} is {gap.verdict} than {before}"
        if gap.verdict == "cannot tell":
            headline = f"Too few groups of questions to tell {after} from {before}"
        advice = recommendation(gap, gaps, scores, before, after)
        return Verdict(headline, _TONES[gap.verdict], (figures, *cautions, *note), advice)
    if len({score["run"] for score in scores}) > 1:
        return Verdict("Not compared", "none", ("The runs share no question that both scored.",))
    if not (score := next((score for score in scores if score["metric"] == metric), None)):
        return Verdict("No scores", "none", ("No metric of these rows applies to any question.",))
    ends = [score[name] for name in ("mean", "low", "high")]
    mean, low, high = (figure(value, decimals_of(ends)) for value in ends)
    counts = {outcome["group"]: outcome["n"] for outcome in outcomes}
    right = f"{counts.get('right', 0):,} of {sum(counts.values()):,} are right"
    headline = f"{metric} {mean} on {quantity(score['n'], 'question')}"
    return Verdict(headline, "none", (f"95% interval from {low} to {high}; {right}.", *cautions))


def _figures(gap: Difference, scores: Scores, where: str, sides: Mapping[str, str]) -> str:
    """Returns the figures of `gap` as a sentence without its full stop; `sides` are the names of its runs."""
    means = _means(gap, scores)
    places = decimals_of([*means.values(), gap.mean, gap.low, gap.high])
    shown = [f"{figure(means[run], places)} {side}" for run, side in sides.items() if run in means]
    shown.append(f"difference {signed(gap.mean, places)}")
    return (
        f"{gap.metric} {where}: {', '.join(shown)} with a 95% interval from {signed(gap.low, places)} to "
        f"{signed(gap.high, places)}, p = {gap.p:.4f}"
    )


def _means(gap: Difference, scores: Scores) -> dict[str, float]:
    """Returns the means of both sides of `gap`, as far as they are known."""
    means = {(score["run"], score["metric"], score["split"]): score["mean"] for score in scores}
    keys = {run: (run, gap.metric, gap.split) for run in (gap.before, gap.after)}
    return {run: means[key] for run, key in keys.items() if key in means}


def recommendation(
    gap: Difference, gaps: Sequence[Difference], scores: Scores, before: str, after: str
) -> str:
    """Returns what to do after the deciding difference `gap` of the programs called `before` and `after`."""
    if gap.verdict == "better":
        others = [
            difference
            for difference in gaps
            if difference.metric != gap.metric and difference.split == gap.split
        ]
        costs = [change_of(cost, scores) for cost in others if cost.verdict == "worse"][:3]
        also = f"; {' and '.join(costs)}, which is worse" if costs else ""
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


def change_of(gap: Difference, scores: Scores) -> str:
    """Returns how the metric of `gap` changed, with its interval: "f1 rises by 0.410 to 0.730"."""
    low, high = sorted((abs(gap.low), abs(gap.high)))
    places = decimals_of([high, *_means(gap, scores).values()])
    verb = "rises" if gap.mean > 0 else "falls"
    return f"{gap.metric} {verb} by {figure(low, places)} to {figure(high, places)}"


def further_questions(gap: Difference) -> int | None:
    """Estimates how many more questions show a true difference as large as `gap` with 80% probability.

    By the normal approximation, in two significant digits. None if the measured difference is zero or for the
    worse.
    """
    error = (gap.high - gap.low) / (2 * _NORMAL_95)
    if not gap.mean or not error or (gap.mean > 0) != metric_of(gap.metric)[0]:
        return None
    needed = gap.n * ((_NORMAL_95 + _NORMAL_80) * error / abs(gap.mean)) ** 2 - gap.n
    least = max(1, math.ceil(min(needed, 1e12)))
    unit = int(10 ** max(0, len(str(least)) - 2))
    return math.ceil(least / unit) * unit
