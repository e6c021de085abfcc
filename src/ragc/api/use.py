"""A compiled program or a recipe in use: opened, asked, scored and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ragc.compiled.access import Access
from ragc.core.progress import SILENT
from ragc.errors import UsageError

if TYPE_CHECKING:
    from ragc.compiled.base import CompiledProgram
    from ragc.compiled.evaluate import Evaluation
    from ragc.core.progress import Progress
    from ragc.metrics.compare import RunComparison
    from ragc.metrics.runs import ScoredRun
    from ragc.reports.page import WrittenReport
    from ragc.reports.rows import RowsSummary
    from ragc.task.answering import Row


def load(
    path: str | Path,
    *,
    sets: Sequence[str] = (),
    access: Access = Access(),
) -> CompiledProgram:
    """Opens the compiled program in the directory `path`.

    A call returns a Row with `prediction` (str or None), `passages`, `counters` and `failure`. Targets and
    sources are opened at the first call, for all threads and event loops. `access` says what a directory from
    elsewhere may do and where relative paths lead from; `sets` overrides values of its recipe.

        with ragc.load("compiled/mine") as program:
            program("Which exception ends an iterator?").prediction

    Raises ArtefactError when `path` is not a compiled program, Untrusted for what is not allowed, and
    UsageError where `sets` name knobs or prompts, which a compiled program has already.
    """
    from ragc.compiled.opened import load_to_answer
    from ragc.compiled.resolve import Opening

    return load_to_answer(path, Opening(tuple(sets), access.absolute()))


def ask(
    path: str | Path,
    question: str,
    *,
    sets: Sequence[str] = (),
    context: Mapping[str, Any] | None = None,
    again: bool = False,
    access: Access = Access(),
) -> Row:
    """Answers one question with the compiled program or recipe at `path`.

    `context` holds the other columns of a data row, such as `context_ids`;
    `again` asks the models again instead of using stored replies; the other arguments are those
    of `load`. Returns a Row with `prediction` (str, None where no reply could be read), `passages`, `trace`,
    `counters` and `failure`.

        ragc.ask("compiled/mine", "Which exception ends an iterator?").prediction

    Raises UsageError, Untrusted and TargetError.
    """
    from ragc.compiled import opened

    program = opened.open_program(path, sets, questions=False, access=access)
    if again:
        program.ask_anew()
    return opened.ask(program, question, context=context)


def evaluate(
    path: str | Path,
    *,
    split: str = "test",
    sets: Sequence[str] = (),
    replicates: int = 1,
    judge_again: int = 0,
    labels: str | Path | None = None,
    progress: Progress | None = None,
    access: Access = Access(),
    include_seen: bool = False,
) -> Evaluation:
    """Scores the compiled program or recipe at `path` on a split of its data: "train", "dev" or "test".

    Test questions that taught or chose the compiled program are left out; with `include_seen` they are
    scored, and rows and remark say so. With `replicates` above 1 every question is answered so many times,
    each draw a recording of its own, and `variances` says by metric how much of the variance is the model's
    own; everything else is of the first. With `judge_again` the judge is asked a second time about so many
    answers, and `second_verdicts` says by metric how often the score changed. `labels` is a file of a
    person's labels (`label_answers`); `agreement` then has Cohen's kappa of every judged metric. The other
    arguments are those of `load`. Returns an Evaluation with `rows` (a Row per question, in the order of the
    split), `metrics` (an Interval per metric: mean, low, high, n) and `counters`.

        ragc.evaluate("compiled/mine", split="dev").metrics["f1"].mean

    Raises UsageError for a split without questions, for replicates that are all equal and for labels of
    questions that are not asked, Untrusted, and TargetError.
    """
    from ragc.compiled.evaluate import score
    from ragc.compiled.opened import open_program

    program = open_program(path, sets, access=access)
    return score(
        program,
        split,
        progress=progress or SILENT,
        include_seen=include_seen,
        replicates=replicates,
        again=judge_again,
        labels=None if labels is None else Path(labels),
    )


def compare(
    a: str | Path,
    b: str | Path,
    *,
    split: str = "test",
    sets: Sequence[str] = (),
    by: str = "",
    seed: int = 0,
    labels: str | Path | None = None,
    progress: Progress | None = None,
    access: Access = Access(),
    include_seen: bool = False,
) -> RunComparison:
    """Compares run `b` with run `a`, question by question.

    Each is a compiled program, a recipe, or a file of rows written by `ragc eval --out`. The questions that
    changed most are ranked by the metric `by`, by default the first common one. `seed` is the seed of the
    resampling. `labels` is a JSONL file of a person's labels of answers of both, rows of `id`, `arm` and
    `label`, which correct the metric `by`. The other arguments are those of `evaluate` and apply to both.
    Returns a RunComparison with a row per metric: both intervals, the paired difference, its p-value adjusted
    over all metrics and for the looks at the same test questions before, and a verdict.

        ragc.compare("compiled/old", "compiled/new", split="dev").rows[0].verdict

    Raises UsageError where the runs share no question or no metric, and what `evaluate` raises.
    """
    from ragc.compiled import comparison
    from ragc.compiled.evaluate import score as evaluated
    from ragc.compiled.opened import open_program

    def score(path: Path, rows: ScoredRun | None) -> Evaluation:
        program = open_program(path, sets, access=access)
        shown = progress or SILENT
        return evaluated(program, split, progress=shown, include_seen=include_seen, count=False, beside=rows)

    file = None if labels is None else Path(labels)
    return comparison.compare(Path(a), Path(b), score, by=by, seed=seed, labels=file)


def summarize(
    rows: str | Path, *, by: str = "", worst: int = 3, labels: str | Path | None = None
) -> RowsSummary:
    """Summarizes a file of rows, written by `ragc eval --out`, and groups its questions by where they failed.

    A question is right with full marks by the metric `by`, by default the first that scores answers. `labels`
    is a file of a person's labels, by default the one that `label_answers` wrote beside the rows; `agreement`
    has Cohen's kappa of every judged metric with them. Returns a RowsSummary with `metrics` (an Interval
    each) and `groups`: "right", "not_retrieved", "not_used",
    "wording", "refused", "unreadable", "failed" and "unclear", each with its `rows` and the `worst` of them.

        ragc.summarize("rows.jsonl").groups[0].group.title

    Raises DataError for a damaged file, UnknownName for a metric that the rows do not have, and UsageError
    for labels of other rows.
    """
    from ragc.reports.rows import summarize as sum_up

    return sum_up(rows, by=by, worst=worst, labels=labels)


def report(
    paths: str | Path | Sequence[str | Path],
    *,
    out: str | Path = "report.html",
    access: Access = Access(),
) -> WrittenReport:
    """Writes a report on what was measured as one HTML file that needs no network, and its rows beside it.

    `paths` are a study (finished or not) or a compiled directory, files of rows as `ragc eval --out` writes
    them, or both; of several files of rows the last is compared with the first. Where a person labelled the
    answers of a file (`label_answers`), agreement stands beside its judged scores. Nothing is sent. The
    rows, a JSON object a line, stand beside `out` with the suffix `.jsonl`: every figure of the page is in
    one of them. `access` is that of `study_status`. Returns a WrittenReport with `page`, `rows`, `headline`
    and `gaps`, sentences on what is missing.

        ragc.report("compiled/mine", out="mine.html").headline

    Raises UsageError for an `out` that holds something else and for runs over different questions, DataError
    for damaged rows, ArtefactError where there is no study.
    """
    from ragc.reports.page import write

    return write([paths] if isinstance(paths, str | Path) else paths, out, trust_targets=access.targets)


def serve(
    *paths: str | Path,
    host: str = "127.0.0.1",
    port: int = 8080,
    sets: Sequence[str] = (),
    access: Access = Access(),
    listening: Callable[[str], object] = lambda address: None,
    **settings: Any,
) -> None:
    """Serves the compiled programs in `paths` as OpenAI's HTTP interface does, until SIGTERM or SIGINT.

    The name of a folder is the model id. `settings` are `allowed_hosts`, `history` (compiled, last, rewrite,
    refuse), `system` (ignore, refuse), `stream` (real, late), `workers`, `in_flight` questions in each of
    them, `in_flight_per_key`, `time_out` in seconds, `max_body` in bytes and `keep`.
    Keys of clients are read from RAGC_SERVE_KEYS. `listening` is called with the server's address.

        ragc.serve("compiled/mine", port=8080)

    Raises UsageError, also for a host beyond loopback without keys, and Untrusted.
    """
    from ragc.core.extras import require

    for module in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
        require(module, "Serving")
    from ragc.serving.settings import Settings, key_digests

    chosen = Settings.of(host=host, port=port, key_digests=key_digests(), **settings)
    if chosen.workers > 1:
        from ragc.serving.workers import serve_in_workers as serve_them
    else:
        from ragc.serving.run import serve as serve_them
    serve_them(paths, chosen, sets=sets, access=access, listening=listening)


def mcp(
    path: str | Path,
    *,
    transport: Literal["stdio", "http"] = "stdio",
    host: str = "127.0.0.1",
    port: int = 8080,
    sets: Sequence[str] = (),
    access: Access = Access(),
    listening: Callable[[str], object] = lambda address: None,
    **settings: Any,
) -> None:
    """Offers the compiled program at `path` to agents by the Model Context Protocol.

    Its tools are `ask` (argument `question`) and one `search_SOURCE` (argument `query`, and `k`, 1 to 20
    passages) for each source. Over stdio it serves until stdin is closed, over streamable HTTP at `/mcp`
    until SIGTERM or SIGINT, with the keys and checks of `serve`. `settings` are those of `serve` that are not
    about OpenAI's interface. `listening` is called with the address for HTTP.

        ragc.mcp("compiled/mine", transport="http", port=8080)

    Raises UsageError, also for a host beyond loopback without keys, and Untrusted.
    """
    from ragc.core.extras import require

    for module in ("mcp", "uvicorn", "httptools"):
        require(module, "Serving agents")
    from ragc.serving import mcp as agents
    from ragc.serving.settings import Settings, key_digests

    if transport not in ("stdio", "http"):
        raise UsageError(f"transport must be stdio or http, found {transport!r}.")
    chosen = Settings.of(host=host, port=port, key_digests=key_digests(), **settings)
    if chosen.workers > 1:
        raise UsageError("ragc.mcp serves in one process; leave workers out.")
    agents.serve(path, chosen, http=transport == "http", sets=tuple(sets), access=access, listening=listening)
