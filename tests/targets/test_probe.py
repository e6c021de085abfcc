"""What an endpoint can do is found by what comes back, remembered, and told by `ragc doctor RECIPE`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragc.cli.main import main
from ragc.core import event_loop
from ragc.doctor.targets import TargetCheck, examine_targets
from ragc.recipe import parse
from ragc.targets.base import Capability, Target
from ragc.targets.probe import ProbeResult, load_or_probe, probe
from tests.support.recipes import recipe_toml, vllm
from tests.support.server import MODEL, Answer, Asked, build_answer, failing, fitting, serving
from tests.support.targets import KINDS, Waits, finished, target_of

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.usefixtures("only_our_key")]

EVERY: tuple[Capability, ...] = ("schema", "logprobs", "prompt_logprobs", "n", "prefix_cache", "seed")


def able(request: Asked) -> Answer:
    """A server that does whatever it is asked."""
    body = request.body
    answer = fitting(request) if "response_format" in body else build_answer(f"word {body.get('seed', 0)}")
    reply = json.loads(answer.body)
    choice = reply["choices"][0]
    if body.get("logprobs"):
        drawn = {"token": "word", "logprob": -0.5, "bytes": None, "top_logprobs": []}
        choice["logprobs"] = {"content": [drawn], "refusal": None}
    reply["choices"] = [{**choice, "index": index} for index in range(body.get("n", 1))]
    if "prompt_logprobs" in body:
        reply["prompt_logprobs"] = [None, {"5": {"logprob": -1.0, "decoded_token": "x"}}]
    reply["usage"]["prompt_tokens_details"] = {"cached_tokens": 16}
    return Answer(json.dumps(reply).encode())


def deaf(request: Asked) -> Answer:
    """A server that takes every parameter and minds none; no two of its draws are equal."""
    return build_answer(f"word {request.number}")


def picky(request: Asked) -> Answer:
    """A server that refuses every parameter that it does not know, and always says the same."""
    strange = {"response_format", "logprobs", "n", "prompt_logprobs"} & request.body.keys()
    return failing(400, f"unknown: {strange}") if strange else build_answer("word")


def whole(kind: str, url: str) -> Target:
    return target_of(kind, url, Waits(), has=EVERY)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (able, ProbeResult(frozenset(EVERY), thinking=0)),
        (deaf, ProbeResult(frozenset(), frozenset({"prefix_cache"}), 0)),
        (picky, ProbeResult(frozenset(), frozenset({"prefix_cache", "seed"}), 0)),
    ],
    ids=["able", "deaf", "picky"],
)
def test_each_capability_is_seen_in_what_comes_back(
    kind: str, server: Callable[[Asked], Answer], expected: ProbeResult
) -> None:
    with serving(server) as running:
        target: Any = whole(kind, running.url)
        seen = finished(target, probe(target))
        assert len(running.prompts) == 11
        assert max(body["max_tokens"] for body in running.bodies[2:]) <= 24
    if kind == "hosted":  # LiteLLM hands on what it knows of a reply, and prompt logprobs are not in it
        seen, expected = (replace(f, able=f.able - {"prompt_logprobs"}) for f in (seen, expected))
    assert seen == expected


def test_an_endpoint_is_probed_once_and_the_file_holds_no_address(tmp_path: Path) -> None:
    with serving(able) as server:
        target: Any = whole("vllm", server.url)

        async def thrice() -> list[ProbeResult]:
            probes = [await load_or_probe(target, tmp_path), await load_or_probe(target, tmp_path)]
            assert len(server.prompts) == 11
            return [*probes, await load_or_probe(target, tmp_path, again=True)]

        results = finished(target, thrice())
        assert len(server.prompts) == 22
    assert results == [ProbeResult(frozenset(EVERY), thinking=0)] * 3
    (file,) = tmp_path.iterdir()
    assert "127.0.0.1" not in file.name + file.read_text()
    assert set(json.loads(file.read_text())) == {"format", "able", "unsure", "thinking"}


@pytest.mark.parametrize("text", ["", "[]", '{"format": "ragc.probe/1", "able": ["flight"], "unsure": []}'])
def test_a_file_that_is_not_ours_counts_as_absent(tmp_path: Path, text: str) -> None:
    with serving(able) as server:
        target: Any = whole("vllm", server.url)
        finished(target, load_or_probe(target, tmp_path))
        (file,) = tmp_path.iterdir()
        file.write_text(text)
        assert event_loop.run(load_or_probe(target, tmp_path)).able == set(EVERY)
        event_loop.run(target.aclose())
        assert len(server.prompts) == 22


def recipe_of(url: str, model: str = MODEL, **options: Any) -> str:
    """Returns a recipe without data of its own, whose target is the server at `url`."""
    return recipe_toml(
        "no_retrieval", data={"dataset": "pydocs"}, sources=[], targets={"main": vllm(url, model, **options)}
    )


def examined(url: str, model: str = MODEL, **options: Any) -> TargetCheck:
    (check,) = examine_targets(parse(recipe_of(url, model, **options)))
    return check


def test_the_verdict_says_what_to_do(home: Path) -> None:
    with serving(able) as server:
        good = examined(server.url)
        modest = examined(server.url, lacks=["seed"])
        assert len(server.prompts) == 11
        absent = examined(server.url, model="gpt-4o-mni")
    with serving(deaf) as server:
        false = examined(server.url)
        honest = examined(server.url, lacks=["schema", "logprobs", "seed"])
    gone = examined(server.url)
    assert (good.ok, good.capabilities) == (True, EVERY)
    assert good.found == f"vllm {MODEL}: ready; {', '.join(EVERY)}"
    assert modest.ok
    assert not false.ok
    assert 'add lacks = ["schema", "logprobs", "seed"]' in false.found
    assert (honest.ok, honest.capabilities) == (True, ("prefix_cache",))
    assert not absent.ok
    assert f"Did you mean '{MODEL}'" in absent.found
    assert not gone.ok
    assert "start the server" in gone.found


def test_the_command_prints_a_line_a_target_after_the_machine(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(able) as server:
        (home / "recipe.toml").write_text(recipe_of(server.url))
        main(["doctor", str(home / "recipe.toml"), "--json"])
        checks = json.loads(capsys.readouterr().out)
        assert checks[-1]["id"] == "main"
        assert checks[-1]["capabilities"] == list(EVERY)
        main(["doctor", str(home / "recipe.toml")])
        assert re.search(rf"ok +main +vllm {MODEL}: ready; schema, logprobs", capsys.readouterr().out)
        assert len(server.prompts) == 11
