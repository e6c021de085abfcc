"""Derives an export from a program: prompts as templates, without a model, a source or a network.

A prompt's text is rendered by its predictor with a marker as the value of every input; the markers in the
output become slots. So a template matches the predictor's output for any layout.

The targets and sources of `runtime` are stubs: they suffice to build a program and read its prompts, not to
run it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal, get_args, get_origin

from ragc.compiled.base import CompiledProgram
from ragc.errors import UsageError
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.calls.demos import plain
from ragc.programs.calls.layouts import JSON_LAYOUTS
from ragc.programs.calls.outputs import reply_schema
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import ADAPTER
from ragc.programs.method import Method
from ragc.programs.own import SETTINGS
from ragc.programs.own.prompts import OwnCall
from ragc.programs.ragx.demos import ChoosingPredict, choose_demos
from ragc.programs.runtime import Runtime
from ragc.prompts.imported import layout_digest
from ragc.prompts.model import (
    Case,
    CompiledPrompt,
    ExportedProgram,
    Input,
    Kind,
    NotExpressible,
    Part,
    Slot,
    Style,
    TemplateMessage,
)
from ragc.records import Hit, Passage
from ragc.signatures.wording import description
from ragc.store.calls import CallStore
from ragc.targets.base import ROLES, Capability, ChatRequest, Reply, Sampling, Watch
from ragc.targets.reasoning import reasoning_of, with_reasoning
from ragc.targets.wire import body_of, response_format
from ragc.task.base import recorded_rooms
from ragc.task.rehearsal import rehearse


class OfflineStub:
    """A target and source that claims every capability and raises UsageError when used."""

    name = model = identity = kind = fingerprint = "stand-in"
    capabilities: frozenset[Capability] = frozenset({"schema", "logprobs", "prompt_logprobs", "seed"})
    context_tokens, concurrency = 10**9, 1

    def __init__(self, reasoning_tokens: int = 0) -> None:
        self.reasoning_tokens = reasoning_tokens

    def __deepcopy__(self, memo: object) -> OfflineStub:
        return self

    async def open(self, progress: Watch | None = None) -> None:
        """Does nothing."""

    async def complete(self, request: ChatRequest) -> Reply:
        """Raises UsageError."""
        raise UsageError("An export makes no call; run the program itself to get an answer.")

    def count_tokens(self, text: str) -> int:
        """Returns the number of words."""
        return len(text.split())

    async def aclose(self) -> None:
        """Does nothing."""

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Raises UsageError."""
        raise UsageError("An export makes no search; run the program itself to get an answer.")

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Raises UsageError."""
        raise UsageError("An export makes no search; run the program itself to get an answer.")

    def rechunk(self, chunk_size: int, overlap: float) -> OfflineStub:
        """Returns this source itself."""
        return self


def tables(recipe: str) -> Mapping[str, Any]:
    """Returns the tables of a recipe's TOML text; none if it is unreadable."""
    try:
        return tomllib.loads(recipe)
    except tomllib.TOMLDecodeError:
        return {}


def runtime(entry: Method, recipe: Mapping[str, Any], provenance: Mapping[str, Any] | None = None) -> Runtime:
    """Returns a stub runtime with the roles and sources of `recipe`, by default all that the method may use.

    `provenance` has the tokens for thoughts of its targets.
    """
    roles: Iterable[Any] = recipe.get("targets") or ROLES
    rooms = recorded_rooms(provenance or {})
    sources: Iterable[str] = recipe.get("sources") or (*entry.sources, *entry.optional_sources)
    nothing = OfflineStub()
    stubs = {role: OfflineStub(rooms[role]) if rooms.get(role) else nothing for role in roles}
    return Runtime(stubs, dict.fromkeys(sources, nothing), store=CallStore(None))


