"""Model files of the Hugging Face Hub, named `owner/repository:file.gguf`, kept in its library's own cache.

The library reads its own environment: a mirror (`HF_ENDPOINT`), a token (`HF_TOKEN`), the cache (`HF_HOME`).
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path

from ragc.core.progress import notify
from ragc.core.redact import shorten
from ragc.errors import TargetUnavailable

_NAMED = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+):(?P<file>[\w./+-]+\.gguf)", re.ASCII | re.IGNORECASE)
_SPLIT = re.compile(r"-00001-of-(\d{5})(?=\.gguf$)")


def is_hub_file(model: str) -> bool:
    """Returns whether `model` names a file of the Hub, such as `owner/repository:file.gguf`."""
    return _NAMED.fullmatch(model) is not None


def fetch_hub_file(model: str) -> Path:
    """Returns the file that `model` names: from the cache without asking the network, else downloaded.

    Of a model in several files, named by the first (`-00001-of-00003.gguf`), all are fetched. The size is
    said before the download, which draws a bar of its own. Raises TargetUnavailable in one sentence.
    """
    named = _NAMED.fullmatch(model)
    if named is None:
        raise TargetUnavailable(f"{model!r} names no file of the Hub; write owner/repository:file.gguf.")
    repository, file = named["repository"], named["file"]
    try:
        from httpx import HTTPError
        from huggingface_hub import (
            errors,
            get_hf_file_metadata,
            hf_hub_download,
            hf_hub_url,
            try_to_load_from_cache,
        )
    except ImportError:
        raise TargetUnavailable(
            f"{model} is on the Hugging Face Hub, which needs huggingface_hub: pip install 'ragc[embedded]'."
        ) from None
    split = _SPLIT.search(file)
    parts = int(split[1]) if split else 1
    files = [_SPLIT.sub(f"-{part:05}-of-{parts:05}", file) for part in range(1, parts + 1)]
    cached = [try_to_load_from_cache(repository, part) for part in files]
    if isinstance(cached[0], str) and all(isinstance(path, str) for path in cached):
        return Path(cached[0])
    try:
        size = sum(get_hf_file_metadata(hf_hub_url(repository, part)).size or 0 for part in files)
        notify(f"fetching {model} from the Hugging Face Hub, {size / 1e6:,.0f} MB")
        first, *_ = [hf_hub_download(repository, part) for part in files]
        return Path(first)
    except errors.GatedRepoError:
        why = f"is gated: accept its terms at huggingface.co/{repository}, then log in by `hf auth login`"
    except errors.RepositoryNotFoundError:
        why = "has no such repository, or it is private: check the name, or log in by `hf auth login`"
    except errors.RemoteEntryNotFoundError:
        why = f"has no such file{_others(repository, file)}"
    except (HTTPError, OSError, ValueError, RuntimeError) as error:
        why = (
            f"cannot be fetched ({shorten(' '.join(str(error).split()), 160)}): check the network and "
            "HF_ENDPOINT, or name a GGUF file that is here"
        )
    raise TargetUnavailable(f"{model} of the Hugging Face Hub {why}.")


def _others(repository: str, file: str) -> str:
    """Returns the names of `repository` nearest to `file`, as the end of a sentence."""
    from huggingface_hub import HfApi

    try:
        names = [name for name in HfApi().list_repo_files(repository) if name.lower().endswith(".gguf")]
    except Exception:  # the list only makes the message better
        names = []
    near = get_close_matches(file, names, 3, 0.0)
    return f"; the nearest are {', '.join(near)}" if near else ": it has no GGUF file"
