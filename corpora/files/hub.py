"""Rows of data sets in the format of the Hugging Face `datasets` library, from the Hub or a local folder.

    hf:org/name                                   every split of the only configuration
    hf:org/name?config=passages&split=train       a configuration and a split, `train[:100]` too
    hf:org/name?revision=REVISION                 a commit, tag or branch; the newest commit if none is named
    hf:./folder                                   a folder of data files, or one written by `save_to_disk`

Each reading asks the Hub for the commit of a revision; that commit is read and recorded. Nothing is read
without the Hub, because a cached copy may be of another commit. No code of a data set is run. Only files
inside a folder are read: its card (`README.md`, `.huggingface.yaml`) and the records of `save_to_disk` name
files, and the library would follow them to any path and address.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl

import yaml

from ragc.core.tables import Table, Words
from ragc.core.text import first_line
from ragc.corpora.files.records import HUB, is_address
from ragc.corpora.files.rows import FileRow
from ragc.errors import DataError, UnknownName, UsageError

SPLIT_NAMES = {"validation": "dev", "valid": "dev", "val": "dev"}
"""ragc's names for splits with other names on the Hub."""

TIMEOUT = 10.0
"""The most seconds for the Hub to resolve a revision."""

_OUTSIDE = re.compile(r"::|://|^[/~\\]|(^|[/\\])\.\.([/\\]|$)")
# The records of `save_to_disk`, and a card: files that name others.
_RECORDS = (".huggingface.yaml", "dataset_dict.json", "state.json")
_REFUSALS = {
    "GatedRepoError": "its owner gives access on request; ask there, and set HF_TOKEN",
    "RepositoryNotFoundError": "the Hub has no data set of this name, or shows it to owners only (HF_TOKEN)",
    "RevisionNotFoundError": "the data set has no such revision",
    "HFValidationError": "the Hub can have no data set of this name",
}


class HubData(Table):
    """A data set and the part of it to read: a repository `org/name`, or a folder.

    `split` "" means every split. With `streaming` no local copy is stored.
    """

    name: str
    config: Words = ""
    split: Words = ""
    revision: Words = ""
    streaming: Literal["", "true", "false"] = ""

    @property
    def is_folder(self) -> bool:
        """Whether `name` is a path: it begins with a point, a tilde or a slash."""
        return self.name.startswith((".", "~", "/"))


def parse(address: str) -> HubData:
    """Parses `address`. Raises UsageError for an invalid address or option."""
    name, _, query = address.removeprefix(HUB).partition("?")
    data = HubData.of({**dict(parse_qsl(query, keep_blank_values=True)), "name": name}, f"{address}: ")
    if not is_address(address) or not name.strip() or (name.count("/") > 1 and not data.is_folder):
        raise UsageError(f"{address!r} names no data set; write hf:org/name, or hf:./folder for a local one.")
    if data.is_folder and data.revision:
        raise UsageError(f"A folder has no revisions; leave it out of {address!r}.")
    return data


