"""Model files of the Hugging Face Hub, named `owner/repository:file.gguf`, kept in its library's own cache.

The library reads its own environment: a mirror (`HF_ENDPOINT`), a token (`HF_TOKEN`), the cache (`HF_HOME`).
"""

from __future__ import annotations

import re
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from ragc.core.progress import notify
from ragc.core.redact import shorten
from ragc.errors import TargetUnavailable

_NAMED = re.compile(r"[\w.-]+/[\w.-]+:[\w./+-]+\.gguf", re.ASCII | re.IGNORECASE)
_SPLIT = re.compile(r"-00001-of-(\d{5})(?=\.gguf$)")


def is_hub_file(model: str) -> bool:
    """Returns whether `model` names a file of the Hub, such as `owner/repository:file.gguf`."""
    return _NAMED.fullmatch(model) is not None


def fetch_hub_file(model: str) -> Path:
    """Returns the file that `model` names: from the cache without asking the network, else downloaded.

    Of a model in several files, named by the first (`-00001-of-00003.gguf`), all are fetched. The library
    draws the bar of a download. Raises TargetUnavailable in one sentence.
    """
    from huggingface_hub import hf_hub_download, list_repo_files, try_to_load_from_cache

    repository, _, file = model.partition(":")
    split = _SPLIT.search(file)
    parts = int(split[1]) if split else 1
    files = [_SPLIT.sub(f"-{part:05}-of-{parts:05}", file) for part in range(1, parts + 1)]
    cached = [try_to_load_from_cache(repository, part) for part in files]
    if all(isinstance(path, str) for path in cached):
        return Path(str(cached[0]))
    notify(f"fetching {model} from the Hugging Face Hub")
    try:
        first, *_ = [hf_hub_download(repository, part) for part in files]
        return Path(first)
    except (OSError, ValueError, RuntimeError) as error:
        names: list[str] = []
        with suppress(Exception):  # the list only makes the message better
            names = [name for name in list_repo_files(repository) if name.lower().endswith(".gguf")]
        near = get_close_matches(file, names, 3, 0.0)
        nearest = f"; the nearest of its files are {', '.join(near)}" if near else ""
        raise TargetUnavailable(
            f"{model} cannot be fetched from the Hugging Face Hub ({shorten(str(error), 240)}){nearest}. "
            "Check the name, the network and HF_ENDPOINT; where the repository is gated or private accept "
            f"its terms at huggingface.co/{repository} and log in by `hf auth login`; or name a GGUF file "
            "that is here."
        ) from None
