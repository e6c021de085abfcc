"""The public functions. The command line uses them too.

Each imports its dependencies when it is called, so that `import ragc` is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ragc.compiled.access import Access

if TYPE_CHECKING:
    import optuna
    from dspy import BaseLM, Module

    from ragc.compiled.base import CompiledProgram
    from ragc.compiled.evaluate import Evaluation
    from ragc.compiled.trust_listing import TrustListing
    from ragc.core.progress import Progress
    from ragc.core.progress.bars import Display
    from ragc.corpora.sources.base import Source
    from ragc.doctor.check import Check
    from ragc.doctor.targets import TargetCheck
    from ragc.exports.write import Exported
    from ragc.metrics.reports.compare_runs import RunComparison
    from ragc.optimizers.compile import Compiled
    from ragc.optimizers.grids.grid import Grid
    from ragc.optimizers.grids.record import RecordedGrid
    from ragc.optimizers.grids.tables.result import Reproduction
    from ragc.optimizers.integrations.optuna_objective import Objective
    from ragc.optimizers.plan.headroom.result import Headroom
    from ragc.optimizers.search.status import StudyStatus
    from ragc.programs.base import RagProgram
    from ragc.records import Passage
    from ragc.reports.rows import RowsSummary
    from ragc.reports.write import WrittenReport
    from ragc.targets.base import Target
    from ragc.task.answering import Row
    from ragc.training.data.build import TrainingData
    from ragc.training.finetune.train import Trained


def compile(
    recipe: str | Path,
    *,
    sets: Sequence[str] = (),
    out: str | Path | None = None,
    resume: bool = False,
    again: bool = False,
    include_seen: bool = False,
    allow_loss: bool = False,
    progress: Display = None,
) -> Compiled:
    """Search for the best program, test it against the baseline, and write it.

    It is written to the directory `out`, by default `compiled/` and the name of the recipe file. `sets` are
    overrides such as `"search.trials=5"`. `resume` continues an interrupted study, or starts one. `again`
    asks the models anew; replies that are kept are not used. Test questions that an earlier search on this
    machine used as train or dev are left out; with `include_seen` they are scored, and the verdict says so. A
    prompt of the recipe with texts that no request would hold is refused, unless `allow_loss` lets them go.
    `progress` is True for the bars of the command line, False for none, None for bars on a terminal or in a
    notebook, a function that takes a line of text, or a Progress. Returns a Compiled with `verdict` (str),
    `baseline` and `test` (an Interval per metric, on the test split), `differences`, `counters` (requests,
    tokens, US dollars, seconds) and the `program`.

        compiled = ragc.compile("recipe.toml", out="compiled/mine")
        print(compiled.verdict, compiled.test["f1"].mean)

    Raises RecipeError with all problems of the recipe, UsageError, DataError, TargetError, and
    NothingAnswered when no program answered any dev question.
    """
    from ragc import recipe as recipes
    from ragc.core.progress.bars import showing
    from ragc.optimizers import compile as compiling

    resolved = recipes.load(recipe, sets, allow_loss=allow_loss)
    target = Path(out) if out is not None else Path("compiled") / Path(recipe).stem
    with showing(progress) as shown:
        return compiling.compile(
            resolved, target, resume=resume, again=again, progress=shown, include_seen=include_seen
        )


def train(
    config: str | Path, *, out: str | Path, sets: Sequence[str] = (), progress: Progress | None = None
) -> Trained:
    """Fine-tune a model on rows of training data, as the TOML file `config` says, into the directory `out`.

    A killed training goes on; a finished one is returned as it is. Returns a Trained with `model`, the
    directory of the tuned model that vLLM and transformers open, and `card`, with losses and settings.

        trained = ragc.api.train("train.toml", out="tuned/mine")
        print(trained.card["after"]["loss"])

    Raises RecipeError with all problems of the file, DataError with those of its rows, UsageError where the
    extra `train` is absent or `out` holds something else, and RagcError.
    """
    from ragc.training.finetune import train as training

    return training.train(config, out, sets=sets, progress=progress)


def write_base(base: str, *, out: str | Path, progress: Progress | None = None) -> Path:
    """Write `embedded` or a GGUF file as a Hugging Face directory `out`, which vLLM and TRL open.

    Raises UsageError, also where the extra `train` is absent or `out` is not empty.
    """
    from ragc.core.progress import Silent
    from ragc.training.finetune.base_models import write_base as write

    return Path(write(base, out, progress or Silent()).path)


def plan(
    recipe: str | Path,
    *,
    sets: Sequence[str] = (),
    out: str | Path | None = None,
    include_seen: bool = False,
    allow_loss: bool = False,
) -> dict[str, Any]:
    """Check a recipe file and everything it needs, and bound the cost of compiling it. Sends nothing.

    Returns a JSON object: upper bounds `lm_calls`, `tokens` and `usd`, estimates `lm_calls_about`,
    `tokens_about`, `usd_about` and `seconds` (each None where unknown), and the same by phase. With `out` it
    also checks that a compiled program can be written there.

        ragc.plan("recipe.toml")["lm_calls"]

    Raises what `compile` raises before its first request.
    """
    from ragc import recipe as recipes
    from ragc.optimizers.plan.estimate import estimate

    return estimate(recipes.load(recipe, sets, allow_loss=allow_loss), out, include_seen=include_seen)


def grid(
    recipe: str | Path,
    *,
    sets: Sequence[str] = (),
    out: str | Path | None = None,
    allow_loss: bool = False,
    progress: Progress | None = None,
) -> RecordedGrid:
    """Evaluate the settings in the table `[grid]` of a recipe on its dev questions, and write a grid.

    It is written to the directory `out`, by default `grids/` and the name of the recipe file. A grid that is
    there is completed, also one that was cut off, and gets the settings that it lacks. `allow_loss` is that
    of `compile`. Returns a RecordedGrid with `path`, the `grid` and `counters`.

        recorded = ragc.grid("recipe.toml", out="grids/mine", sets=["grid.sample=8"])
        print(recorded.grid.scores("f1").mean(axis=1))

    Raises RecipeError, UsageError for an `out` with a grid of other questions, data, models or metrics,
    ArtefactError for one with something else, BudgetExhausted, and TargetError.
    """
    from ragc import recipe as recipes
    from ragc.optimizers.grids import record

    resolved = recipes.load(recipe, sets, allow_loss=allow_loss)
    return record.record(resolved, _grid_folder(recipe, out), progress=progress or record.SILENT)


def plan_grid(
    recipe: str | Path,
    *,
    sets: Sequence[str] = (),
    out: str | Path | None = None,
    allow_loss: bool = False,
) -> dict[str, Any]:
    """Check the grid of a recipe file and all it needs, and bound the cost of what is missing in `out`.

    Sends nothing. Returns a JSON object with `settings`, `recorded`, `questions` and `cells`, and the bounds
    and estimates of `plan`. Raises what `grid` raises before its first request.
    """
    from ragc import recipe as recipes
    from ragc.optimizers.grids.plan import estimate

    return estimate(recipes.load(recipe, sets, allow_loss=allow_loss), _grid_folder(recipe, out))


def _grid_folder(recipe: str | Path, out: str | Path | None) -> Path:
    return Path(out) if out is not None else Path("grids") / Path(recipe).stem


def merge_grids(paths: Sequence[str | Path], *, out: str | Path | None = None) -> RecordedGrid:
    """Merge the grids in the directories `paths` into one in `out`, by default the first of them.

    They must be of the same questions, data, models and program; settings of each are added. A grid in `out`
    is the first part. Raises UsageError and ArtefactError, with nothing written.
    """
    from ragc.optimizers.grids.merge import merge

    return merge(paths, out)


def read_grid(path: str | Path) -> Grid:
    """Read the grid in the directory `path`, complete or not. Raises ArtefactError and UsageError."""
    from ragc.optimizers.grids.grid import read

    return read(path)


def training_data(
    kind: str,
    recipe: str | Path,
    *,
    out: str | Path,
    sets: Sequence[str] = (),
    format: str = "trl",
    allow_loss: bool = False,
    progress: Progress | None = None,
    access: Access = Access(),
) -> TrainingData:
    """Make training data for small models from the train questions of a recipe, and write it to `out`.

    `kind` is prefrag-dpo, rqrag-sft, slimplm-labels, slimplm-judge or slimplm-rewrites; with demonstrations
    `recipe` is a compiled program, and nothing is sent. `out` is a file FILE.jsonl, its card is FILE.md.
    `format` is trl or llamafactory. `access` is that of `load`, for demonstrations; `allow_loss` is that of
    `compile`. A call that was cut off goes on when it is repeated. Returns a TrainingData with `rows`,
    `classes`, `drops`, `card` and `counters`.

        data = ragc.training_data("prefrag-dpo", "recipe.toml", out="pairs.jsonl")
        print(data.classes, data.drops)

    Raises RecipeError, UsageError for an `out` with something else, BudgetExhausted with the rows of complete
    questions written, NothingAnswered where there is no row, and TargetError.
    """
    from ragc.training.data import build, demonstrations

    if kind == demonstrations.KIND:
        from ragc.compiled.resolve import Opening

        how = Opening(tuple(sets), access.absolute())
        return demonstrations.build(recipe, out, format=format, how=how)
    from ragc import recipe as recipes

    resolved = recipes.load(recipe, sets, allow_loss=allow_loss)
    return build.build(kind, resolved, out, format=format, progress=progress or build.SILENT)


def plan_training_data(
    kind: str,
    recipe: str | Path,
    *,
    sets: Sequence[str] = (),
    out: str | Path | None = None,
    allow_loss: bool = False,
) -> dict[str, Any]:
    """Check what `training_data` needs and bound its cost. Sends nothing.

    Returns a JSON object with `questions`, `calls_a_question`, and upper bounds `lm_calls`, `tokens` and
    `usd` (None where unknown). Raises what `training_data` raises before its first request.
    """
    from ragc import recipe as recipes
    from ragc.training.data.build import estimate

    return estimate(kind, recipes.load(recipe, sets, allow_loss=allow_loss), out)


def reproduce(
    table: str,
    *,
    rows: Sequence[str] = (),
    data_sets: Sequence[str] = (),
    data: str | Path = "data",
    sets: Sequence[str] = (),
    limit: int | None = None,
    beside: str = "",
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Run a table of a paper, or some `rows` of it on some `data_sets`, with `limit` questions of each.

    `data` is the folder that holds one folder a data set. The model is the embedded one unless `sets` says
    otherwise. `beside` is the paper's model whose figures are compared. Rows, result and plot are written to
    the folder `out`, by default `reproduced/` and the table's id; rows that are there are not asked again.
    Returns a Reproduction with `cells` (an Interval per metric), `differs` (what differs from the paper, in
    sentences), `left_out`, and the paths.

        ragc.reproduce("prefrag-main", rows=["no_retrieval"], limit=50).cells[0].means["f1"]

    Raises UnknownName for a table, row or data set, DataError that says which files are absent, from where
    they come and under which licence, UsageError, BudgetExhausted, and TargetError.
    """
    from ragc.optimizers.grids.tables import run

    return run.reproduce(
        table,
        rows=rows,
        data_sets=data_sets,
        data=data,
        sets=sets,
        limit=limit,
        beside=beside,
        out=out,
        progress=progress or run.SILENT,
    )


