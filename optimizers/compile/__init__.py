"""Compile: the passes from a recipe to a compiled program, and the driver of their search."""

from ragc.optimizers.compile.passes import (
    Compiled,
    Cost,
    Prepared,
    Verified,
    baseline,
    compile,
    failures_json,
    name_study,
    open_models,
    prepare,
    run_passes,
    search,
    select,
    total_cost,
    verify,
    write,
)

__all__ = [
    "Compiled",
    "Cost",
    "Prepared",
    "Verified",
    "baseline",
    "compile",
    "failures_json",
    "name_study",
    "open_models",
    "prepare",
    "run_passes",
    "search",
    "select",
    "total_cost",
    "verify",
    "write",
]
