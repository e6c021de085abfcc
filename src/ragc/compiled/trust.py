"""What a compiled directory from outside may do, field by field, and what the user must allow.

`list_accesses` walks over a resolved recipe and names all that it would have done beside searching its own
passages and asking a published address: programs that would run, files that would be read, addresses and
variables that would be used. Fields and options are allowed by name; one that is not listed here is refused.

    recipe ──► wants ──► refuse: what is not the user's word, not inside, and not allowed: one sentence
                    └──► `ragc trust` lists them before a directory is recorded (`trust_listing`)
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any, Literal

from ragc.compiled.access import Access
from ragc.core.redact import shorten
from ragc.core.user_code import is_reference
from ragc.corpora.embed import base
from ragc.corpora.embed.model_files import has_onnx
from ragc.corpora.files.records import is_address
from ragc.errors import Untrusted
from ragc.recipe import Recipe, SourceSpec
from ragc.recipe.lines import Keys
from ragc.targets.base import TargetSpec

RECIPE_PLAIN = frozenset(
    {"seed", "concurrency", "knobs", "budget", "grid", "training_data", "base", "allow_loss"}
)
RECIPE_REVIEWED = frozenset(
    {"program", "search", "report", "data", "sources", "targets", "assessing", "study", "prompts"}
)
DATA_PLAIN = frozenset({"fields", "corpus_fields", "where"})
DATA_PATHS = ("questions", "train", "dev", "test", "cross_domain", "cross_domain_corpus")
DATA_REVIEWED = frozenset({"dataset", "corpus", *DATA_PATHS})
"""The corpus of the data is read by the sources that have it."""
ASSESSING_PLAIN = frozenset({"crag_judge", "alternatives"})
STUDY_ADDRESSES = ("storage", "store")

_SERVER_PLAIN = frozenset({
    "concurrency", "context_tokens", "timeout_s", "connect_timeout_s", "tries", "total_s", "restart_s",
    "break_after", "cool_down_s", "requests_per_minute", "tokens_per_minute", "fallbacks", "has", "lacks",
    "max_reply_bytes",
})  # fmt: skip
_THINKING = frozenset({"thinking_tokens", "reasoning_effort"})
TARGET_PLAIN: Mapping[str, frozenset[str]] = {
    "embedded": _THINKING | {"context", "parallel", "threads", "timeout_s", "quiet", "keep_prefixes"},
    "vllm": _SERVER_PLAIN | _THINKING | {"dtype", "start_s"},
    "hosted": _SERVER_PLAIN | _THINKING,
}
"""Options of targets that only set sizes, times and numbers."""
TARGET_RUNS = {
    "serve": "starts a server",
    "offline": "loads vLLM into this process",
    "python": "names the program that serves",
    "flags": "sets flags of that program",
}
TARGET_SPEAKS = {
    "api_key_env": "sends the value of this environment variable",
    "identity": "says what answers, under which replies are kept",
    "price": "says what replies cost, by which budget.usd is kept",
}

_CUT = frozenset({"chunk_size", "overlap", "chunk_by"})
_HALF = frozenset({"half"})
_BM25 = _CUT | {"k1", "b", "title_boost"}
_DENSE = _CUT | {"index", "m", "ef_construction", "ef_search"}
SOURCE_PLAIN: Mapping[str, frozenset[str]] = {
    "bm25": _BM25 | _HALF | {"titles"},
    "given": _CUT | {"k1", "b"},
    "lucene": _BM25 | _HALF | {"titles", "analyzer"},
    "dense": _DENSE | _HALF,
    "hybrid": _HALF | {"fusion", "share", "pool", "constant"},
    "web": _CUT
    | {"engines", "region", "window", "results", "pages", "per_second", "tries", "backoff", "seconds"},
    "recorded": _CUT | {"unknown"},
    "api": frozenset({"timeout_s", "connect_timeout_s", "tries", "concurrency"}),
}
"""Options of sources that only set sizes, times and numbers, or choose among what ragc brings."""

PROVIDERS = frozenset({
    "openai", "anthropic", "gemini", "mistral", "groq", "deepseek", "cohere", "cohere_chat", "openrouter",
    "together_ai", "fireworks_ai", "xai", "perplexity", "deepinfra", "cerebras", "nvidia_nim", "sambanova",
})  # fmt: skip
"""LiteLLM's names of providers whose address is published and holds no part of the model's id."""
SERVERS = frozenset({
    "hosted_vllm", "litellm_proxy", "openai_like", "custom_openai", "ollama", "ollama_chat", "lm_studio",
    "llamafile",
})  # fmt: skip
"""LiteLLM's names of servers that are asked at `base_url` alone."""
IN_PROCESS = frozenset({"vllm", "petals"})
"""LiteLLM's names of libraries that it loads into this process, with the model."""
BODY_PLAIN = frozenset({
    "frequency_penalty", "presence_penalty", "repetition_penalty", "length_penalty", "logit_bias", "top_k",
    "top_p", "min_p", "temperature", "seed", "stop", "stop_token_ids", "ignore_eos", "min_tokens",
    "max_tokens", "max_completion_tokens", "reasoning_effort", "verbosity", "thinking",
    "chat_template_kwargs", "skip_special_tokens", "cache_prompt",
})  # fmt: skip
"""Fields of a request that shape the reply and lead nowhere else."""