def plan_reproduce(
    table: str,
    *,
    rows: Sequence[str] = (),
    data_sets: Sequence[str] = (),
    data: str | Path = "data",
    sets: Sequence[str] = (),
    limit: int | None = None,
    beside: str = "",
    out: str | Path | None = None,
) -> dict[str, Any]:
    """Bound the LM calls of `reproduce` with these arguments, as a JSON object by cell. Sends nothing.

    Raises what `reproduce` raises before its first request.
    """
    from ragc.optimizers.grids.tables.run import estimate

    return estimate(
        table, rows=rows, data_sets=data_sets, data=data, sets=sets, limit=limit, beside=beside, out=out
    )


def paper_tables(*, data: str | Path = "data") -> dict[str, Any]:
    """The tables that `reproduce` runs, as a JSON object, and which of their data the folder `data` holds."""
    from ragc.optimizers.grids.tables.listing import listing

    return listing(data)


def headroom(
    recipe: str | Path,
    *,
    sets: Sequence[str] = (),
    calls: int = 300,
    gain: float = 0.05,
    allow_loss: bool = False,
    progress: Progress | None = None,
) -> Headroom:
    """Measure what a study of `recipe` can show, with at most `calls` LM calls on dev questions.

    A few settings that differ much answer the same dev questions, and the baseline answers them twice. A
    later compile replays what was answered. Returns a Headroom with `verdict` ("worth it", "not worth it",
    "change it first" or "not known"), `why`, `gain` (the gain to expect, with its interval), `shows` (the
    smallest gain that the dev and test questions show), `needed` (the questions that the gain `gain` needs)
    and `noise`. No test question is used.

        ragc.headroom("recipe.toml").why

    Raises what `compile` raises before its first request, UsageError where the recipe searches nothing or
    `calls` are too few, and NothingAnswered when no question was answered.
    """
    from ragc import recipe as recipes
    from ragc.optimizers.plan.headroom import probe

    resolved = recipes.load(recipe, sets, allow_loss=allow_loss)
    return probe.headroom(resolved, calls=calls, gain=gain, progress=progress or probe.SILENT)


