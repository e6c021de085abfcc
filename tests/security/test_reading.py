"""Reading what strangers wrote raises ragc's own errors and nothing else."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ragc import load, recipe
from ragc.errors import RagcError
from tests.security.fuzzing import RECIPE
from tests.security.mutations import levels_of

FILES = {
    "recipe.toml": RECIPE.format(url="http://127.0.0.1:1/v1").encode(),
    "program.json": json.dumps(
        {
            "format": "ragc.compiled/2",
            "method": "vanilla",
            "knobs": {"top_k": 3},
            "predictors": {
                "answer": {
                    "instructions": "Answer.",
                    "demos": [{"question": "q", "answer": "a"}],
                    "inputs": ["question"],
                    "output_schema": {},
                    "layout": "chat",
                    "role": "main",
                }
            },
        }
    ).encode(),
    "provenance.json": b'{"verdict": "better", "test": {"winner": {"f1": {"mean": 0.5, "ci": [0.4, 0.6]}}}}',
    "run.json": b'{"sent": 3, "base": "."}',
}
DRAWS = st.randoms(use_true_random=False)
BOUNDED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def damaged(name: str, draw: random.Random) -> bytes:
    level: Callable[[bytes, random.Random], bytes] = draw.choice(levels_of(name))
    return level(FILES[name], draw)


def only_ours(work: Callable[[], object]) -> None:
    """Whatever else is raised fails the test."""
    with contextlib.suppress(RagcError):
        work()


@BOUNDED
@given(DRAWS)
def test_a_damaged_recipe_is_read_or_refused(draw: random.Random) -> None:
    text = damaged("recipe.toml", draw).decode("utf-8", "surrogateescape")
    only_ours(lambda: recipe.parse(text, files=False))


@BOUNDED
@given(st.text(max_size=200))
@example("a = " + "[" * 500)
@example("a" + ".a" * 2000 + " = 1")
def test_any_text_as_a_recipe_is_refused(text: str) -> None:
    only_ours(lambda: recipe.parse(text, files=False))


@BOUNDED
@given(st.text(max_size=60))
@example("a" + ".a" * 5000 + "=1")
@example("seed=" + "[" * 5000)
@example("seed=" + "9" * 9000)
@example("seed=\ud800")
def test_any_override_is_taken_or_refused(expression: str) -> None:
    only_ours(lambda: recipe.parse(FILES["recipe.toml"].decode(), [expression], files=False))


@BOUNDED
@given(DRAWS)
def test_a_damaged_compiled_directory_is_read_or_refused(tmp_path: Path, draw: random.Random) -> None:
    broken = draw.choice(sorted(FILES))
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(damaged(name, draw) if name == broken else content)
    only_ours(lambda: load(tmp_path))


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".csv", ".tsv"])
@BOUNDED
@given(draw=DRAWS)
def test_damaged_rows_are_read_or_refused(tmp_path: Path, ending: str, draw: random.Random) -> None:
    rows = [{"id": f"q{i}", "question": f"What is {i}?", "answers": ["one", "two"]} for i in range(5)]
    if ending in (".csv", ".tsv"):
        comma = "," if ending == ".csv" else "\t"
        lines = [comma.join(("id", "question", "answers"))]
        lines += [comma.join((str(row["id"]), str(row["question"]), '"one"')) for row in rows]
        content = "\n".join(lines).encode()
    elif ending == ".json":
        content = json.dumps(rows).encode()
    else:
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    questions = tmp_path / f"questions{ending}"
    level = draw.choice(levels_of(questions.name))
    questions.write_bytes(level(content, draw))
    (tmp_path / "corpus.jsonl").write_text('{"id": "d1", "title": "T", "text": "one"}\n', "utf-8")

    def work() -> None:
        from ragc.optimizers.plan.estimate import estimate

        text = FILES["recipe.toml"].decode().replace("questions.jsonl", questions.name)
        estimate(recipe.parse(text, base=tmp_path))

    only_ours(work)
