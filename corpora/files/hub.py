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

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from ragc.core.text import first_line
from ragc.corpora.files.records import HUB, is_address
from ragc.corpora.files.row import FileRow
from ragc.errors import DataError, UnknownName, UsageError

OPTIONS = ("config", "split", "revision", "streaming")

SPLIT_NAMES = {"validation": "dev", "valid": "dev", "val": "dev"}
"""ragc's names for splits with other names on the Hub."""

TIMEOUT = 10.0
"""The most seconds for the Hub to resolve a revision."""

_OUTSIDE = re.compile(r"::|://|^[/~\\]|(^|[/\\])\.\.([/\\]|$)")
_REFUSALS = {
    "GatedRepoError": "its owner gives access on request; ask there, and set HF_TOKEN",
    "RepositoryNotFoundError": "the Hub has no data set of this name, or shows it to owners only (HF_TOKEN)",
    "RevisionNotFoundError": "the data set has no such revision",
    "HFValidationError": "the Hub can have no data set of this name",
}


@dataclass(frozen=True, slots=True)
class HubData:
    """A data set and the part of it to read: a repository `org/name`, or a folder.

    `split` "" means every split. With `streaming` no local copy is stored.
    """

    name: str
    config: str = ""
    split: str = ""
    revision: str = ""
    streaming: bool = False

    @property
    def is_folder(self) -> bool:
        """Whether `name` is a path: it begins with a point, a tilde or a slash."""
        return self.name.startswith((".", "~", "/"))


def parse(address: str) -> HubData:
    """Parses `address`. Raises UsageError for an invalid address or option."""
    name, _, query = address.removeprefix(HUB).partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    for option, value in options.items():
        if option not in OPTIONS:
            raise UnknownName("option of a Hub data set", option, OPTIONS)
        if not value or (option == "streaming" and value not in ("true", "false")):
            raise UsageError(
                f"The option {option!r} of {address!r} needs a value (streaming: true or false)."
            )
    if not is_address(address) or not name.strip():
        raise UsageError(f"{address!r} names no data set; write hf:org/name, or hf:./folder for a local one.")
    dataset = HubData(name, **{**options, "streaming": options.get("streaming") == "true"})  # type: ignore[arg-type]
    if dataset.is_folder and dataset.revision:
        raise UsageError(f"A folder has no revisions; leave it out of {address!r}.")
    if not dataset.is_folder and name.count("/") > 1:
        raise UsageError(f"{name!r} names no data set of the Hub; write hf:org/name.")
    return dataset


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
                yield from self._rows(split, part)
        except DataError:
            raise
        except Exception as error:  # the library raises errors of a dozen kinds; each says what is wrong
            raise self._error(error) from error

    def _parts(self) -> Mapping[str, Any]:
        """Returns the splits to read, by their names on the Hub."""
        dataset, path = self.dataset, self.dataset.name
        saved = False
        if dataset.is_folder:
            folder = (self._base / Path(path).expanduser()).absolute()
            if not folder.is_dir():
                raise DataError(self.address, [f"there is no folder {str(folder)!r}"])
            if problem := next(_leads_out(folder), ""):
                raise DataError(self.address, [problem])
            path = str(folder)
            saved = any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))
        else:
            from huggingface_hub import HfApi

            info = HfApi().dataset_info(path, revision=dataset.revision or None, timeout=TIMEOUT)
            self.revision = str(info.sha)
        if saved and (dataset.config or dataset.streaming):
            reason = "a folder written by `save_to_disk` has no configurations and no streaming"
            raise DataError(self.address, [reason])
        splits = self._library.load_from_disk(path) if saved else self._load(path)
        if not isinstance(splits, Mapping):
            return {dataset.split.partition("[")[0]: splits}
        if dataset.split and dataset.split not in splits:
            raise DataError(self.address, [str(UnknownName("split", dataset.split, splits))])
        return {dataset.split: splits[dataset.split]} if dataset.split else splits

    def _load(self, path: str) -> Any:
        """Returns the splits, or the requested one, of a repository or folder of data files."""
        dataset, split = self.dataset, self.dataset.split or None
        builder = self._library.load_dataset_builder(
            path, dataset.config or None, revision=self.revision or None
        )
        if ".cache." in f"{type(builder).__module__}.":  # a cached copy of any commit
            raise ConnectionError("the Hub stopped answering")
        files = [str(file) for files in (builder.config.data_files or {}).values() for file in files]
        outside = [file for file in files if not Path(file).resolve().is_relative_to(Path(path).resolve())]
        if dataset.is_folder and outside:
            raise DataError(
                self.address, [f"the folder's card names {outside[0]!r}, which is not in the folder"]
            )
        if dataset.streaming:
            return builder.as_streaming_dataset(split=split)
        builder.download_and_prepare()
        return builder.as_dataset(split=split)

    def _rows(self, split: str, part: Any) -> Iterator[FileRow]:
        """Yields the rows of `part` as stored: the Arrow format decodes no images and no audio."""
        labels = {
            name: feature.names
            for name, feature in (part.features or {}).items()
            if hasattr(feature, "names")
        }
        split_field = {"split": SPLIT_NAMES.get(split, split)} if split else {}
        numbers, before = count(1), f"{split}, " if split else ""
        for table in part.with_format("arrow").iter(batch_size=256):
            for values in table.to_pylist():
                for name, names in labels.items():
                    if isinstance(label := values.get(name), int):  # -1 is an unknown one
                        values[name] = names[label] if 0 <= label < len(names) else None
                yield FileRow(f"{before}item {next(numbers)}", split_field | values)

    def _error(self, error: Exception) -> DataError:
        import httpx

        reason = _REFUSALS.get(type(error).__name__, "") or f"it cannot be read: {first_line(error, None)}"
        if (
            not self.dataset.is_folder
            and isinstance(error, httpx.HTTPError | OSError)
            and type(error).__name__ not in _REFUSALS
        ):
            why = "HF_HUB_OFFLINE is set" if os.environ.get("HF_HUB_OFFLINE") else first_line(error, None)
            reason = (
                f"the Hugging Face Hub cannot be reached ({why}); try again with a network, or name a copy "
            )
            reason += "in a folder: hf:./folder"
        return DataError(self.address, [reason])


def _leads_out(folder: Path) -> Iterator[str]:
    """Yields a sentence on each link and file name in `folder` that leads out of it.

    Raises the library's errors for an unreadable card.
    """
    for below, folders, files in os.walk(folder):
        for link in (Path(below, name) for name in (*folders, *files)):
            if link.is_symlink() and not link.resolve().is_relative_to(folder.resolve()):
                yield f"`{link.relative_to(folder)}` is a link to a place outside the folder"
    named: list[tuple[Path, Any]] = []
    if (card := folder / "README.md").is_file():
        from huggingface_hub import DatasetCard

        loaded: Any = DatasetCard.load(card)
        named.append((card, loaded.data.to_dict().get("configs")))
    if (card := folder / ".huggingface.yaml").is_file():
        import yaml

        named.append((card, yaml.safe_load(card.read_text("utf-8"))))
    for record in (*folder.rglob("state.json"), folder / "dataset_dict.json"):
        if record.is_file():
            values = json.loads(record.read_text("utf-8"))
            named.append((record, [values.get("splits"), values.get("_data_files")]))
    for file, value in named:
        for text in _texts(value):
            if _OUTSIDE.search(text):
                shown = f"`{file.relative_to(folder)}` names {text[:200]!r}"
                yield f"{shown}, which is not a path within the folder"


def _texts(value: Any) -> Iterator[str]:
    """Yields every text in `value`."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(inner)
