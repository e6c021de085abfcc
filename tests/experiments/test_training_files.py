"""The settings files of trainings: their bases can learn the rows that their commands make."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragc.training.finetune.rows import read
from ragc.training.finetune.settings import load
from ragc.training.finetune.train import check_base
from tests.experiments.training_files import FILES, MODELS, RowsCommand, make_rows

CHAT_BASES = {"THUDM/glm-4-9b-chat-hf", "meta-llama/Llama-2-7b-chat-hf"}
"""Models of the hub whose tokenizers are published with a chat template."""


class Letters:
    """A tokenizer with a chat template and without control tokens."""

    chat_template = "chat"

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": list(map(ord, text))}


def test_every_file_is_covered() -> None:
    assert {file.stem for file in FILES} == MODELS.keys()
    assert all(RowsCommand.of(file).kind == file.stem for file in FILES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_base_with_a_chat_template_can_learn_the_rows_of_the_command(file: Path, tmp_path: Path) -> None:
    settings = load(make_rows(file, tmp_path))
    assert settings.base in CHAT_BASES
    rows = read(Path(settings.data), settings.method)
    assert len(rows) >= 4
    check_base(Letters(), rows, settings.base)
