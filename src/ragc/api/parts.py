"""Programs without a recipe, and the targets and sources they run on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dspy import BaseLM, Module

    from ragc.corpora.sources.base import Source
    from ragc.programs.base import RagProgram
    from ragc.records import Passage
    from ragc.targets.base import Target


def program(name: str | Module | type[Module], /, *, store: bool = True, **parts: Any) -> RagProgram:
    """Builds the program `name` (`ragc list programs`) on your own targets and sources, as a `dspy.Module`.

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
    """Builds a language-model endpoint of that kind (`ragc list targets`), for `ragc.program`; sends nothing.

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
    """Builds a source of passages (`ragc list sources`), for `ragc.program`; sends and indexes nothing.

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
