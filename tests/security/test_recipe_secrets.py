"""A recipe is copied into every compiled program, so a secret in it is refused where it is read."""

from __future__ import annotations

import pytest

from ragc.errors import RecipeError
from ragc.recipe import Recipe, parse
from ragc.recipe_secrets import is_secret_name
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
