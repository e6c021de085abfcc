"""Where a study lives: Optuna's storage, with what ragc keeps beside the trials in its attributes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import optuna

from ragc.errors import StoreError

NAME = "ragc"
"""The name of the one study in a directory's storage."""


def storage(directory: Path, objectives: int) -> optuna.Study:
    """The study kept in `directory`, made if it is not there. Raises StoreError."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return optuna.create_study(
                storage=f"sqlite:///{directory / 'study.db'}",
                study_name=NAME,
                directions=["maximize" for _ in range(objectives)],
                load_if_exists=True,
            )
    except Exception as error:
        raise StoreError(
            f"The study at {directory} cannot be opened ({type(error).__name__}: {error}); another process "
            "may hold it, or the disk may be full."
        ) from error


class StudyKept:
    """JSON values by name, kept as attributes of an Optuna study."""

    def __init__(self, study: optuna.Study) -> None:
        self._study = study

    def get(self, name: str) -> Any:
        """What is kept under `name`, or None."""
        return self._study.user_attrs.get(name)

    def put(self, name: str, value: Any) -> None:
        """Keep `value` under `name`."""
        self._study.set_user_attr(name, value)

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._study.user_attrs)


class Memory:
    """JSON values by name, kept by this process alone."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """What is kept under `name`, or None."""
        return self._values.get(name)

    def put(self, name: str, value: Any) -> None:
        """Keep `value` under `name`."""
        self._values[name] = value

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._values)