class HubRows:
    """The rows of one data set, read on iteration.

    A relative folder is resolved from `base`. A row without a field `split` gets the name of its split. Class
    labels become their names; images and audio are not decoded. `revision` is the commit that was read, ""
    before the reading and for folders.

    Raises UsageError for an invalid address, or if the library is not installed. Iterating raises DataError,
    in one sentence, if the Hub cannot be reached, or has no such data set, revision or split.
    """

    def __init__(self, address: str, base: Path = Path()) -> None:
        self.address, self.dataset, self.revision, self._base = address, parse(address), "", base
        try:
            import datasets
        except ImportError as error:
            needed = "Data sets of the Hugging Face Hub need the library `datasets`; install ragc[hub]."
            raise UsageError(needed) from error
        self._library = datasets

    def __iter__(self) -> Iterator[FileRow]:
        if not sys.stderr.isatty():
            self._library.disable_progress_bars()
        try:
            for split, part in self._parts().items():
                yield from _rows(split, part)
        except DataError:
            raise
        except Exception as error:  # the library raises errors of a dozen kinds; each says what is wrong
            raise DataError(self.address, [self._reason(error)]) from error

    def _parts(self) -> Mapping[str, Any]:
        """Returns the splits to read, by their names on the Hub."""
        data, path, is_saved, split = self.dataset, self.dataset.name, False, self.dataset.split
        if data.is_folder:
            folder = (self._base / Path(path).expanduser()).absolute()
            problem = _leads_out(folder) if folder.is_dir() else f"there is no folder {str(folder)!r}"
            is_saved = any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))
            is_saved = is_saved and not data.config and data.streaming != "true"
            if problem:
                raise DataError(self.address, [problem])
            path = str(folder)
        else:
            from huggingface_hub import HfApi

            info = HfApi().dataset_info(path, revision=data.revision or None, timeout=TIMEOUT)
            self.revision = str(info.sha)
        splits = self._library.load_from_disk(path) if is_saved else self._load(path)
        if not isinstance(splits, Mapping):
            return {split.partition("[")[0]: splits}
        if split and split not in splits:
            raise DataError(self.address, [str(UnknownName("split", split, splits))])
        return {split: splits[split]} if split else splits

    def _load(self, path: str) -> Any:
        """Returns the splits, or the requested one, of a repository or folder of data files."""
        data, split = self.dataset, self.dataset.split or None
        builder = self._library.load_dataset_builder(
            path, data.config or None, revision=self.revision or None
        )
        if ".cache." in f"{type(builder).__module__}.":  # a cached copy of any commit
            raise ConnectionError("the Hub stopped answering")
        if data.streaming == "true":
            return builder.as_streaming_dataset(split=split)
        builder.download_and_prepare()
        return builder.as_dataset(split=split)

    def _reason(self, error: Exception) -> str:
        """Returns the words for an error of the library."""
        import httpx

        why = first_line(error, None)
        if refusal := _REFUSALS.get(type(error).__name__):
            return refusal
        if self.dataset.is_folder or not isinstance(error, httpx.HTTPError | OSError):
            return f"it cannot be read: {why}"
        advice = "try again with a network, or name a copy in a folder: hf:./folder"
        why = "HF_HUB_OFFLINE is set" if os.environ.get("HF_HUB_OFFLINE") else why
        return f"the Hugging Face Hub cannot be reached ({why}); {advice}"


def _rows(split: str, part: Any) -> Iterator[FileRow]:
    """Yields the rows of `part` as stored: the Arrow format decodes no images and no audio."""
    labels = {
        name: dict(enumerate(feature.names))
        for name, feature in (part.features or {}).items()
        if hasattr(feature, "names")
    }
    split_field = {"split": SPLIT_NAMES.get(split, split)} if split else {}
    tables = part.with_format("arrow").iter(batch_size=256)
    for number, values in enumerate(chain.from_iterable(table.to_pylist() for table in tables), 1):
        for name, names in labels.items():
            values[name] = names.get(values[name])  # -1 is an unknown one
        yield FileRow(f"{split}, item {number}" if split else f"item {number}", split_field | values)


def _leads_out(folder: Path) -> str:
    """Returns a sentence on a link or a file name in `folder` that leads out of it, "" if there is none.

    Raises the library's errors for an unreadable card.
    """
    import huggingface_hub

    for path in folder.rglob("*"):
        shown, names = f"`{path.relative_to(folder)}`", None
        if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
            return f"{shown} is a link to a place outside the folder"
        if path.name == "README.md":
            names = (huggingface_hub.metadata_load(path) or {}).get("configs")
        elif path.name in _RECORDS:
            names = yaml.safe_load(path.read_text("utf-8"))  # JSON is YAML
        if outside := next(filter(_OUTSIDE.search, _texts(names)), ""):
            return f"{shown} names {outside[:200]!r}, which is not a path within the folder"
    return ""


def _texts(value: Any) -> Iterator[str]:
    """Yields every text in `value`."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(inner)