def headroom_plan(
    recipe: str | Path,
    *,
    sets: Sequence[str] = (),
    calls: int = 300,
    gain: float = 0.05,
    allow_loss: bool = False,
) -> dict[str, Any]:
    """What `headroom` would spend `calls` LM calls on, as a JSON object. Sends nothing.

    Raises what `headroom` raises before its first request.
    """
    from ragc import recipe as recipes
    from ragc.optimizers.plan.headroom import probe

    return probe.plan(recipes.load(recipe, sets, allow_loss=allow_loss), calls=calls, gain=gain)


def recipe_schema() -> dict[str, Any]:
    """The JSON Schema of recipes (draft 2020-12), for completion and checks in editors."""
    from ragc.recipe.schema import json_schema

    return json_schema()


def examine_recipe(recipe: str | Path, *, sets: Sequence[str] = ()) -> Check:
    """Check that this machine has the libraries, keys and roles that `recipe` needs. Sends nothing."""
    from ragc import recipe as recipes
    from ragc.doctor import targets

    return targets.examine_recipe(recipes.load(recipe, sets))


def examine_targets(
    recipe: str | Path, *, sets: Sequence[str] = (), again: bool = False
) -> list[TargetCheck]:
    """Check that each target of `recipe` answers, and probe its capabilities with a few tiny requests.

    The result is cached; `again` repeats the requests.
    """
    from ragc import recipe as recipes
    from ragc.doctor import targets

    return targets.examine_targets(recipes.load(recipe, sets), again=again)


