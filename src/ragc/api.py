"""The public functions, also those behind the command line; each imports what it needs when it is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import optuna

    from ragc.core.progress import Progress
    from ragc.corpora.sources.base import Source
    from ragc.doctor.check import Check
    from ragc.doctor.targets import TargetCheck
    from ragc.exports.write import Exported
    from ragc.metrics.reports.compare_runs import RunComparison
    from ragc.metrics.reports.runs import Run
    from ragc.optimizers.answering import Row
    from ragc.optimizers.compile import Compiled
    from ragc.optimizers.integrations.optuna_objective import Objective
    from ragc.optimizers.results.compiled import CompiledProgram
    from ragc.optimizers.results.evaluate import Evaluation
    from ragc.optimizers.results.trust_listing import TrustListing
    from ragc.optimizers.search.status import StudyStatus
    from ragc.programs.base import RagProgram
    from ragc.records import Passage
    from ragc.targets.base import Target


def compile(
    recipe: str | Path,
    *,
    sets: Sequence[str] = (),
    out: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Compiled:
    """Compile the recipe file `recipe` to the directory `out` (default `compiled/<recipe name>`).

    `sets` are overrides, `key.path=value`. Raises RagcError.
    """
    from ragc import recipe as recipes
    from ragc.optimizers import compile as compiling

    resolved = recipes.load(recipe, sets)
    target = Path(out) if out is not None else Path("compiled") / Path(recipe).stem
    return compiling.compile(resolved, target, resume=resume, progress=progress or compiling.SILENT)


def plan(recipe: str | Path, *, sets: Sequence[str] = (), out: str | Path | None = None) -> dict[str, Any]:
    """Check everything about the recipe and estimate what compiling it sends at most; sends nothing.

    Whether a compiled program may be written to `out` is checked too, where it is given.
    """
    from ragc.optimizers.plan.estimate import estimate
    from ragc.optimizers.results.compiled import refuse_foreign
    from ragc.recipe import load as read

    read_recipe = read(recipe, sets)
    if out is not None:
        refuse_foreign(Path(out))
    return estimate(read_recipe)


def recipe_schema() -> dict[str, Any]:
    """The JSON Schema of recipes (draft 2020-12), by which editors complete and check them."""
    from ragc.recipe.schema import json_schema

    return json_schema()


def examine_recipe(recipe: str | Path, *, sets: Sequence[str] = ()) -> Check:
    """Whether this machine has the libraries, keys and roles that `recipe` needs; sends nothing."""
    from ragc.doctor.targets import examine_recipe as examine
    from ragc.recipe import load as read

    return examine(read(recipe, sets))


def examine_targets(
    recipe: str | Path, *, sets: Sequence[str] = (), again: bool = False
) -> list[TargetCheck]:
    """Whether each target of `recipe` answers, and what it can do; sends a few tiny requests, once."""
    from ragc.doctor.targets import examine_targets as examine
    from ragc.recipe import load as read

    return examine(read(recipe, sets), again=again)


def load(
    path: str | Path,
    *,
    sets: Sequence[str] = (),
    base: str | Path | None = None,
    trust_targets: bool = False,
    trust_code: bool = False,
) -> CompiledProgram:
    """The compiled program in the directory `path`, to be called: `load(path)("A question?").prediction`.

    Relative paths of its recipe lead from `base`: by default from where they led when this machine compiled
    it, else from the directory. One that this machine neither compiled nor trusts is data from outside:
    `trust_targets` allows its addresses and names of variables, `trust_code` its programs and modules, and
    `sets` replaces what it says. Raises ArtefactError; a call raises Untrusted for what nobody allowed.
    """
    from ragc.optimizers.results.resolve import opening
    from ragc.optimizers.results.session import load_to_answer

    how = opening(sets, None if base is None else Path(base).absolute(), trust_targets, trust_code)
    return load_to_answer(path, how)


def ask(
    path: str | Path,
    question: str,
    *,
    sets: Sequence[str] = (),
    context: Mapping[str, Any] | None = None,
    base: str | Path | None = None,
    trust_targets: bool = False,
    trust_code: bool = False,
) -> Row:
    """Answer `question` with the compiled program or recipe at `path`; the rest is said at `load`."""
    from ragc.optimizers.results import evaluate as examples

    program = examples.open_program(
        path, sets, questions=False, base=base, trust_targets=trust_targets, trust_code=trust_code
    )
    return examples.ask(program, question, context=context)


def evaluate(
    path: str | Path,
    *,
    split: str = "test",
    sets: Sequence[str] = (),
    progress: Progress | None = None,
    base: str | Path | None = None,
    trust_targets: bool = False,
    trust_code: bool = False,
) -> Evaluation:
    """Score the compiled program or recipe at `path` on a split of its data; the rest is said at `load`."""
    from ragc.optimizers.results import evaluate as examples

    program = examples.open_program(path, sets, base=base, trust_targets=trust_targets, trust_code=trust_code)
    return examples.score(program, split, progress=progress or examples.SILENT)


def trust_listing(path: str | Path, *, base: str | Path | None = None) -> TrustListing:
    """What the compiled directory `path` would run, read and speak to, and its digest; records nothing."""
    from ragc.optimizers.results.trust_listing import listing

    return listing(path, base)


def trust(path: str | Path, *, base: str | Path | None = None) -> TrustListing:
    """Record on this machine that the compiled directory `path` is trusted as it is now; what it would do.

    Its relative paths lead from `base`, by default from itself. Raises ArtefactError, and UsageError when
    the record cannot be written.
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
    base: str | Path | None = None,
    trust_targets: bool = False,
    trust_code: bool = False,
) -> RunComparison:
    """Compare `b` with `a` question by question.

    Each is a compiled program, a recipe, or a file of rows that `ragc eval --out` wrote. The questions that
    changed most are told by the metric `by`, the first common one by default; the rest is said at `load`, and
    holds for both. Raises RagcError.
    """
    from ragc.metrics.reports import compare_runs, runs

    def run(path: Path) -> Run:
        if path.suffix == ".jsonl":
            return runs.read(path)
        evaluation = evaluate(
            path,
            split=split,
            sets=sets,
            progress=progress,
            base=base,
            trust_targets=trust_targets,
            trust_code=trust_code,
        )
        return runs.of_rows(str(path), (row.to_json() for row in evaluation.rows))

    return compare_runs.compare(run(Path(a)), run(Path(b)), by=by, seed=seed)


