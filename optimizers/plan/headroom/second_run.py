"""The same program a second time: its replies are drawn anew and stored apart from the first ones."""

from __future__ import annotations

from dataclasses import replace

from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.targets.base import Capability, ChatRequest, Reply, Target, Watch
from ragc.targets.thinking import room_of
from ragc.targets.token_price import Price, table_price
from ragc.task.base import Task
from ragc.task.prompts import give_prompts

SHIFT = 1 << 20
"""Added to the number of a sample, so that a seeded target draws another reply."""


class SecondTarget:
    """A target whose replies are not those of the first run: they are stored under another identity.

    Greedy requests are sent as they were, sampled ones with another number of the sample, from which targets
    with the capability `seed` make their seed. It is opened and closed with the target itself.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.name, self.model, self.concurrency = target.name, target.model, target.concurrency
        self.options = getattr(target, "options", None)
        self.endpoint = getattr(target, "endpoint", "")
        self.price = getattr(target, "price", None)
        self.longest_reply = getattr(target, "longest_reply", None)

    def __deepcopy__(self, memo: object) -> SecondTarget:
        return self

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Those of the target."""
        return self._target.capabilities

    @property
    def context_tokens(self) -> int:
        """That of the target."""
        return self._target.context_tokens

    @property
    def thinking_tokens(self) -> int:
        """The target's room for thoughts."""
        return room_of(self._target)

    @property
    def identity(self) -> str:
        """That of the target, marked."""
        return f"{self._target.identity}, a second run"

    def table_price(self) -> Price | None:
        """That of the target."""
        return table_price(self._target)

    async def open(self, progress: Watch | None = None) -> None:
        """Opens the target."""
        await self._target.open(progress)

    async def complete(self, request: ChatRequest) -> Reply:
        """The target's reply to `request`, drawn anew if it is sampled."""
        if request.sampling.temperature > 0:
            request = replace(request, sample=request.sample + SHIFT)
        return await self._target.complete(request)

    def count_tokens(self, text: str) -> int:
        """As the target counts."""
        return self._target.count_tokens(text)

    async def aclose(self) -> None:
        """Does nothing: the target is open for the first run too."""


def built_anew(task: Task, program: RagProgram) -> RagProgram:
    """The baseline of `task` for a second run, with what `program`, its first run, learned.

    The judge stays the same: an equal answer is judged equally.
    """
    runtime = task.runtime
    targets = {
        role: target if role == "judge" else SecondTarget(target) for role, target in runtime.targets.items()
    }
    second = Runtime(targets, runtime.sources, store=runtime.gateway.store, ledger=task.ledger)
    built = task.method.build(second, task.baseline_knobs)
    built = give_prompts(built, task.recipe, checked=True)
    built.learned = program.learned
    return built
