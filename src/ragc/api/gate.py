"""The gate between two programs, and programs packed for another machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragc.compiled.access import Access
from ragc.core.progress import SILENT

if TYPE_CHECKING:
    from ragc.compiled.gate import Gate
    from ragc.compiled.pack import Packed
    from ragc.core.progress import Progress


def gate(
    path: str | Path,
    against: str | Path,
    *,
    metric: str = "",
    allow: float = 0.05,
    least: Mapping[str, float] | None = None,
    split: str = "test",
    sets: Sequence[str] = (),
    seed: int = 0,
    progress: Progress | None = None,
    access: Access = Access(),
    include_seen: bool = False,
) -> Gate:
    """Tells whether the program at `path` is shown to lose less than `allow` against the one at `against`.

    Each is a compiled program, a recipe, or a file of rows written by `ragc eval --out`. `metric` decides, by
    default the first common one; `allow` is a loss in its mean, above 0. `least` has least means by metric.
    The other arguments are those of `compare`. Returns a Gate with `exit_code`: 0, shown to lose less; 10, a
    drop is shown or a least mean is missed; 11, these questions cannot tell, and `needed` says how many
    would.

        ragc.gate("compiled/new", "compiled/old", least={"f1": 0.7}).exit_code

    Raises UsageError for a metric without a greatest score, and what `compare` raises.
    """
    from ragc.compiled import gate as gates

    asking = gates.Asking(split, tuple(sets), access, include_seen, progress=progress or SILENT)
    first, second = Path(path), Path(against)
    return gates.gate(first, second, asking, metric=metric, allow=allow, least=least, seed=seed)


def pack(path: str | Path, *, out: str | Path, weights: bool = False) -> Packed:
    """Writes the compiled program at `path` and the files that it reads as one file `out`, FILE.ragc.

    `load`, `ask` and `evaluate` open it on another machine, under the trust rule. With `weights` its models
    go along. Returns a Packed with `path`, `digest`, `files` and `bytes`.

        ragc.pack("compiled/mine", out="mine.ragc")

    Raises UsageError for files that are missing or lead out of the recipe's folder, and for an `out` that
    holds something else; ArtefactError.
    """
    from ragc.compiled import pack as packs

    return packs.pack(path, out, weights=weights)