def index(
    recipe: str | Path, *, sets: Sequence[str] = (), progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Build the indexes that the program of a recipe searches; one row an index. Raises RagcError."""
    from ragc import recipe as recipes
    from ragc.optimizers import indexing

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
    base: str | Path | None = None,
    trust_targets: bool = False,
    trust_code: bool = False,
) -> Exported:
    """Write the prompts of the compiled program at `path` to `out`, in one format or "all".

    With `questions` that many dev questions go along as cases and the first as a worked example, where the
    format has a place for them; otherwise no model is called, and the rest, which is said at `load`, plays no
    part. Raises RagcError.
    """
    from ragc.exports import examples
    from ragc.exports import write as exports
    from ragc.optimizers.results.resolve import opening

    exports.refuse(format, out, force=force)
    how = opening(sets, base, trust_targets, trust_code)
    if questions:  # before any is answered
        exports.refuse_for(examples.open_for_export(path, how=how), format, out)
    program = examples.open_for_export(path, questions=questions, progress=progress, how=how)
    return exports.export(program, format, out, force=force)


def check_export(
    path: str | Path,
    exported: str | Path,
    *,
    questions: int = 0,
    sets: Sequence[str] = (),
    base: str | Path | None = None,
    trust_targets: bool = False,
    trust_code: bool = False,
) -> str:
    """Render the compiled program at `path` again and compare it with what was `exported`; the formats' ids.

    Raises ArtefactError with the first difference. The rest is as at `export`.
    """
    from ragc.exports import examples
    from ragc.exports import write as exports
    from ragc.optimizers.results.resolve import opening

    how = opening(sets, base, trust_targets, trust_code)
    return exports.check(examples.open_for_export(path, questions=questions, how=how), exported)


def study(recipe: str | Path, *, sets: Sequence[str] = (), name: str = "") -> optuna.Study:
    """An Optuna study for the recipe file `recipe`, to be optimized with `objective` of the same `name`.

    It is kept on disk in a folder that is printed, under `name` or the recipe's own. Raises RagcError.
    """
    from ragc import recipe as recipes
    from ragc.optimizers.integrations import optuna_objective

    return optuna_objective.study(recipes.load(recipe, sets), name=name, file=recipe)


def study_status(path: str | Path, *, trust_targets: bool = False) -> StudyStatus:
    """How the study of the compiled program at `path` stands, finished or not. Raises UsageError for none.

    A study's directory that is not in this machine's cache is one from outside; `trust_targets` allows its
    addresses.
    """
    from ragc.optimizers.search.status import status

    return status(path, trust_targets=trust_targets)


def join_study(study: str, *, trials: int | None = None) -> NoReturn:
    """Make this process a worker of a running `study`, an --out directory or HOST:PORT; it never returns."""
    from ragc.optimizers.distributed.worker import join

    join(study, trials=trials)


def objective(recipe: str | Path, *, sets: Sequence[str] = (), name: str = "") -> Objective:
    """The recipe file `recipe` as an objective for `study.optimize`. Nothing is sent before it is called."""
    from ragc import recipe as recipes
    from ragc.optimizers.integrations import optuna_objective

    return optuna_objective.Objective(recipes.load(recipe, sets), name=name, file=recipe)


def program(name: str, /, *, store: bool = True, **parts: Any) -> RagProgram:
    """The program `name` (`ragc list programs`) on targets and sources of your own, as a `dspy.Module`.

    `parts` are its targets by role (`main`, `proxy`, `judge`, `teacher`), its sources by name (`local`,
    `web`, `kg`, `dense`) and its knobs (`ragc list knobs NAME`), in any order; knobs that are left out keep
    their declared defaults. Targets are opened at the first question, in any number of threads. Replies come
    from the call store of this user, and go there; with `store=False` they are held in memory only.

    A call takes the question as text and what its row says beside it, such as `context_ids`. It gives a
    `dspy.Prediction` with `answer` (str), `passages` (tuple of Passage, as shown to the last call), `trace`
    (tuple of events) and `counters` (amounts by name; `latency` in seconds).

        lm = ragc.target("embedded")
        local = ragc.source("bm25", corpus="handbook.jsonl")
        program = ragc.program("vanilla", main=lm, local=local, top_k=3)
        program(question="Which exception ends an iterator?").answer

    Raises UnknownName, with the nearest name, for a program, role, source or knob that does not exist;
    UsageError for one that is missing or out of range; CapabilityMissing for a target that cannot do what
    the program needs. A call raises ParseFailure, TargetError and BudgetExhausted.
    """
    from ragc.optimizers.integrations.without_recipe import build_program

    return build_program(name, parts, store=store)


def target(kind: str, /, *, model: str = "", base_url: str = "", **options: Any) -> Target:
    """A language-model endpoint of that kind (`ragc list targets`), for `ragc.program`; nothing is sent yet.

    `embedded` runs the GGUF file `model` in this process, SmolLM2-135M-Instruct by default, which is fetched
    once (93 MB) at the first question. `vllm` asks the server at `base_url`, which ends in `/v1`, or starts
    one with `serve=True`. `hosted` takes any LiteLLM id. `options` are those of `[targets.ROLE.options]` in a
    recipe: `concurrency` (requests in flight), `timeout_s` (seconds a reply), `api_key_env` (the name of the
    variable that holds the key) and so on.

        lm = ragc.target("vllm", model="Qwen/Qwen2.5-7B-Instruct", base_url="http://127.0.0.1:8000/v1")

    Raises UnknownName, with the nearest name, for a kind or an option that does not exist, and UsageError for
    values that cannot be, or a file that is not there.
    """
    from ragc.optimizers.integrations.without_recipe import build_target

    return build_target(kind, model, base_url, options)


def source(
    kind: str,
    /,
    corpus: str | Path | Iterable[Passage | Mapping[str, Any] | str] | None = None,
    *,
    fields: Mapping[str, str] | None = None,
    store: bool = True,
    record: str | Path | None = None,
    **options: Any,
) -> Source:
    """Something to search (`ragc list sources`), for `ragc.program`; nothing is sent or indexed yet.

    `corpus` is the path of a file (JSON lines with `id`, `title` and `text`; CSV, Parquet and others with
    `fields` that say where those stand), an address `hf:`, or passages in memory: `ragc.Passage`, mappings
    with `text` and perhaps `id` and `title`, or texts. `options` are those of `[sources.NAME.options]` in a
    recipe, such as `k1`, `chunk_by` or `rerank`. The results of a web search go to the call store of this
    user; with `store=False` they are held in memory only. Every search is also written to the file `record`,
    which a source of kind `recorded` reads.

        local = ragc.source("bm25", corpus=[{"id": "stop", "text": "StopIteration ends an iterator."}])

    Raises UnknownName, with the nearest name, for a kind that does not exist; UsageError for an option that
    does not exist or cannot be, or a file that is not there; DataError with everything wrong in a corpus.
    """
    from ragc.optimizers.integrations.without_recipe import build_one_source

    return build_one_source(kind, corpus, fields or {}, options, store=store, record=record)