_MODEL = re.compile(r"\w[\w.:@-]*(/\w[\w.:@-]*)*", re.ASCII)
_BARE = re.compile(r"(gpt-|o[1-9]|claude-)[\w.-]*", re.ASCII)
_BUILT_IN = frozenset({base.DEFAULT, *base.ALIASES, *base.ALIASES.values()})
_MOST_ENTRIES = 10_000

Kind = Literal["runs", "reads", "speaks", "unknown"]


@dataclass(frozen=True, slots=True)
class RequestedAccess:
    """One thing that a recipe would have done; `keys` say where it stands, `about` what it is.

    `published` marks what everybody may do: it is listed, never refused. Of a file that is read, `path` is
    how it is written; `model` is "onnx" or "any" where it is the folder of a model.
    """

    kind: Kind
    keys: Keys
    value: object
    about: str
    published: bool = False
    path: str = ""
    model: Literal["", "onnx", "any"] = ""

    @property
    def name(self) -> str:
        """Where it stands, as `--set` writes it; safe to print."""
        return ".".join(_shown_key(key) for key in self.keys)

    def __str__(self) -> str:
        return f"{self.name} = {shorten(repr(self.value), 100)}"


def list_accesses(recipe: Recipe) -> Iterator[RequestedAccess]:
    """All that `recipe` would run, read and speak to, section by section."""
    yield from _data(recipe)
    for name, source in sorted(recipe.sources.items()):
        yield from _source(("sources", name), source)
    for name, target in sorted(recipe.targets.items()):
        yield from _target(("targets", name), target)
    for predictor, file in sorted(recipe.prompts.items()):
        yield _file(("prompts", predictor), file, "a prompt")
    backend, colon, model = recipe.assessing.entailment.partition(":")
    if colon:
        keys, value = ("metrics", "entailment"), recipe.assessing.entailment
        yield RequestedAccess("reads", keys, value, f"a model for {backend}", path=model, model="any")
    yield from _own_code(recipe)
    for key in STUDY_ADDRESSES:
        if address := getattr(recipe.study, key):
            yield RequestedAccess("speaks", ("study", key), address, f"keeps the {key} of studies there")
    if workers := recipe.study.workers:
        yield RequestedAccess(
            "runs", ("study", "workers"), workers, "hands work to a Ray cluster, or starts one"
        )
        if workers != "ray":
            yield RequestedAccess("speaks", ("study", "workers"), workers, "joins this Ray cluster")


