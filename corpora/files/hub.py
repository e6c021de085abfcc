"""Rows of data sets in the format of the Hugging Face `datasets` library, from the Hub or a local folder.

    hf:org/name                                   every split of the only configuration
    hf:org/name?config=passages&split=train       a configuration and a split, `train[:100]` too
    hf:org/name?revision=REVISION                 a commit, tag or branch; the newest commit if none is named
    hf:./folder                                   a folder of data files, or one written by `save_to_disk`

Each reading asks the Hub for the commit of a revision; that commit is read and recorded. Nothing is read
without the Hub, because a cached copy may be of another commit. No code of a data set is run. Only files
inside a folder are read, whatever its card names (`hub_folder`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from ragc.core.text import first_line
from ragc.corpora.files.hub_folder import files_outside, find_outside_path
from ragc.corpora.files.records import HUB, is_address
from ragc.corpora.files.row import FileRow
from ragc.errors import DataError, UnknownName, UsageError

OPTIONS = ("config", "split", "revision", "streaming")

SPLIT_NAMES = {"validation": "dev", "valid": "dev", "val": "dev"}
"""ragc's names for splits with other names on the Hub."""

TIMEOUT = 10.0
"""The most seconds for the Hub to resolve a revision."""

_BATCH = 256


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
        if not value:
            raise UsageError(f"The option {option!r} of {address!r} has no value; give one or leave it out.")
    if not is_address(address) or not name.strip():
        raise UsageError(f"{address!r} names no data set; write hf:org/name, or hf:./folder for a local one.")
    streaming = options.pop("streaming", "false")
    if streaming not in ("true", "false"):
        raise UsageError(f"The option 'streaming' of {address!r} is true or false, found {streaming!r}.")
    dataset = HubData(name, **options, streaming=streaming == "true")
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
        self.address, self.dataset, self.revision = address, parse(address), ""
        self._base = base
        _library()

    def __iter__(self) -> Iterator[FileRow]:
        library = _library()
        shown = not library.are_progress_bars_disabled()
        if shown and not sys.stderr.isatty():
            library.disable_progress_bars()
        try:
            for split, part in self._parts(library).items():
                yield from self._rows(split, part)
        finally:
            if shown:
                library.enable_progress_bars()

    def _parts(self, library: Any) -> Mapping[str, Any]:
        """Returns the splits to read, by their names on the Hub."""
        if self.dataset.is_folder:
            splits = self._folder(library)
        else:
            self.revision = self._commit()
            splits = self._load(library, self.dataset.name)
        split = self.dataset.split
        if not isinstance(splits, Mapping):
            return {split.partition("[")[0]: splits}
        if not split:
            return splits
        if split in splits:
            return {split: splits[split]}
        raise self._error(str(UnknownName("split", split, splits)))

    def _folder(self, library: Any) -> Any:
        folder = (self._base / Path(self.dataset.name).expanduser()).absolute()
        if not folder.is_dir():
            raise self._error(f"there is no folder {str(folder)!r}")
        try:
            problem = find_outside_path(folder)
        except Exception as error:  # the library's card readers raise many kinds of errors
            raise self._error(f"the folder's card cannot be read: {first_line(error, None)}") from error
        if problem:
            raise self._error(problem)
        if any((folder / name).is_file() for name in ("dataset_dict.json", "state.json")):
            if self.dataset.config or self.dataset.streaming:
                raise self._error("a folder written by `save_to_disk` has no configurations and no streaming")
            try:
                return library.load_from_disk(str(folder))
            except Exception as error:
                raise self._error(f"the folder cannot be read: {first_line(error, None)}") from error
        return self._load(library, str(folder))

    def _commit(self) -> str:
        """Returns the present commit of the revision: one request to the Hub with the timeout `TIMEOUT`."""
        import httpx
        from huggingface_hub import HfApi, errors

        repository, revision = self.dataset.name, self.dataset.revision or None
        try:
            commit = HfApi().dataset_info(repository, revision=revision, timeout=TIMEOUT).sha
        except errors.GatedRepoError as error:
            raise self._error("its owner gives access on request; ask there, and set HF_TOKEN") from error
        except errors.RepositoryNotFoundError as error:
            raise self._error(
                "the Hub has no data set of this name, or shows it to its owners only (HF_TOKEN)"
            ) from error
        except errors.RevisionNotFoundError as error:
            raise self._error(f"the data set has no revision {revision!r}") from error
        except errors.HFValidationError as error:
            raise self._error(
                f"the Hub can have no data set of this name: {first_line(error, None)}"
            ) from error
        except (httpx.HTTPError, errors.OfflineModeIsEnabled, OSError) as error:
            raise self._unreachable(error) from error
        if not commit:
            raise self._error("the Hub does not say which commit this is")
        return commit

    def _load(self, library: Any, path: str) -> Any:
        """Returns the splits, or the requested one, of a repository or folder of data files."""
        import httpx

        split = self.dataset.split or None
        try:
            builder = library.load_dataset_builder(
                path, self.dataset.config or None, revision=self.revision or None
            )
            if self.dataset.is_folder and (outside := files_outside(Path(path), builder.config.data_files)):
                raise self._error(f"the folder's card names {outside!r}, which is not in the folder")
            if ".cache." in f"{type(builder).__module__}.":  # a cached copy of any commit
                raise ConnectionError("the Hub stopped answering")
            if self.dataset.streaming:
                return builder.as_streaming_dataset(split=split)
            builder.download_and_prepare()
            return builder.as_dataset(split=split)
        except DataError:
            raise
        except (httpx.HTTPError, ConnectionError, TimeoutError) as error:
            raise self._unreachable(error) from error
        except Exception as error:  # the library raises errors of a dozen kinds; each says what is wrong
            raise self._error(f"the library `datasets` cannot read it: {first_line(error, None)}") from error

    def _rows(self, split: str, part: Any) -> Iterator[FileRow]:
        """Yields the rows of `part` as stored: the Arrow format decodes no images and no audio."""
        labels = {
            name: feature.names
            for name, feature in (part.features or {}).items()
            if hasattr(feature, "names")
        }
        own = {"split": SPLIT_NAMES.get(split, split)} if split else {}
        numbers = count(1)
        try:
            for table in part.with_format("arrow").iter(batch_size=_BATCH):
                for values in table.to_pylist():
                    named = {name: _label(names, values.get(name)) for name, names in labels.items()}
                    location = f"{split}, item {next(numbers)}" if split else f"item {next(numbers)}"
                    yield FileRow(location, own | values | named)
        except Exception as error:  # a stream breaks off, or a file in it is damaged
            raise self._error(
                f"the reading broke off in {split or 'the rows'}: {first_line(error, None)}"
            ) from error

    def _unreachable(self, error: Exception) -> DataError:
        offline = "HF_HUB_OFFLINE is set" if os.environ.get("HF_HUB_OFFLINE") else first_line(error, None)
        return self._error(
            f"the Hugging Face Hub cannot be reached ({offline}); try again with a network, or name a copy "
            "in a folder: hf:./folder"
        )

    def _error(self, problem: str) -> DataError:
        return DataError(self.address, [problem])


def _library() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise UsageError(
            "Data sets of the Hugging Face Hub need the library `datasets`; install ragc[hub]."
        ) from error
    return datasets


def _label(names: list[str], value: object) -> object:
    """Returns the name of a class label; None for the unknown labels -1 and null."""
    if not isinstance(value, int):
        return value
    return names[value] if 0 <= value < len(names) else None