def load(
    path: str | Path,
    *,
    sets: Sequence[str] = (),
    access: Access = Access(),
) -> CompiledProgram:
    """Load the compiled program in the directory `path`.

    A call returns a Row with `prediction` (str or None), `passages`, `counters` and `failure`. Targets and
    sources are opened at the first call, for all threads and event loops. `access` says what a directory from
    elsewhere may do and where relative paths lead from; `sets` overrides values of its recipe.

        with ragc.load("compiled/mine") as program:
            program("Which exception ends an iterator?").prediction

    Raises ArtefactError when `path` is not a compiled program, Untrusted for what is not allowed, and
    UsageError where `sets` name knobs or prompts, which a compiled program has already.
    """
    from ragc.compiled.resolve import Opening
    from ragc.compiled.session import load_to_answer

    return load_to_answer(path, Opening(tuple(sets), access.absolute()))


def ask(
    path: str | Path,
    question: str,
    *,
    sets: Sequence[str] = (),
    context: Mapping[str, Any] | None = None,
    again: bool = False,
    access: Access = Access(),
    allow_loss: bool = False,
) -> Row:
    """Answer one question with the compiled program or recipe at `path`.

    `context` holds the other columns of a data row, such as `context_ids`; `allow_loss` is that of `compile`,
    for a recipe; `again` asks the models anew in the place of replies that are kept; the other arguments are
    those of `load`. Returns a Row with `prediction` (str, None where no reply could be read), `passages`,
    `trace`, `counters` and `failure`.

        ragc.ask("compiled/mine", "Which exception ends an iterator?").prediction

    Raises UsageError, Untrusted and TargetError.
    """
    from ragc.compiled import evaluate as examples

    program = examples.open_program(
        path,
        sets,
        questions=False,
        access=access,
        allow_loss=allow_loss,
    )
    if again:
        program.ask_anew()
    return examples.ask(program, question, context=context)