def _own_code(recipe: Recipe) -> Iterator[RequestedAccess]:
    """The modules of its author that `recipe` names: a program, and metrics."""
    about = "imports this module and runs it"
    named = {name.removeprefix("-") for name in (*recipe.search.objectives, recipe.search.pick)}
    if not any(":" in name for name in (recipe.program, *recipe.report, *named, *recipe.search.programs)):
        return  # no name of ours has a colon, and every reference has one
    if is_reference(recipe.program):
        yield RequestedAccess("runs", ("program",), recipe.program, about)
    for name in filter(is_reference, recipe.report):
        yield RequestedAccess("runs", ("metrics", "report"), name, about)
    for name in sorted(filter(is_reference, named - set(recipe.report))):
        yield RequestedAccess("runs", ("search", "objectives"), name, about)
    for name in filter(is_reference, recipe.search.programs):
        yield RequestedAccess("runs", ("search", "programs"), name, about)


def _data(recipe: Recipe) -> Iterator[RequestedAccess]:
    data = recipe.data
    if is_address(data.dataset):
        yield RequestedAccess("reads", ("data", "dataset"), data.dataset, "a data set")
    for key in DATA_PATHS:
        value = getattr(data, key)
        if isinstance(value, str) and value:
            yield _file(("data", key), value, "passages" if "corpus" in key else "questions")


def _file(keys: Keys, value: str, about: str) -> RequestedAccess:
    path = "" if is_address(value) else value
    return RequestedAccess("reads", keys, value, about, path=path)


def _source(keys: Keys, spec: SourceSpec) -> Iterator[RequestedAccess]:
    if spec.corpus:
        yield _file((*keys, "corpus"), spec.corpus, "passages")
    if spec.kind == "web":
        about = "asks public search engines, and may fetch pages from public addresses"
        yield RequestedAccess("speaks", (*keys, "kind"), "web", about, published=True)
    yield from _source_options((*keys, "options"), spec.kind, spec.options)


def _source_options(keys: Keys, kind: str, options: Mapping[str, Any]) -> Iterator[RequestedAccess]:
    for name, value in options.items():
        option_keys = (*keys, name)
        if name in SOURCE_PLAIN.get(kind, ()) or (name == "rerank_pool" and len(keys) == 3):
            continue
        if kind == "hybrid" and name in ("dense", "sparse") and isinstance(value, Mapping):
            yield from _source_options(option_keys, "dense" if name == "dense" else "bm25", value)
        elif kind == "dense" and name == "model":
            yield _model(option_keys, value, str(value), built_in=True)
        elif name == "rerank" and len(keys) == 3:
            what, _, model = (part.strip() for part in str(value).partition(":"))
            if value not in ("bm25", "embed"):
                yield _model(option_keys, value, model, built_in=what == "embed")
        elif kind == "api" and name == "base_url":
            yield RequestedAccess("speaks", option_keys, value, "searches this API")
        else:
            yield RequestedAccess("unknown", option_keys, value, "is not known to be harmless")


def _model(keys: Keys, value: object, name: str, *, built_in: bool) -> RequestedAccess:
    published = built_in and name in _BUILT_IN
    return RequestedAccess("reads", keys, value, "a model", path=name, model="onnx", published=published)


def _target(keys: Keys, spec: TargetSpec) -> Iterator[RequestedAccess]:
    variable = spec.options.get("api_key_env")
    if spec.base_url:
        yield RequestedAccess("speaks", (*keys, "base_url"), spec.base_url, "asks this server")
    if spec.kind == "embedded":
        if spec.model:
            yield _file((*keys, "model"), spec.model, "the weights of a model")
        else:
            about = "fetches SmolLM2-135M-Instruct from the package index, once"
            yield RequestedAccess("reads", (*keys, "kind"), spec.kind, about, published=True)
    if spec.options.get("serve") or spec.options.get("offline"):
        yield RequestedAccess("runs", (*keys, "model"), spec.model, "loads this model")
    own = False
    if spec.kind == "hosted":
        provider = _provider(spec.model)
        own = not spec.base_url and bool(provider) and variable == f"{provider.upper()}_API_KEY"
        published = bool(provider) and not spec.base_url and (own or not variable)
        at = "its published address" if provider and not spec.base_url else "an address of its own choice"
        if spec.model.partition("/")[0] in IN_PROCESS:
            yield RequestedAccess("runs", (*keys, "model"), spec.model, "loads this model into this process")
        yield RequestedAccess(
            "speaks", (*keys, "model"), spec.model, f"asks this model at {at}", published=published
        )
    if names := spec.options.get("fallbacks"):
        about = "asks these targets when it is not available"
        yield RequestedAccess("speaks", (*keys, "options", "fallbacks"), names, about, published=True)
    for name, value in spec.options.items():
        option_keys = (*keys, "options", name)
        if name in TARGET_PLAIN.get(spec.kind, ()) or value is False or value in ("", {}):
            continue
        if name == "body" and isinstance(value, Mapping):
            yield from _body(option_keys, value)
        elif name == "chat_template_kwargs":
            yield from _body((*keys, "options"), {name: value})
        elif name in TARGET_RUNS:
            yield RequestedAccess("runs", option_keys, value, TARGET_RUNS[name])
        elif name in TARGET_SPEAKS:
            yield RequestedAccess(
                "speaks", option_keys, value, TARGET_SPEAKS[name], published=own and name == "api_key_env"
            )
        else:
            yield RequestedAccess("unknown", option_keys, value, "is not known to be harmless")


