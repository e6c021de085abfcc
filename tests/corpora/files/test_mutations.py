"""Files that are cut, flipped or misnamed are read, or refused in short sentences: there is no traceback."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
from pathlib import Path

import pytest

from ragc.corpora.files.records import content_fingerprint, read_corpus, read_questions
from ragc.errors import DataError

ROWS = [
    {
        "id": f"q{n}",
        "question": f"Wo liegt Straße {n}?",
        "answers": ["Köln", f"{n}"],
        "text": "Sie liegt dort.",
    }
    for n in range(6)
]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()
CELLS = "".join(f'{row["id"]};"{row["question"]}";"[""Köln""]";x\n' for row in ROWS)


def parquet() -> bytes:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    out = pa.BufferOutputStream()
    files.write_table(pa.Table.from_pylist(ROWS), out)
    return bytes(out.getvalue().to_pybytes())


FORMS = {
    "x.jsonl": LINES,
    "x.json": json.dumps({"data": ROWS}, indent=1).encode(),
    "x.csv": f"id;question;answers;text\n{CELLS}".encode(),
    "x.tsv": f"id\tquestion\tanswers\ttext\n{CELLS}".replace(";", "\t").encode("utf-16"),
    "x.jsonl.gz": gzip.compress(LINES, mtime=0),
    "x.jsonl.bz2": bz2.compress(LINES),
    "x.jsonl.xz": lzma.compress(LINES),
    "x.parquet": b"",
}
TIMES = 60


@pytest.mark.parametrize("name", FORMS)
def test_a_damaged_file_is_read_or_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    whole, pick = FORMS[name] or parquet(), random.Random(name)
    for at in range(TIMES):
        data, target = bytearray(whole), tmp_path / name
        if at % 3 == 0:
            del data[pick.randrange(len(data)) :]
        elif at % 3 == 1:
            for _ in range(1 + at % 5):
                data[pick.randrange(len(data))] = pick.randrange(256)
        else:
            target = tmp_path / f"x{pick.choice(['.jsonl', '.json', '.csv', '.tsv', '.parquet', '.gz', ''])}"
            start = pick.randrange(len(data))
            data[start : start + 3] = pick.randbytes(pick.randrange(9))
        target.write_bytes(data)
        for read in (lambda path: read_questions(path).questions, read_corpus):
            try:
                assert content_fingerprint(read(target))
            except DataError as error:
                refused = error
                lines = [str(error).startswith(f"{target}: "), *(0 < len(p) < 500 for p in refused.problems)]
                lines += ["\n" not in problem for problem in refused.problems]
                if not all(lines):
                    pytest.fail(str(error))