def serve(
    *paths: str | Path,
    host: str = "127.0.0.1",
    port: int = 8080,
    sets: Sequence[str] = (),
    access: Access = Access(),
    listening: Callable[[str], object] = lambda address: None,
    **settings: Any,
) -> None:
    """Serve the compiled programs in `paths` as OpenAI's HTTP interface does, until SIGTERM or SIGINT.

    The name of a folder is the model id. `settings` are `allowed_hosts`, `history` (last, refuse), `system`
    (ignore, refuse), `stream` (real, late), `in_flight`, `time_out` in seconds, `max_body` in bytes and
    `keep`. Keys of clients are read from RAGC_SERVE_KEYS. `listening` is called with the server's address.

        ragc.serve("compiled/mine", port=8080)

    Raises UsageError, also for a host beyond loopback without keys, and Untrusted.
    """
    from ragc.core.extras import require

    for module in ("fastapi", "uvicorn", "prometheus_client"):
        require(module, "Serving")
    from ragc.serving import run
    from ragc.serving.settings import Settings, key_digests

    run.serve(
        paths,
        Settings.of(host=host, port=port, key_digests=key_digests(), **settings),
        sets=sets,
        access=access,
        listening=listening,
    )


def evaluate(
    path: str | Path,
    *,
    split: str = "test",
    sets: Sequence[str] = (),
    progress: Progress | None = None,
    access: Access = Access(),
    include_seen: bool = False,
    allow_loss: bool = False,
) -> Evaluation:
    """Score the compiled program or recipe at `path` on a split of its data: "train", "dev" or "test".

    Test questions that taught or chose the compiled program are left out; with `include_seen` they are
    scored, and rows and remark say so. The other arguments are those of `load`. Returns an Evaluation with
    `rows` (a Row per question, in the order of the split), `metrics` (an Interval per metric: mean, low,
    high, n) and `counters`.

        ragc.evaluate("compiled/mine", split="dev").metrics["f1"].mean

    Raises UsageError for a split without questions, Untrusted, and TargetError.
    """
    from ragc.compiled import evaluate as examples

    program = examples.open_program(
        path,
        sets,
        access=access,
        allow_loss=allow_loss,
    )
    return examples.score(program, split, progress=progress or examples.SILENT, include_seen=include_seen)