def _provider(model: str) -> str:
    """The published provider of a LiteLLM id; "" where the id may lead anywhere else."""
    if not _MODEL.fullmatch(model):
        return ""
    provider, slash, _ = model.partition("/")
    if not slash and _BARE.fullmatch(model):
        return "anthropic" if model.startswith("claude-") else "openai"
    return provider if slash and provider in PROVIDERS else ""


def _body(keys: Keys, body: Mapping[str, Any]) -> Iterator[RequestedAccess]:
    for name, value in body.items():
        inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        if name not in BODY_PLAIN or any(isinstance(item, Mapping | list) for item in inner):
            runs = value in IN_PROCESS if isinstance(value, str) else False
            yield RequestedAccess(
                "runs" if runs else "speaks", (*keys, name), value, "adds this to every request"
            )


def refuse(
    recipe: Recipe,
    root: Path,
    *,
    where: Path,
    typed: Collection[Keys] = (),
    own_root: bool = False,
    access: Access = Access(),
) -> None:
    """Raise Untrusted when the `recipe` of the directory `where`, from outside, wants what nobody allowed.

    Relative paths lead from `root`, which is the directory itself unless the user named it (`own_root`).
    `typed` are the keys that the user set: those are the user's word. A file must lie inside `root`, links
    followed, unless the user typed a path that leads out as it is written. `access` allows addresses
    and names of variables, or programs and modules.
    """
    refused: list[RequestedAccess] = []
    for want in list_accesses(recipe):
        if want.kind == "reads" and want.path:
            # What the user typed may still be a link that the directory laid.
            laid = not own_root and _stays(root, want.path) and _exists(root, want.path)
            if (is_typed(want.keys, typed, recipe) and not laid) or is_inside(root, want):
                continue
        elif (
            want.published
            or is_typed(want.keys, typed, recipe)
            or _is_user_served(want, recipe, typed)
            or (want.kind == "speaks" and access.targets)
            or (want.kind == "runs" and access.code)
        ):
            continue
        refused.append(want)
    if refused:
        raise Untrusted(_sentence(where, refused, _IN_PYTHON), command=_sentence(where, refused, _TYPED))


def is_typed(keys: Keys, typed: Collection[Keys], recipe: Recipe | None = None) -> bool:
    """Whether the user set what stands at `keys`, or a table around it.

    A source without a corpus of its own has that of the data.
    """
    if any(keys[: len(own)] == own for own in typed if own):
        return True
    if recipe is None or len(keys) != 3 or (keys[0], keys[2]) != ("sources", "corpus"):
        return False
    spec = recipe.sources[str(keys[1])]
    return spec.corpus == recipe.data.corpus and is_typed(("data", "corpus"), typed)


def _is_user_served(want: RequestedAccess, recipe: Recipe, typed: Collection[Keys]) -> bool:
    """Whether `want` is a model of LiteLLM's that the user's own server is asked for, and nobody else."""
    if want.keys[0] != "targets" or want.keys[2:] != ("model",) or want.kind != "speaks":
        return False
    spec = recipe.targets[str(want.keys[1])]
    reached = _provider(spec.model) or spec.model.partition("/")[0] in SERVERS
    return bool(reached and spec.base_url and is_typed((*want.keys[:2], "base_url"), typed))


