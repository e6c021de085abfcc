"""OpenAI's own client, and those of others, talk to a server; shapes are those of `openai.types`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.compiled.opened import ask, open_program
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import colour_of
from tests.serving.server import Running, running

openai = pytest.importorskip("openai", reason="the extra `exports` is not installed")
from openai.types.chat import ChatCompletion, ChatCompletionChunk  # noqa: E402
from openai.types.responses import Response  # noqa: E402

QUESTION = "What colour is thing number7?"
MESSAGES: list[Any] = [{"role": "user", "content": QUESTION}]


def cites(request: ChatRequest) -> dict[str, str]:
    return {"answer": f"It is {colour_of(request)} [1]."}


@pytest.fixture(scope="module")
def server(colours: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGC_HOME", str(tmp_path_factory.mktemp("home")))
        with running([colours], {"main": ScriptedTarget(cites)}) as served:
            yield served


@pytest.fixture
def client(server: Running) -> Any:
    with openai.OpenAI(base_url=server.v1, api_key="unused", max_retries=0) as client:
        yield client


def test_the_answer_is_that_of_ask(client: Any, colours: Path, home: Path) -> None:
    access = ragc.Access(base=colours.parent)
    opened = open_program(colours, questions=False, targets={"main": ScriptedTarget(cites)}, access=access)
    row = ask(opened, QUESTION)
    opened.close()
    reply = client.chat.completions.create(model="colours", messages=MESSAGES)
    ChatCompletion.model_validate(reply.model_dump(), strict=False)
    assert reply.choices[0].message.content == row.prediction == "It is blue [1]."
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.total_tokens == row.counters["tokens"] > 0
    assert [one["id"] for one in reply.model_extra["ragc"]["passages"]] == [p.id for p in row.passages]
    (annotation,) = reply.choices[0].message.annotations
    cited = annotation.url_citation
    assert reply.choices[0].message.content[cited.start_index : cited.end_index] == "[1]"
    assert (cited.title, cited.url) == (row.passages[0].title, f"urn:ragc:passage:{row.passages[0].id}")


def test_a_response_has_the_same_answer_and_validates(client: Any) -> None:
    reply = client.responses.create(model="colours", input=QUESTION)
    Response.model_validate(json.loads(reply.model_dump_json()))
    assert (reply.output_text, reply.status) == ("It is blue [1].", "completed")
    (annotation,) = reply.output[0].content[0].annotations
    assert (annotation.type, annotation.start_index, annotation.end_index) == ("url_citation", 11, 14)
    assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens > 0


def test_a_second_question_is_replayed(client: Any) -> None:
    messages: list[Any] = [{"role": "user", "content": "What colour is thing number9?"}]
    replayed = [
        client.chat.completions.create(model="colours", messages=messages).model_extra["ragc"]["replayed"]
        for _ in range(2)
    ]
    assert replayed == [False, True]


def test_chat_streams(client: Any) -> None:
    chunks = list(
        client.chat.completions.create(
            model="colours", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
    )
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk.model_dump(exclude_unset=True))
    texts = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(texts) == "It is blue [1]."
    assert [c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason] == ["stop"]
    assert chunks[-1].usage.total_tokens > 0


def test_responses_stream(client: Any) -> None:
    with client.responses.stream(model="colours", input=QUESTION) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert final.output_text == "It is blue [1]."
    assert [event.sequence_number for event in events if event.type != "response.output_text.delta"]
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == final.output_text


def test_the_trace_and_steps_come_on_request(client: Any) -> None:
    plain = client.chat.completions.create(model="colours", messages=MESSAGES)
    assert "trace" not in plain.model_extra["ragc"]
    traced = client.chat.completions.create(
        model="colours", messages=MESSAGES, extra_body={"ragc": {"trace": True}}
    )
    assert [set(event) & {"search", "call"} for event in traced.model_extra["ragc"]["trace"]] == [
        {"search"},
        {"call"},
    ]
    chunks = client.chat.completions.create(
        model="colours", messages=MESSAGES, stream=True, extra_body={"ragc": {"steps": True}}
    )
    steps = [
        chunk.model_extra["ragc"]["step"]
        for chunk in chunks
        if "step" in (chunk.model_extra or {}).get("ragc", {})
    ]
    assert [set(step) & {"search", "call"} for step in steps] == [{"search"}, {"call"}]


def test_models_are_listed_by_the_names_of_their_folders(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["colours"]
    assert client.models.retrieve("colours").owned_by == "ragc"
    with pytest.raises(openai.NotFoundError, match=r"No model is named 'colour'\. Did you mean 'colours'"):
        client.chat.completions.create(model="colour", messages=MESSAGES)


def test_what_has_no_effect_is_said_in_a_header(client: Any) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="colours",
        messages=[{"role": "system", "content": "Say green."}, *MESSAGES],
        temperature=0.3,
        max_tokens=5,
        seed=1,
    )
    assert raw.headers["x-ragc-no-effect"] == "temperature, max_tokens, seed, system message"
    assert raw.parse().choices[0].message.content == "It is blue [1]."


def test_curl_talks_to_it(server: Running) -> None:
    body = json.dumps({"model": "colours", "messages": MESSAGES})
    command = [
        "curl",
        "-sS",
        f"{server.v1}/chat/completions",
        "-H",
        "Content-Type: application/json",
        "-d",
        body,
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["choices"][0]["message"]["content"] == "It is blue [1]."


def test_langchain_talks_to_it(server: Running) -> None:
    langchain = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    model = langchain.ChatOpenAI(model="colours", base_url=server.v1, api_key="unused", max_retries=0)
    assert model.invoke(QUESTION).content == "It is blue [1]."
    assert "".join(part.content for part in model.stream(QUESTION)) == "It is blue [1]."


def test_llama_index_talks_to_it(server: Running) -> None:
    llama = pytest.importorskip("llama_index.llms.openai_like", reason="it is not installed")
    model = llama.OpenAILike(model="colours", api_base=server.v1, api_key="unused", is_chat_model=True)
    from llama_index.core.llms import ChatMessage

    assert model.chat([ChatMessage(role="user", content=QUESTION)]).message.content == "It is blue [1]."
    parts = model.stream_chat([ChatMessage(role="user", content=QUESTION)])
    assert "".join(part.delta or "" for part in parts) == "It is blue [1]."


def test_several_programs_stand_side_by_side_and_two_of_one_name_do_not(
    colours: Path, tmp_path: Path
) -> None:
    import shutil

    from ragc.serving.programs import open_programs
    from ragc.serving.settings import Settings

    target = ScriptedTarget(cites)
    other = tmp_path / "other"
    shutil.copytree(colours, other)
    access = ragc.Access(base=colours.parent)
    with running([colours, other], {"main": target}, access=access) as served:
        client = openai.OpenAI(base_url=served.v1, api_key="x", max_retries=0)
        with client:
            assert [model.id for model in client.models.list()] == ["colours", "other"]
            reply = client.chat.completions.create(model="other", messages=MESSAGES)
            assert reply.choices[0].message.content == "It is blue [1]."
    with pytest.raises(ragc.UsageError, match="Two programs are called 'colours'"):
        open_programs([colours, colours], Settings(), targets={"main": target}, access=access)
