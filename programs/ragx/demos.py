"""Few-shot examples that suit the question: of its domain or of others, some of them invalid questions.

RAG-X, "Analysis of Few-Shot Learning" and Table 5. There all examples are of invalid questions; here
`icl_invalid` says how many are at least, and the other places go to the first that suit.
Differs: the examples in the authors' code are fixed texts; ours are those that an optimizer collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from ragc.core.digest import digest
from ragc.programs.calls.demos import nearest_first, plain
from ragc.programs.calls.predict import RagPredict
from ragc.signatures.answer import INVALID, normalize_refusal
from ragc.targets.base import Message

DOMAIN = "domain"


class ChoosingPredict(RagPredict):
    """The typed call `like`, which shows only demonstrations that suit the question.

    Unless `where` is "any" there is an input `domain`. It is not sent; it is in the trace, and so in the
    demonstrations made of it, and decides which of them are shown.
    """

    def __init__(self, like: RagPredict, *, where: str, invalid: int) -> None:
        self.where, self.invalid = where, invalid
        signature = like.signature
        if where != "any":
            about = dspy.InputField(desc="what the question is about")
            signature = signature.insert(len(signature.input_fields), DOMAIN, about, str)
        super().__init__(
            signature,
            like.runtime,
            role=like.role,
            layout=like.layout,
            sampling=like.sampling,
            max_demos=like.max_demos,
            logprobs=like.logprobs,
        )

    @property
    def fingerprint(self) -> str:
        """Returns a digest of everything in the prompt except the inputs."""
        return digest([super().fingerprint, [plain(d) for d in self.demos], self.where, self.invalid])

    def messages(self, **inputs: Any) -> tuple[Message, ...]:
        """Returns the chat messages that a call with `inputs` sends; no model is called.

        If the nearest demonstrations are shown, they are the nearest of all that suit.
        """
        domain = str(inputs.pop(DOMAIN, ""))
        order = nearest_first(self.demos, inputs) if self.nearest else range(len(self.demos))
        most = min(self.nearest, self.max_demos) if self.nearest else self.max_demos
        places = choose_demos(
            self.demos, most, where=self.where, domain=domain, invalid=self.invalid, order=order
        )
        return self.view(places).messages(**inputs)

    @property
    def signature_sent(self) -> Any:
        """The signature as it is sent, without the domain."""
        return self.signature.delete(DOMAIN)


def choose_demos(
    demos: Sequence[Mapping[str, Any]],
    most: int,
    *,
    where: str,
    domain: str,
    invalid: int,
    order: Sequence[int] = (),
) -> tuple[int, ...]:
    """Returns the positions of at most `most` of `demos` that suit a question of `domain`, in their order.

    The first in `order`, all positions by preference, are taken. `invalid` positions go to demonstrations of
    invalid questions, if so many suit. With `where` "same" or "cross" a demonstration without a domain never
    suits.
    """
    fit = [at for at in order or range(len(demos)) if _suits(demos[at], where, domain)]
    refused = [at for at in fit if normalize_refusal(str(demos[at].get("answer"))) == INVALID]
    first = refused[: min(invalid, most)]
    rest = [at for at in fit if at not in first][: most - len(first)]
    return tuple(sorted(first + rest))


def _suits(demo: Mapping[str, Any], where: str, domain: str) -> bool:
    own = str(demo.get(DOMAIN) or "").casefold()
    if where == "any":
        return True
    return bool(own) and (own == domain.casefold()) == (where == "same")
