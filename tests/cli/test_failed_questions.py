"""Servers that refuse one to three of twenty questions, as providers do: what each command makes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.optimizers.colours import write_data
from tests.processes import ragc
from tests.support.recipes import recipe_toml, vllm, write_files
from tests.support.server import MODEL, Answer, Asked, ScriptedServer, failing, fitting, models, serving

CONTEXT = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. "
    "Please reduce the length of the messages."
)


def refusal(status: int, code: str, message: str, **more: Any) -> Answer:
    error = {"message": message, "type": "invalid_request_error", "param": "prompt", "code": code, **more}
    return Answer(json.dumps({"error": error}).encode(), status)


CASES = {  # `tests/contracts/test_provider_replies.py` has what providers answer; here is one of each kind
    "azure": (
        refusal(
            400,
            "content_filter",
            "The response was filtered due to the prompt triggering Azure's content management policy.",
            innererror={"code": "ResponsibleAIPolicyViolation"},
        ),
        "filtered",
    ),
    "context": (refusal(400, "context_length_exceeded", CONTEXT), "too long"),
    "parameter": (refusal(400, "unsupported_value", "Unsupported value: 'x'."), "failed"),
}


class Provider:
    """Answers `red`, and `error` to questions about one of `things`; nobody else if `everything`."""

    def __init__(self) -> None:
        self.error, self.things = failing(500), tuple[str, ...]()
        self.asked: list[str] = []

    def __call__(self, request: Asked) -> Answer:
        text = " ".join(str(message["content"]) for message in request.body["messages"])
        thing = re.findall(r"thing (number\d+)\?", text)[-1]
        self.asked.append(thing)
        return self.error if thing in self.things else fitting(request, answer="red")


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def folder(tmp_path: Path, provider: Provider) -> Iterator[Path]:
    write_data(tmp_path)
    with serving(provider) as server:
        server.pages["/v1/models"] = models(MODEL)
        write_files(tmp_path, recipe=recipe_of(server))
        yield tmp_path


def recipe_of(server: ScriptedServer) -> str:
    target = vllm(server.url, MODEL, tries=2, context_tokens=8192)
    return recipe_toml(
        search={"knobs": ["query_pos"], "trials": 2, "batch": 1},
        data={"train": 2, "dev": 20, "test": 20},
        targets={"main": target},
        metrics=["em"],
    )


@pytest.mark.parametrize("case", CASES)
def test_each_command_says_how_many_failed_and_how(case: str, folder: Path, provider: Provider) -> None:
    provider.error, kind = CASES[case]
    provider.things = ("number17", "number21")
    status, out, err = ragc(folder, "eval", "recipe.toml", "--split", "dev", "--out", "rows.jsonl")
    assert status == 0, err
    assert f"2 of 20 questions failed: 2 {kind} (ids q21, q17); " in out
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows if row["failure"]] == ["q21", "q17"]
    assert {row["failure_kind"] for row in rows if row["failure"]} == {kind}
    assert all(row["scores"]["em"] == 0 for row in rows if row["failure"])

    sent = len(provider.asked)
    report = json.loads(ragc(folder, "eval", "recipe.toml", "--split", "dev", "--json")[1])
    assert report["failures"] == {"filtered": 0, "too long": 0, "failed": 0, "unreadable": 0, kind: 2}
    assert set(provider.asked[sent:]) == (set() if kind != "failed" else {"number17", "number21"})

    status, out, err = ragc(folder, "compile", "recipe.toml", "--out", "mine")
    assert status == 0, err
    assert f"baseline on dev: 2 of 20 questions failed: 2 {kind}" in out

    status, out, err = ragc(folder, "ask", "recipe.toml", "What colour is thing number17?")
    assert status == 1
    assert err.startswith("ragc: ")
    assert len(err.splitlines()) == 1


def test_an_endpoint_that_refuses_all_is_an_error_and_no_score(folder: Path, provider: Provider) -> None:
    provider.error = CASES["parameter"][0]
    provider.things = tuple(f"number{n}" for n in range(60))
    for questions in (3, 20):
        sets = ("--set", f"data.dev={questions}", "--out", "rows.jsonl")
        status, out, err = ragc(folder, "eval", "recipe.toml", "--split", "dev", *sets)
        assert (status, out) == (1, "")
        assert "Unsupported value" in err
        assert not (folder / "rows.jsonl").exists()
    status, out, err = ragc(folder, "compile", "recipe.toml", "--out", "mine")
    assert (status, out) == (1, "")
    assert "--resume" in err
    assert not (folder / "mine").exists()