def summarize(rows: str | Path, *, by: str = "", worst: int = 3) -> RowsSummary:
    """Sum up a file of rows, written by `ragc eval --out`, and group its questions by where they failed.

    A question is right with full marks by the metric `by`, by default the first that scores answers. Returns
    a RowsSummary with `metrics` (an Interval each) and `groups`: "right", "not_retrieved", "not_used",
    "wording", "refused", "unreadable", "failed" and "unclear", each with its `rows` and the `worst` of them.

        ragc.summarize("rows.jsonl").groups[0].group.title

    Raises DataError for a damaged file, and UnknownName for a metric that the rows do not have.
    """
    from ragc.reports.rows import summarize as sum_up

    return sum_up(rows, by=by, worst=worst)


def trust_listing(path: str | Path, *, base: str | Path | None = None) -> TrustListing:
    """List what the compiled directory `path` would run, read and contact, with its digest; records nothing.

    Raises ArtefactError when `path` is not a compiled program.
    """
    from ragc.compiled.trust_listing import listing

    return listing(path, base)


def trust(path: str | Path, *, base: str | Path | None = None) -> TrustListing:
    """Record on this machine that the compiled directory `path` is trusted in its current state.

    Its relative paths are relative to `base`, by default to itself. Returns the same listing as
    `trust_listing`. Raises ArtefactError, and UsageError when the record cannot be written.
    """
    return trust_listing(path, base=base).record()


def compare(
    a: str | Path,
    b: str | Path,
    *,
    split: str = "test",
    sets: Sequence[str] = (),
    by: str = "",
    seed: int = 0,
    progress: Progress | None = None,
    access: Access = Access(),
    include_seen: bool = False,
    allow_loss: bool = False,
) -> RunComparison:
    """Compare run `b` with run `a`, question by question.

    Each is a compiled program, a recipe, or a file of rows written by `ragc eval --out`. The questions that
    changed most are ranked by the metric `by`, by default the first common one. `seed` is the seed of the
    resampling. The other arguments are those of `evaluate` and apply to both. Returns a RunComparison with a
    row per metric: both intervals, the paired difference, its p-value adjusted over all metrics, and a
    verdict.

        ragc.compare("compiled/old", "compiled/new", split="dev").rows[0].verdict

    Raises UsageError where the runs share no question or no metric, and what `evaluate` raises.
    """
    from ragc.compiled import comparison

    score = partial(
        evaluate,
        split=split,
        sets=sets,
        progress=progress,
        access=access,
        include_seen=include_seen,
        allow_loss=allow_loss,
    )
    return comparison.compare(Path(a), Path(b), score, by=by, seed=seed)


