"""What a predictor of a user's module sends, for those who show, count or export its prompt."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import dspy
import pydantic

from ragc.core.digest import digest
from ragc.programs.calls.demos import plain
from ragc.programs.own import SETTINGS, adapters
from ragc.programs.own.gateway import shown_messages
from ragc.targets.base import ChatRequest, Message, Role, Sampling, Target
from ragc.targets.dspy_lm import target_of

if TYPE_CHECKING:
    from ragc.programs.own.program import OwnProgram


class _Formatted(BaseException):
    """Messages and settings that would have been sent; no Exception, which an adapter may catch."""


class _Formatting(dspy.BaseLM):
    """Comes before the class of an LM, and sends nothing."""

    def __call__(self, prompt: Any = None, *, messages: Any = None, **settings: Any) -> Any:
        raise _Formatted(messages, settings)


class OwnCall:
    """A predictor of a user's module as a typed call that is not made."""

    role: Role = "main"
    nearest, logprobs = 0, False

    def __init__(self, program: OwnProgram, name: str, predictor: Any) -> None:
        self._program, self._predictor, self.name = program, predictor, name
        self.signature = self.signature_sent = predictor.signature
        self.config = predictor.config
        self.demos = [plain(demo) for demo in predictor.demos]
        self.max_demos = max(len(self.demos), int(program.knobs.icl_n))
        self._adapter = program.adapter or dspy.settings.adapter or dspy.ChatAdapter()
        self.layout = adapters.layout_of(self._adapter)

    @property
    def target(self) -> Target:
        """The target that answers."""
        lm = self._predictor.lm
        target: Target = self._program.runtime.target("main") if lm is None else target_of(lm.ragc_lm)
        return target

    def settings(self, lm: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns how replies are drawn, as far as the settings of the LM say: its own, or those given."""
        settings = {**((self._predictor.lm or self._program.lm).kwargs if lm is None else lm), **self.config}
        return {name: settings[name] for name in SETTINGS if settings.get(name) is not None}

    @property
    def sampling(self) -> Sampling:
        """How replies are drawn, with ragc's defaults for what the LM's settings leave open."""
        return Sampling(**self.settings())

    @property
    def template(self) -> Any:
        """The constant part of the prompt, as `prefix`."""
        return SimpleNamespace(prefix=self.messages(**dict.fromkeys(self.signature.input_fields, "")))

    @property
    def fingerprint(self) -> str:
        """A digest of what makes the prompt."""
        return digest([adapters.to_json(self._adapter), self.signature.dump_state(), self.demos])

    @property
    def response_format(self) -> Any:
        """The format of replies that is sent, as OpenAI's API has it; None if none is sent."""
        _, settings = self._formatted(dict.fromkeys(self.signature.input_fields, ""))
        form = settings.get("response_format")
        if not (isinstance(form, type) and issubclass(form, pydantic.BaseModel)):
            return form
        strict = {"name": form.__name__, "strict": True, "schema": form.model_json_schema()}
        return {"type": "json_schema", "json_schema": strict}

    def messages(self, **inputs: Any) -> tuple[Message, ...]:
        """Returns the messages of a call with `inputs`; none of a predictor that makes no call with them."""
        return tuple(Message(*message) for message in shown_messages("", self._formatted(inputs)[0]))

    def surely_fits(self, messages: Any) -> bool:
        """Returns True: DSPy cuts nothing."""
        return True

    def request(self, **inputs: Any) -> ChatRequest:
        """Returns the request of a call with `inputs`."""
        return ChatRequest(self.messages(**inputs), sampling=self.sampling)

    def _formatted(self, inputs: dict[str, Any]) -> Any:
        fields, none = self.signature.input_fields, dspy.History(messages=[])  # no text can stand for turns
        given = {n: none if fields[n].annotation is dspy.History else value for n, value in inputs.items()}
        lm = (self._predictor.lm or self._program.lm).copy()
        lm.__class__ = type(lm.__class__.__name__, (_Formatting, lm.__class__), {})
        try:
            with dspy.context(adapter=self._adapter, callbacks=[], warn_on_type_mismatch=False):
                self._predictor(lm=lm, demos=self.demos, **given)
        except _Formatted as formatted:
            return formatted.args
        except Exception:  # a class or an adapter of the user's that reads its inputs
            return (), {}
        return (), {}
