"""A recipe is copied into every compiled program, so a secret in it is refused where it is read."""

from __future__ import annotations

import pytest

from ragc.core.redact import is_secret_name
from ragc.errors import RecipeError
from ragc.recipe import Recipe, parse
from tests.security.foreign import RECIPE, SECRET, target_table

URL = "https://models.example/v1"
API = '[targets.main]\nkind = "embedded"\n[sources.kg]\nkind = "api"\n'


def read(text: str, *sets: str) -> Recipe:
    return parse(RECIPE + text, sets, files=False)


@pytest.mark.parametrize(
    "table",
    [
        target_table(kind="vllm", model="m", base_url=f"{URL}?key={SECRET}"),
        target_table(kind="vllm", model="m", base_url=f"{URL}?v=1&api_key={SECRET}"),
        target_table(kind="hosted", model="openai/m", base_url=f"{URL}?access-token={SECRET}"),
        target_table(kind="vllm", model="m", base_url=f"https://user:{SECRET}@models.example/v1"),
        target_table(kind="vllm", model="m", base_url=f"https://{SECRET}@models.example/v1"),
        *(
            target_table(kind="hosted", model="openai/m", body=body)
            for body in (
                {"authorization": f"Bearer {SECRET}"},
                {"password": SECRET},
                {"user_token": SECRET},
                {"extra_body": {"secretKey": SECRET}},
                {"extra_body": {"tools": [{"client_secret": SECRET}]}},
                {"x-api-key": [SECRET]},
                {"webhook": f"https://hooks.example/?token={SECRET}"},
                {"webhook": f"https://hooks.example/#access_token={SECRET}"},
                {"api_keys": {"first": SECRET}},
                {"access_token_value": SECRET},
                {"sslpassword": SECRET},
                {"Cookie": SECRET},
            )
        ),
        target_table(kind="vllm", model="m", serve=True, flags={"hf-token": SECRET}),
        f'{API}options.base_url = "http://user:{SECRET}@127.0.0.1:8000"\n',
        f'{API}options.base_url = "http://127.0.0.1:8000/?sig={SECRET}"\n',
    ],
)
def test_a_secret_in_a_recipe_is_refused_and_not_repeated(table: str) -> None:
    with pytest.raises(RecipeError, match="recipes are passed on") as error:
        read(table)
    assert SECRET not in str(error.value)
    assert len(error.value.problems) == 1


KEYS = (
    "sk-proj-0123456789abcdef0123",
    "gsk_0123456789abcdef0123456789",
    "hf_abcdefghijklmnopqrstuvwxyz0123456789",
    "AIzaSyA0123456789abcdefghijklmnopqrstu",
)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("where", ["model", "api_key_env", "body.user", "body.stop"])
def test_a_key_is_told_by_how_it_begins(where: str, key: str) -> None:
    name, _, inner = where.partition(".")
    value = key if not inner else {inner: [key] if inner == "stop" else key}
    table = target_table(**{"kind": "hosted", "model": "openai/m", name: value})
    with pytest.raises(RecipeError, match="environment variable") as error:
        read(table)
    assert key not in str(error.value)
    assert len(error.value.problems) == 1


@pytest.mark.parametrize("written", ['"a-key-of-mine"', '["sk-proj-0123456789abcdef0123"]'])
def test_a_key_in_the_place_of_its_variable_is_not_repeated(written: str) -> None:
    table = target_table(kind="hosted", model="openai/m")
    for words in (
        (f"{table}options.api_key_env = {written}\n",),
        (table, f"targets.main.options.api_key_env={written}"),
    ):
        with pytest.raises(RecipeError, match="must name an environment variable") as error:
            read(*words)
        assert written.strip('[]"') not in str(error.value)


def test_a_secret_of_an_override_is_refused_as_well() -> None:
    table = target_table(kind="vllm", model="m", base_url=URL)
    with pytest.raises(RecipeError, match="api_key_env") as error:
        read(table, f"targets.main.base_url={URL}?key={SECRET}")
    assert SECRET not in str(error.value)


def test_what_only_sounds_like_one_is_read() -> None:
    body = {
        "max_tokens": 9,
        "stop_token_ids": [1, 2],
        "eos_token": "</s>",
        "prompt_cache_key": "demo",
        "logit_bias": {"50256": -100},
        "stop": ["Key: "],
        "token": 3,
    }
    table = target_table(
        kind="vllm", model="m", base_url=f"{URL}?api-version=2", api_key_env="MY_KEY", body=body
    )
    assert read(table).targets["main"].options["body"] == body


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("key", True),
        ("apiKey", True),
        ("APIKEY", True),
        ("X-Auth-Token", True),
        ("aws_secret_access_key", True),
        ("signature", True),
        ("api_keys", True),
        ("sslpassword", True),
        ("authtoken", True),
        ("access_token_value", True),
        ("api_key_env", False),
        ("keyword", False),
        ("monkey", False),
        ("tokens", False),
        ("tokenizer", False),
        ("author", False),
        ("", False),
        ("___", False),
    ],
)
def test_names_of_secrets(name: str, expected: bool) -> None:
    assert is_secret_name(name) is expected
