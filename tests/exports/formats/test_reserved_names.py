"""Names of inputs that a consumer has a use of its own for: a prompt with one is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragc.exports.formats import haystack, llamaindex, mlflow
from ragc.prompts.model import Input, NotExpressible
from tests.exports.drawn import export_alone, file_of
from tests.prompts.test_render import typed

RESERVED = {
    "haystack": ("Haystack", haystack.TAKEN),
    "langchain": ("LangChain", ("self",)),
    "llamaindex": ("LlamaIndex", llamaindex.TAKEN),
    "mlflow": ("MLflow", mlflow.TAKEN),
}


@pytest.mark.parametrize(("format", "name"), [(id, name) for id in RESERVED for name in RESERVED[id][1]])
def test_an_input_with_a_reserved_name_is_refused(format: str, name: str) -> None:
    _, prompt = typed("minimal")
    odd = replace(prompt, inputs=(*prompt.inputs, Input(name)))
    with pytest.raises(NotExpressible, match=f"{RESERVED[format][0]} has a use of its own for {name!r}"):
        file_of(format, export_alone(odd), odd)