def _stays(root: Path, text: str) -> bool:
    """Whether the path `text` stays in `root` as it is written, or its last part does, links before it
    followed.
    """
    home = Path(os.path.normpath(root))
    try:
        path = Path(os.path.normpath(home / text))
        return path.is_relative_to(home) or (path.parent.resolve() / path.name).is_relative_to(home.resolve())
    except (OSError, RuntimeError, ValueError):
        return False


def is_inside(root: Path, want: RequestedAccess) -> bool:
    """Whether what is read lies inside `root`, links followed, or is weights that ragc itself names."""
    if want.model and not _exists(root, want.path):
        return want.published
    return _is_contained(root, want.path, onnx=want.model == "onnx", folder=bool(want.model))


def _exists(root: Path, text: str) -> bool:
    try:
        return (root / text).exists()
    except (OSError, ValueError):
        return False


def _is_contained(root: Path, text: str, *, onnx: bool, folder: bool) -> bool:
    """Whether `text` is a path to a regular file, or to a `folder` of them, inside `root`, links followed.

    It may be absolute. One that leads elsewhere on another system, or from a home folder, does not count.
    """
    if "\0" in text or text.startswith(("\\", "~")) or PureWindowsPath(text).drive:
        return False
    if "\\" in text and ".." in PureWindowsPath(text).parts:
        return False
    try:
        home, real = root.resolve(), (root / text).resolve()
        if not real.is_relative_to(home):
            return False
        if folder:
            return (has_onnx(real) or not onnx) and _is_self_contained(real, home)
        return real.is_file() or real.is_dir() or not real.exists()
    except (OSError, RuntimeError, ValueError):
        return False


def _is_self_contained(folder: Path, home: Path) -> bool:
    """Whether everything in `folder` is a regular file or folder inside `home`."""
    for number, path in enumerate(folder.rglob("*")):
        real = path.resolve()
        whole = real.is_file() or (real.is_dir() and not path.is_symlink())
        if number >= _MOST_ENTRIES or not (whole and real.is_relative_to(home)):
            return False
    return True


_IN_PYTHON = (
    "sets=['KEY=VALUE']",
    "sets=['study={}']",
    "access=ragc.Access(targets=True)",
    "access=ragc.Access(code=True)",
    "ragc.trust({!r})",
)
_TYPED = ("--set KEY=VALUE", "--set study={}", "--trust-targets", "--trust-code", "`ragc trust {}`")
"""How a key is set, the study left out, addresses and programs allowed, and a directory trusted."""


def _sentence(
    where: Path, refused: Collection[RequestedAccess], words: tuple[str, str, str, str, str]
) -> str:
    """What is refused, and the ways out in the `words` of whoever asks, in one sentence."""
    set_key, no_study, targets, code, trusting = words
    verbs = {
        "runs": "runs programs",
        "speaks": "chooses addresses or environment variables",
        "reads": "reads files outside of it",
        "unknown": "sets what is not known to be harmless",
    }
    clauses, ways = [], [f"replace each with {set_key}"]
    for kind, verb in verbs.items():
        if held := [want for want in refused if want.kind == kind]:
            more = f" and {len(held) - 3} more" if len(held) > 3 else ""
            clauses.append(f"{verb} ({', '.join(map(str, held[:3]))}{more})")
    kinds = {want.kind for want in refused}
    if any(want.keys[0] == "study" for want in refused):
        ways.append(f"leave its study out with {no_study}")
    if "speaks" in kinds:
        ways.append(f"allow its addresses and variables with {targets}")
    if "runs" in kinds:
        ways.append(f"allow its programs with {code}")
    return (
        f"{where}, as it is, was neither compiled nor trusted on this machine, and its recipe "
        f"{' and '.join(clauses)}: "
        f"{', '.join(ways)}, or see all that it does and trust it with {trusting.format(str(where))}."
    )


def _shown_key(key: str | int) -> str:
    text = str(key)
    return text if re.fullmatch(r"[\w-]+", text, re.ASCII) else json.dumps(text)
