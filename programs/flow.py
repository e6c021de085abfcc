"""The control flow of a program as data: the order of its steps, their inputs, and the knobs that decide.

Each method declares its own (`Method.flow`). It lists what may follow; the model's replies decide what does,
as each step's `when` says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

START, END = "start", "end"
SEARCH = "search "
"""What the name of a search's node begins with; the source's name follows."""


class Edge(NamedTuple):
    """`target` follows `source`.

    A node is the name of a prompt, `search NAME` for the source NAME, `start` or `end`. `gives` is what the
    target receives, `when` the condition, empty for always or if a reply decides nothing, and `knobs` are the
    names of the knobs that bound or decide it. `each` says that the target may run several times side by
    side, once for each item received.
    """

    source: str
    target: str
    gives: str = ""
    when: str = ""
    knobs: tuple[str, ...] = ()
    each: bool = False

    def to_json(self) -> dict[str, Any]:
        """Returns the step's attributes by name, without empty ones."""
        fields = {"from": self.source, "to": self.target, "gives": self.gives, "when": self.when}
        more: dict[str, Any] = {"knobs": list(self.knobs), "each": self.each}
        return {name: value for name, value in (fields | more).items() if value}


SELECTION = (
    Edge(
        "select",
        "select",
        "those chosen and the next documents",
        "documents are left",
        ("window", "k_support"),
    ),
    Edge("select", "verify", "the chosen documents", "a round is left", ("verify", "verify_demo", "rounds")),
    Edge("select", "answer", "the chosen documents", "all rounds are done", ("rounds", "top_up")),
    Edge("verify", "answer", "the chosen documents", "sufficient is YES"),
    Edge("answer", END, "answer"),
)
"""The steps of LLatrieval's progressive selection (`programs/selection.py`), which GGatrieval keeps."""


@dataclass(frozen=True, slots=True)
class Graph:
    """The steps of one program with the values of the knobs that its steps name.

    `single` says that there is one prompt, which is called once a question.
    """

    method: str
    steps: tuple[Edge, ...]
    knobs: Mapping[str, Any]
    single: bool

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every node, in the order in which the steps name them."""
        named = (name for step in self.steps for name in (step.source, step.target))
        return (START, *(n for n in dict.fromkeys(named) if n not in (START, END)), END)

    @property
    def predictors(self) -> tuple[str, ...]:
        """The names of the prompts."""
        return tuple(n for n in self.nodes if n not in (START, END) and not n.startswith(SEARCH))

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only: nodes, steps, and the knobs that the steps name."""
        return {
            "method": self.method,
            "nodes": list(self.nodes),
            "steps": [step.to_json() for step in self.steps],
            "knobs": dict(self.knobs),
        }


def graph_of(
    id: str, flow: Iterable[Edge], prompts: Iterable[str], knobs: Mapping[str, Any], *, calls: int = 0
) -> Graph:
    """Returns the graph of the method `id`: the steps of `flow` with `prompts`, and the values of `knobs`.

    Steps of prompts that this setting of the knobs does not have are left out. A method without a flow has
    its prompts as nodes of a graph without an order. `calls` is the most that a question takes, 0 if unknown.
    """
    have = dict.fromkeys(prompts)
    table = tuple(flow) or tuple(Edge(START, name, when="as the program decides") for name in have)
    steps = tuple(step for step in table if _there(step.source, have) and _there(step.target, have))
    named = dict.fromkeys(name for step in steps for name in step.knobs)
    single = len(have) == 1 == calls
    return Graph(id, steps, {name: knobs[name] for name in named if name in knobs}, single)


def _there(node: str, prompts: Collection[str]) -> bool:
    return node in prompts or node in (START, END) or node.startswith(SEARCH)
