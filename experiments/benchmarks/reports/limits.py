"""Measures the bounds of a report: time, memory and size of writing one, and how soon it is usable.

    python -m experiments.benchmarks.reports.limits [--rows 60000] [--metrics 2000] [--runs 1]

Two reports are written, each by a process of its own: many rows with traces, and 200 rows with many metrics.
The page is then opened in a headless Chromium (Debian's, with chromedriver). It is usable when the questions
are counted and shown; how long a search, a sort and a trace take after that is measured too. The bars: 20 s,
500 MB of memory of the process (peak), 15 MB, 5 s.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.integration.browser import Browser, browser

NAME = "experiments.benchmarks.reports.limits"
WORDS = (
    *("river", "stone", "music", "theory", "border", "winter"),
    *("engine", "method", "garden", "letter", "number", "island"),
)
BARS = {"seconds": 20.0, "memory_mb": 500.0, "page_mb": 15.0, "usable_s": 5.0}


def row(n: int, metrics: int, rng: random.Random) -> dict[str, Any]:
    """A row of `ragc eval --out` with a search of three hits and a call with its prompt."""
    question = f"What did {rng.choice(WORDS)} {n} have to do with the {rng.choice(WORDS)}?"
    passages = [" ".join(rng.choices(WORDS, k=40)) for _ in range(3)]
    answer = " ".join(rng.choices(WORDS, k=3))
    score = rng.random() < 0.6
    names = ["f1", "em", "recall@5", "tokens", "usd", "latency"]
    values = [
        round(rng.random(), 4),
        float(score),
        1.0,
        float(rng.randint(200, 400)),
        rng.random() / 1000,
        rng.random(),
    ]
    scores = dict(zip(names, values, strict=True)) | {
        f"own_{m}": rng.random() for m in range(metrics - len(names))
    }
    hits = [
        {"id": f"d{n}#{k}", "score": 1.0 / (k + 1), "title": f"Title {n}", "text": text[:120]}
        for k, text in enumerate(passages)
    ]
    messages = [
        {"role": "system", "content": "Answer the question from the passages in as few words as possible."},
        {"role": "user", "content": "\n".join([*passages, question])},
    ]
    call = {
        "at": [2],
        "call": "answer",
        "role": "main",
        "inputs": {"question": question},
        "outputs": {"answer": answer},
        "prompt_tokens": 300,
        "completion_tokens": 4,
        "sent": {"messages": messages, "replies": [json.dumps({"answer": answer})]},
    }
    counters = {"lm_calls": 1, "prompt_tokens": 300, "completion_tokens": 4, "searches": 1, "usd": 0.0001}
    return {
        "id": f"q{n}",
        "question": question,
        "answers": [answer if score else "another"],
        "prediction": answer,
        "passages": [f"d{n}"],
        "gold_ids": [f"d{n}"],
        "scores": scores,
        "counters": counters,
        "failure": "",
        "trace": [{"at": [1], "search": "local", "query": question, "k": 3, "hits": hits}, call],
    }


def write_rows(folder: Path, rows: int, metrics: int, runs: int) -> list[Path]:
    """Files of the same questions, with other scores and texts in each."""
    paths = []
    for run in range(runs):
        rng, golds = random.Random(run), random.Random(0)
        path = folder / f"run{run}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for n in range(rows):
                one, same = row(n, metrics, rng), row(n, 6, golds)
                one |= {"question": same["question"], "answers": same["answers"]}
                file.write(json.dumps(one) + "\n")
        paths.append(path)
    return paths


def write_report(paths: list[str], out: str) -> None:
    """Writes one report and prints its seconds and the peak of memory; run in a process of its own."""
    start = time.perf_counter()
    import ragc

    written = ragc.report(paths, out=out)
    print(
        json.dumps(
            {
                "seconds": round(time.perf_counter() - start, 2),
                "cpu_s": round(time.process_time(), 2),
                "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
                "page_mb": round(written.bytes / 1e6, 2),
                **{
                    key: value
                    for key, value in written.to_json().items()
                    if key in ("indexed", "detailed", "cut")
                },
            }
        )
    )


FIND = (
    "const field = document.getElementById('find'); field.value = 'garden 7';"
    "field.dispatchEvent(new Event('input'))"
)
BODY = "document.getElementById('trace-body').textContent"


def usable(tab: Browser, page: Path, rows: int) -> dict[str, float]:
    """Seconds until the questions are counted and shown, and of a search, a sort and a trace after that."""
    count = "document.getElementById('count').textContent"
    start = time.perf_counter()
    tab.open(page)
    tab.wait(f"{count} === '{rows:,} questions' && document.querySelector('#body tr.row') !== null", 60)
    loaded = time.perf_counter()
    tab.run(FIND)
    tab.wait(f"{count} !== '{rows:,} questions'", 60)
    searched = time.perf_counter()
    tab.run("document.getElementById('reset').click()")
    tab.run("document.querySelector('#heads [data-sort=after]').click()")
    sorted_at = time.perf_counter()
    tab.run("document.getElementById('rows').scrollTop = 1e9")
    tab.settle()
    tab.run("[...document.querySelectorAll('#body button.open')].at(-1).click()")
    tab.wait(f"{BODY} && !{BODY}.includes('Unpacking')", 60)
    end = time.perf_counter()
    parts = {
        "usable_s": loaded - start,
        "search_s": searched - loaded,
        "sort_s": sorted_at - searched,
        "trace_s": end - sorted_at,
    }
    return {name: round(seconds, 2) for name, seconds in parts.items()}


def main() -> int:
    """Measures both reports; the exit code is 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--metrics", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--write", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_report(options.write[1:], options.write[0])
        return 0
    missed = []
    with tempfile.TemporaryDirectory() as name, browser() as tab:
        for label, rows, metrics, runs in (
            ("long", options.rows, 6, options.runs),
            ("wide", 200, options.metrics, 2),
        ):
            folder = Path(name) / label
            folder.mkdir()
            paths = write_rows(folder, rows, metrics, runs)
            size = sum(path.stat().st_size for path in paths) / 1e6
            command = [sys.executable, "-m", NAME, "--write", str(folder / "report.html"), *map(str, paths)]
            result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            result |= usable(tab, folder / "report.html", rows)
            print(
                f"{label}: {runs} x {rows:,} rows, {metrics:,} metrics, {size:.0f} MB: {json.dumps(result)}"
            )
            missed += [f"{label} {bar}" for bar, most in BARS.items() if result[bar] > most]
    print(f"missed: {', '.join(missed)}" if missed else "all bars held")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
