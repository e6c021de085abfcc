"""Opens the search of a recipe's optimizer: ragc's own study, or an external optimizer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ragc.core.progress import Progress
from ragc.optimizers.compile.searches.base import DevSearch
from ragc.optimizers.compile.searches.external import ExternalSearch
from ragc.optimizers.compile.searches.own import StudySearch
from ragc.optimizers.search.study import Study
from ragc.recipe.values import OWN_OPTIMIZER
from ragc.task.base import Task


@asynccontextmanager
async def open_search(
    task: Task, directory: Path, limit: asyncio.Semaphore, progress: Progress
) -> AsyncIterator[DevSearch]:
    """Opens the search of the recipe's optimizer. A study in `directory` is resumed.

    `limit` bounds the questions in flight.
    """
    if task.recipe.search.optimizer != OWN_OPTIMIZER:
        yield ExternalSearch(task, limit, progress)
        return
    if not task.recipe.study.workers:
        yield StudySearch(Study(task, directory, limit, progress))
        return
    from ragc.optimizers.ray import workers

    async with workers(task, progress) as at_work:
        yield StudySearch(Study(task, directory, limit, progress, at_work))