def index(
    recipe: str | Path, *, sets: Sequence[str] = (), progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Build the indexes that the programs of a recipe file search; existing indexes are reused.

    Returns a JSON object per index, with `path`, `bytes` and `passages`. Raises RecipeError, DataError and
    SourceError.
    """
    from ragc import recipe as recipes
    from ragc.task import indexing

    return indexing.index(recipes.load(recipe, sets), progress=progress or indexing.SILENT)


def export(
    path: str | Path,
    format: str,
    out: str | Path,
    *,
    force: bool = False,
    questions: int = 0,
    progress: Progress | None = None,
    sets: Sequence[str] = (),
    access: Access = Access(),
) -> Exported:
    """Write the prompts of the compiled program at `path` to `out`, in one format or "all".

    With `questions`, that many dev questions are answered and exported as cases, and the first as a worked
    example, in formats that support them. Without, no model is called and the arguments of `load` are not
    used. `force` replaces an existing export. Returns an Exported with the paths by format.

        ragc.export("compiled/mine", "jinja2", "prompts")

    Raises UnknownName for a format (`ragc list exports`), and UsageError for an `out` that cannot be written
    or a program that the format cannot express.
    """
    from ragc import exports
    from ragc.compiled.resolve import Opening

    how = Opening(tuple(sets), access)
    return exports.export_directory(
        path, format, out, how=how, force=force, questions=questions, progress=progress
    )


def check_export(
    path: str | Path,
    exported: str | Path,
    *,
    questions: int = 0,
    sets: Sequence[str] = (),
    access: Access = Access(),
) -> str:
    """Render the compiled program at `path` again and compare it with the export at `exported`.

    Returns the ids of the formats. The other arguments are those of `export`. Raises ArtefactError with the
    first difference.
    """
    from ragc import exports
    from ragc.compiled.resolve import Opening

    how = Opening(tuple(sets), access)
    return exports.check_directory(path, exported, how=how, questions=questions)


def report(
    paths: str | Path | Sequence[str | Path],
    *,
    out: str | Path = "report.html",
    access: Access = Access(),
) -> WrittenReport:
    """Write a report on what was measured as one HTML file that needs no network, and its rows beside it.

    `paths` are a study (finished or not) or a compiled directory, files of rows as `ragc eval --out` writes
    them, or both; of several files of rows the last is compared with the first. Nothing is sent. The rows, a
    JSON object a line, stand beside `out` with the suffix `.jsonl`: every figure of the page is in one of
    them. `access` is that of `study_status`. Returns a WrittenReport with `page`, `rows`, `headline`
    and `gaps`, sentences on what is missing.

        ragc.report("compiled/mine", out="mine.html").headline

    Raises UsageError for an `out` that holds something else and for runs over different questions, DataError
    for damaged rows, ArtefactError where there is no study.
    """
    from ragc.reports.write import write

    return write([paths] if isinstance(paths, str | Path) else paths, out, trust_targets=access.targets)


def study(recipe: str | Path, *, sets: Sequence[str] = (), name: str = "") -> optuna.Study:
    """An Optuna study for a recipe file, to be optimized with `objective` of the same `name`.

    It is stored under `name`, by default the recipe's name, in a folder whose path is printed.

        study, objective = ragc.study("recipe.toml"), ragc.objective("recipe.toml")
        study.optimize(objective, n_trials=20)

    Raises RecipeError, and UsageError for a recipe that changed under the same name.
    """
    from ragc import recipe as recipes
    from ragc.optimizers.integrations import optuna_objective

    return optuna_objective.study(recipes.load(recipe, sets), name=name, file=recipe)


def study_status(path: str | Path, *, access: Access = Access()) -> StudyStatus:
    """The state of the study of the compiled program at `path`, finished or not.

    Returns a StudyStatus: trials, best values, budget, log. A study outside this machine's cache is
    untrusted; `access` with `targets` allows its addresses. Raises ArtefactError where there is no study.
    """
    from ragc.optimizers.search.status import status

    return status(path, trust_targets=access.targets)


def join_study(study: str, *, trials: int | None = None) -> NoReturn:
    """Make this process a worker of a running `study`, given as an --out directory or HOST:PORT.

    Never returns. It runs up to `trials` trials at a time, by default one per core. Raises UsageError.
    """
    from ragc.optimizers.distributed.worker import join

    join(study, trials=trials)


def objective(
    recipe: str | Path, *, sets: Sequence[str] = (), name: str = "", allow_loss: bool = False
) -> Objective:
    """A recipe file as an objective for `study.optimize`; nothing is sent until it is called.

    A call returns the mean of the objective over the dev questions, or a tuple of means for several
    objectives. Larger is better. `allow_loss` is that of `compile`. Raises RecipeError and DataError.
    """
    from ragc import recipe as recipes
    from ragc.optimizers.integrations import optuna_objective

    resolved = recipes.load(recipe, sets, allow_loss=allow_loss)
    return optuna_objective.Objective(resolved, name=name, file=recipe)


def program(name: str | Module | type[Module], /, *, store: bool = True, **parts: Any) -> RagProgram:
    """The program `name` (`ragc list programs`) on targets and sources of your own, as a `dspy.Module`.

    `name` may also be a `dspy.Module` of your own, its class, or where that is: `my_module:MyProgram`.

    `parts` are its targets by role (`main`, `proxy`, `judge`, `teacher`), its sources by name (`local`,
    `web`, `kg`, `dense`) and its knobs (`ragc list knobs NAME`), in any order; omitted knobs have their
    declared defaults. Targets are opened at the first question, in any number of threads. Replies are stored
    in this user's call store and replayed from it; with `store=False` they are held in memory only.

    A target may also be a `dspy.LM`, where `lm` is short for `main`, and a source a function that takes the
    query (and `k`, if it names it) and returns a list of texts, mappings with `text`, or passages. Without a
    target the LM of `dspy.configure` answers.

    A call takes the question as text and what its row says beside it, such as `context_ids`. It gives a
    `dspy.Prediction` with `answer` (str), `passages` (tuple of Passage, as shown to the last call), `trace`
    (tuple of events) and `counters` (amounts by name; `latency` in seconds).

        lm = ragc.target("embedded")
        local = ragc.source("bm25", corpus="handbook.jsonl")
        program = ragc.program("vanilla", main=lm, local=local, top_k=3)
        program(question="Which exception ends an iterator?").answer

    Raises UnknownName, with the nearest name, for an unknown program, role, source or knob; UsageError for
    one that is missing or out of range; CapabilityMissing for a target that lacks a capability of the
    program. A call raises ParseFailure for a reply that cannot be read, and TargetError.
    """
    from ragc.optimizers.integrations.without_recipe import build_program

    return build_program(name, parts, store=store)


def target(kind: str | BaseLM, /, *, model: str = "", base_url: str = "", **options: Any) -> Target:
    """A language-model endpoint of that kind (`ragc list targets`), for `ragc.program`; nothing is sent yet.

    `kind` may also be a `dspy.LM`; its options are `context_tokens` (32768 by default) and `concurrency`.
    `embedded` runs the GGUF file `model` in this process, SmolLM2-135M-Instruct by default, which is fetched
    once (93 MB) at the first question. `vllm` asks the server at `base_url`, which ends in `/v1`, or starts
    one with `serve=True`. `hosted` takes any LiteLLM id. `options` are those of `[targets.ROLE.options]` in a
    recipe: `concurrency` (requests in flight), `timeout_s` (seconds a reply), `api_key_env` (the name of the
    variable that holds the key) and so on.

        lm = ragc.target("vllm", model="Qwen/Qwen2.5-7B-Instruct", base_url="http://127.0.0.1:8000/v1")

    Raises UnknownName, with the nearest name, for an unknown kind or option, and UsageError for invalid
    values or a missing file.
    """
    from ragc.optimizers.integrations.without_recipe import build_target

    return build_target(kind, model, base_url, options)


def source(
    kind: str | Callable[..., Any],
    /,
    corpus: str | Path | Iterable[Passage | Mapping[str, Any] | str] | None = None,
    *,
    fields: Mapping[str, str] | None = None,
    store: bool = True,
    record: str | Path | None = None,
    **options: Any,
) -> Source:
    """A source of passages (`ragc list sources`), for `ragc.program`. Nothing is sent or indexed yet.

    `kind` may also be a function that takes the query, or a retriever of DSPy.

    `corpus` is the path of a file (JSON lines with `id`, `title` and `text`; CSV, Parquet and others with
    `fields` that say where those stand), an address `hf:`, or passages in memory: `ragc.Passage`, mappings
    with `text` and perhaps `id` and `title`, or texts. `options` are those of `[sources.NAME.options]` in a
    recipe, such as `k1`, `chunk_by` or `rerank`. The results of a web search go to the call store of this
    user; with `store=False` they are held in memory only. Every search is also written to the file `record`,
    which a source of kind `recorded` reads.

        local = ragc.source("bm25", corpus=[{"id": "stop", "text": "StopIteration ends an iterator."}])

    Raises UnknownName, with the nearest name, for an unknown kind; UsageError for an unknown or invalid
    option, or a missing file; DataError with all problems of a corpus.
    """
    from ragc.optimizers.integrations.without_recipe import build_one_source

    return build_one_source(kind, corpus, fields or {}, options, store=store, record=record)
