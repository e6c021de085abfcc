"""Proposals of HpBandSter's BOHB or of SMAC3, for a process that speaks JSON lines. Imports nothing of ragc.

    python outside.py bohb|smac

Needs an environment of its own with `hpbandster` 0.7 or `smac` 2.4. The first line is an object with `sizes`
(the number of values of each column), `seed`, `questions` and `trials`. Then the line "ask" is answered with
a list of numbers of values, and an object with `mean` (greater is better), `questions` and `setting` (numbers
of values) tells of one; SMAC learns of the last proposal only.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import warnings
from importlib import import_module
from types import SimpleNamespace
from typing import Any


def _space(head: dict[str, Any]) -> Any:
    spaces = import_module("ConfigSpace")
    space = spaces.ConfigurationSpace(seed=head["seed"])
    for number, size in enumerate(head["sizes"]):
        space.add(spaces.CategoricalHyperparameter(f"c{number}", list(range(size))))
    return space


class Bohb:
    """HpBandSter's kernel densities, with its defaults."""

    def __init__(self, head: dict[str, Any]) -> None:
        import_module("numpy").random.seed(head["seed"])  # what the package draws from
        self._generator = import_module("hpbandster.optimizers.config_generators.bohb").BOHB(_space(head))

    def ask(self) -> dict[str, Any]:
        """The next configuration."""
        config: dict[str, Any] = self._generator.get_config(None)[0]
        return config

    def tell(self, mean: float, questions: int, setting: list[int]) -> None:
        """Learns the loss of `setting` on so many questions."""
        kwargs = {"config": {f"c{n}": code for n, code in enumerate(setting)}, "budget": questions}
        self._generator.new_result(SimpleNamespace(kwargs=kwargs, result={"loss": -mean}, exception=None))


class Smac:
    """SMAC3's facade for hyperparameters; a fifth of the trials are its initial design, ten at most."""

    def __init__(self, head: dict[str, Any]) -> None:
        smac, folder = import_module("smac"), tempfile.mkdtemp()
        facade = smac.HyperparameterOptimizationFacade
        scenario = smac.Scenario(
            _space(head), deterministic=True, n_trials=10 * head["trials"], seed=head["seed"],
            output_directory=folder,
        )  # fmt: skip
        initial = max(3, min(10, head["trials"] // 5))
        self._facade = facade(
            scenario, lambda config, seed=0: 0.0, overwrite=True, logging_level=logging.CRITICAL,
            intensifier=facade.get_intensifier(scenario, max_config_calls=1),
            initial_design=facade.get_initial_design(scenario, n_configs=initial),
        )  # fmt: skip
        self._last: Any = None

    def ask(self) -> dict[str, Any]:
        """The next configuration."""
        self._last = self._facade.ask()
        return dict(self._last.config)

    def tell(self, mean: float, questions: int, setting: list[int]) -> None:
        """Learns the cost of the last one."""
        value = import_module("smac.runhistory.dataclasses").TrialValue(cost=-mean)
        self._facade.tell(self._last, value)


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    lines = map(json.loads, sys.stdin)
    head = next(lines)
    proposer = Bohb(head) if sys.argv[1] == "bohb" else Smac(head)
    for line in lines:
        if line == "ask":
            config = proposer.ask()
            print(json.dumps([int(config[f"c{n}"]) for n in range(len(head["sizes"]))]), flush=True)
        else:
            proposer.tell(line["mean"], line["questions"], line["setting"])


if __name__ == "__main__":
    main()