def models(recipe: Mapping[str, Any], provenance: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Returns by role the model's id, without addresses and only the last part of a path, and its name for
    OpenAI's API, where it is named as LiteLLM does.

    The provenance names the default model of a kind and an LM of DSPy, of which the recipe says nothing.
    """
    by_role, recorded = {}, provenance.get("targets") or {}
    for role, table in ({role: {} for role in recorded} | (recipe.get("targets") or {})).items():
        kind, _, name = (recorded.get(role, {}).get("name") or "").rpartition(" ")
        id = str(table.get("model") or name)
        if table.get("kind") == "embedded" or id[:1] in ("/", "~", ".") or PureWindowsPath(id).drive:
            id = PurePosixPath(PureWindowsPath(id).as_posix()).name
        of_litellm = table.get("kind", kind) in ("hosted", "dspy")
        if id:
            by_role[str(role)] = (id, id.removeprefix("openai/") if of_litellm else id)
    return by_role


_KINDS: Mapping[type, Kind] = {str: "text", bool: "flag", int: "integer", float: "number"}
_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private-use characters that delimit the marker of an input."""


def derive_export(compiled: CompiledProgram | RagProgram, *, cases: Iterable[Case] = ()) -> ExportedProgram:
    """Returns the ExportedProgram of `compiled`, a compiled program or one made in Python.

    `cases` are for formats that include them. Raises NotExpressible when a prompt is not a
    fixed template, and ArtefactError when this version of ragc cannot build the program.
    """
    if isinstance(compiled, RagProgram):
        program, state = compiled, CompiledProgram.of(compiled, provenance={}, recipe="", run={})
    else:
        state, entry = compiled, method(compiled.state.method)
        program = compiled.build(runtime(entry, tables(compiled.recipe), compiled.provenance))
    recipe, entry = tables(state.recipe), program.method
    recorded, prompts = state.provenance.get("targets") or {}, []
    names = models(recipe, state.provenance)
    for name, call in program.named_calls():
        prompt = prompt_of(name, call, recorded.get(call.role, {}).get("sampling"))
        id, openai_id = names.get(call.role) or names.get("main") or ("model", "model")
        prompts.append(replace(prompt, model=id, openai_model=openai_id))
    rehearsals = rehearse(entry, program.runtime, program.knobs.to_json())
    return ExportedProgram(
        method=entry.id,
        about=entry.about,
        fingerprint=state.fingerprint,
        knobs=program.knobs.to_json(),
        prompts=tuple(prompts),
        single=len(prompts) == 1 == max((rehearsal.calls for rehearsal in rehearsals), default=0),
        learned=dict(program.learned),
        note=_note(recipe) if any(prompt.demos for prompt in prompts) else "",
        metric=_metric_of(recipe.get("search") or {}),
        cases=tuple(cases),
    )


def prompt_of(name: str, call: Any, sampling: Mapping[str, Any] | None = None) -> CompiledPrompt:
    """Returns the prompt of the predictor `call`, a RagPredict or what one of a user's module sends.

    `sampling` are the recorded settings of the LM that the latter was measured with. Raises NotExpressible
    when demonstrations depend on the question, when an input has a type other than text, number, flag or a
    list of those, or when the layout changes a value.
    """
    what, signature = f"The prompt {name!r}", call.signature
    _check_fixed(what, call)
    fields = {key: info for key, info in signature.input_fields.items() if not _echoes(info)}
    inputs = {key: _input(what, key, info) for key, info in fields.items()}
    marks: dict[str, Any] = {key: f"{_OPEN}{key}{_CLOSE}" for key in inputs}
    request = call.request(**{key: [mark] if inputs[key].many else mark for key, mark in marks.items()})
    if not request.messages:
        raise NotExpressible(what, "its predictor makes no call of a model that can be written down")
    *fixed, last = request.messages
    if any(_OPEN in message.content for message in fixed):
        raise NotExpressible(what, "its instructions or demonstrations hold U+E000, which marks the inputs")
    parts = _parts(what, last.content, inputs, call.layout)
    shown = {part.name for part in parts if isinstance(part, Slot)}
    schema, left_out = reply_schema(signature), {"model", "messages"}
    if isinstance(call, OwnCall):
        settings, form = call.settings(sampling), call.response_format
        left_out |= set(SETTINGS) - settings.keys()
        request = replace(request, sampling=Sampling(**settings))
    else:
        form = response_format(schema) if call.layout in JSON_LAYOUTS else None
    body = body_of(with_reasoning(call.target, replace(request, schema=None, logprobs=call.logprobs)), "")
    body |= {"response_format": form} if form else {}
    return CompiledPrompt(
        name=name,
        role=call.role,
        instructions=signature.instructions,
        messages=(
            *(TemplateMessage(m.role, (m.content,) if m.content else ()) for m in fixed),
            TemplateMessage("user", parts),
        ),
        inputs=tuple(input for input in inputs.values() if input.name in shown),
        outputs={key: description(key, info) for key, info in signature.output_fields.items()},
        output_schema=schema,
        layout=call.layout,
        enforced=bool(form and form.get("type") == "json_schema"),
        parameters={key: value for key, value in body.items() if key not in left_out},
        fingerprint=call.fingerprint,
        demonstrations=tuple(_demonstrations(call)),
        reasoning_tokens=reasoning_of(call.target),
        laid_out=layout_digest(call),
    )


def _demonstrations(call: Any) -> Iterator[dict[str, Any]]:
    """Yields the demonstrations that `call` shows, those with an input and an output, without echoes."""
    places: Sequence[int] = range(min(len(call.demos), call.max_demos))
    if isinstance(call, ChoosingPredict):
        places = choose_demos(call.demos, call.max_demos, where="any", domain="", invalid=call.invalid)
    kinds = (call.signature.input_fields.keys(), call.signature.output_fields.keys())
    for demo in (plain(call.demos[place]) for place in places):
        if all(kind & demo.keys() for kind in kinds):
            names = (name for name, info in call.signature.fields.items() if not _echoes(info))
            yield {name: demo[name] for name in names if name in demo}


def _check_fixed(what: str, call: Any) -> None:
    """Raises NotExpressible if the messages before the last depend on the question."""
    why = ""
    if call.nearest and call.demos:
        why = (
            f"each question decides which {call.nearest} of its {len(call.demos)} demonstrations are shown; "
            "compile it with other search.demo_kinds than 'nearest' to export it"
        )
    elif call.layout == ADAPTER:
        why = "a DSPy adapter of your own makes its messages, which no export holds"
    elif isinstance(call, ChoosingPredict):
        if call.where != "any" and call.demos:
            why = f"the domain of each question decides its demonstrations (icl_domain = {call.where!r})"
    elif isinstance(call, RagPredict) and type(call).messages is not RagPredict.messages:
        why = f"{type(call).__name__} makes its messages anew for every question"
    if why:
        raise NotExpressible(what, why)


def _input(what: str, name: str, info: Any) -> Input:
    """Returns the Input for a field; raises NotExpressible for an unsupported type."""
    kind, many = _plain_type(info.annotation), False
    if get_origin(kind) in (list, tuple) and get_args(kind):
        kind, many = _plain_type(get_args(kind)[0]), True
    if kind not in _KINDS:
        raise NotExpressible(what, f"its input {name!r} is of the type {info.annotation}")
    return Input(name, _KINDS[kind], many, description(name, info))


def _plain_type(annotation: Any) -> Any:
    """Returns the plain type of an annotated one, and the common type of a choice of values."""
    if get_origin(annotation) is Annotated:
        return _plain_type(get_args(annotation)[0])
    kinds = {type(option) for option in get_args(annotation)} if get_origin(annotation) is Literal else set()
    return kinds.pop() if len(kinds) == 1 else annotation


def _echoes(info: Any) -> bool:
    """Returns whether a field repeats another input."""
    return bool((info.json_schema_extra or {}).get("echo"))


def _parts(what: str, content: str, inputs: Mapping[str, Input], layout: str) -> tuple[Part, ...]:
    """Splits `content` at the markers; a list's marker includes what the layout adds around a single item."""
    marker = rf"{_OPEN}\w+{_CLOSE}"
    parts: list[Part] = []
    for piece in filter(None, re.split(rf'(\[1\] {marker}|\["{marker}"\]|{marker})', content)):
        match = re.search(rf"{_OPEN}(\w+){_CLOSE}", piece)
        if match is None:
            if _OPEN in piece:
                raise NotExpressible(what, f"the layout {layout!r} changes the value of an input")
            parts.append(piece)
            continue
        name: str = match[1]
        style: Style = "plain" if piece == match[0] else "lines" if piece.startswith("[1]") else "json"
        if inputs[name].many == (style == "plain"):
            raise NotExpressible(what, f"the layout {layout!r} writes the input {name!r} in an unknown way")
        words = ("true", "false") if style != "plain" or layout == "minimal" else ("True", "False")
        parts.append(Slot(name, style, words))
    return tuple(parts)


def _metric_of(search: Mapping[str, Any]) -> str:
    """Returns the objective that decided, by the table `search` of a recipe; "" if it names none."""
    pick = search.get("pick") or ""
    return str(pick.get("objective") or "") if isinstance(pick, Mapping) else str(pick)


def _note(recipe: Mapping[str, Any]) -> str:
    """Returns the origin and licence of demonstrations."""
    from ragc.corpora import datasets

    id = str((recipe.get("data") or {}).get("dataset") or "")
    if not id:
        return "Demonstrations: from data of the user; no licence is known."
    if id not in datasets.FILES:
        return f"Demonstrations: from questions of the data set {id}; no licence is known."
    return f"Demonstrations: from train questions of the data set {id}; licence: {datasets.card(id).licence}."
