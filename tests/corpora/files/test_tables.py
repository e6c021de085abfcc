"""Tables as spreadsheets and pandas write them are read; what is no table is answered with what would be."""

from __future__ import annotations

import csv
import gzip
import json
import logging
import time
import zipfile
from io import StringIO
from pathlib import Path

import pytest

from ragc import recipe
from ragc.corpora.files import mapping
from ragc.corpora.files.records import read_corpus, read_questions
from ragc.corpora.files.rows import rows
from ragc.corpora.storage.corpus import read as read_corpus_file
from ragc.errors import DataError, RecipeError
from ragc.records import Passage
from ragc.task.data import RecipeData
from ragc.task.passages import CorpusIds

HEADER = ["Nr", "Frage", "Antwort", "Preis"]
RECORDS = [
    ["1", "Wie heißt die\nHauptstadt?", "Zürich; oder", "3,14"],
    ["2", 'Was heißt "Grüße"?', "Übung, vielleicht", "1.000,50"],
    ["3", "Größe der Straße?", "Köln|Bonn", "0,5"],
]
MAP = {"id": "Nr", "question": "Frage", "answers": "Antwort"}


def table(delimiter: str, end: str = "\r\n") -> str:
    out = StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
    writer.writerows([HEADER, *RECORDS])
    return out.getvalue()


def problems(path: Path, **map_of: str) -> tuple[str, ...]:
    with pytest.raises(DataError) as caught:
        mapping.read_questions(path, fields=map_of or MAP)
    return caught.value.problems


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252", "latin-1"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
def test_any_separator_in_any_usual_encoding(
    tmp_path: Path, encoding: str, delimiter: str, suffix: str
) -> None:
    path, data = tmp_path / f"x{suffix}", table(delimiter).encode(encoding)
    path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    assert [list(row.values.values()) for row in rows(path)] == RECORDS
    questions, _ = mapping.read_questions(path, fields=MAP)
    assert [q.answers for q in questions] == [(record[2],) for record in RECORDS]


def test_the_encoding_is_told_when_it_is_not_utf8(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "support.csv"
    path.write_bytes(table(";").encode("cp1252"))
    with caplog.at_level(logging.WARNING):
        list(rows(path))
    (warning,) = caplog.messages
    assert warning.startswith("support.csv is read as cp1252 (Windows, Western Europe): its line 2 ")
    caplog.clear()
    path.write_bytes(table(";").encode("utf-8"))
    list(rows(path))
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("id;text\n1;Привет мир, как дела\n", "cp1251"),
        ("id;text\n1;Καλημέρα κόσμε\n", "cp1253"),
        ("id;text\n1;zażółć gęślą jaźń, może być\n", "cp1250"),
        ("id;text\n1;日本語のテキスト\n", "shift-jis"),
        ("id;text\n1;中文文本\n", "gbk"),
    ],
)
def test_another_alphabet_is_not_guessed_and_can_be_named(tmp_path: Path, text: str, encoding: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode(encoding))
    (row,) = rows(path)
    assert "name its encoding" in row.problems[0]
    assert "cp1252" in row.problems[0]
    expected = {"id": "1", "text": text.splitlines()[1][2:]}
    assert [row.values for row in rows(path, encoding=encoding)] == [expected]


@pytest.mark.parametrize("name", ["no-such", "rot13", "hex", "zlib", "\0", "utf 8 ü", "idna", "undefined"])
def test_an_encoding_that_is_none_is_one_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"id,text\n1,\xff.\xff\n")
    bad_rows = [row for row in rows(path, encoding=name) if row.problems]
    assert len(bad_rows) <= 1


def test_half_a_surrogate_pair_is_a_problem_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"id,text\n1,\\ud800\n")
    (row,) = rows(path, encoding="unicode_escape")
    assert "surrogates not allowed" in row.problems[0]


@pytest.mark.parametrize("delimiter", ['"', "\n", "ab", "\0"])
def test_a_separator_that_cannot_be_is_one_sentence(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"id,text\n1,2\n")
    (row,) = rows(path, delimiter=delimiter)
    assert "cannot separate columns" in row.problems[0]


def test_what_excel_adds_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"sep=;\r\n id ;text;;\r\na;b;;\r\n;;;\r\n\r\nc;d;;\r\ne;f;;g\r\n")
    table_rows = list(rows(path))
    assert [row.values for row in table_rows[:2]] == [{"id": "a", "text": "b"}, {"id": "c", "text": "d"}]
    assert (table_rows[2].location, len(table_rows)) == ("line 7", 3)


def test_pandas_writes_an_index_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(",id,text\n0,a,x\n1,b,y\n")
    assert [row.values["id"] for row in rows(path)] == ["a", "b"]


def test_the_separator_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id^text\na^b,c\n")
    (row,) = rows(path, delimiter="^")
    assert row.values == {"id": "a", "text": "b,c"}
    (tmp_path / "q.csv").write_text("id:question:answers\n1:Who, me?:Ada\n")
    text = 'program = "no_retrieval"\n[data]\nquestions = "q.csv"\ndev = 1\n[data.fields]\n{}\n'
    text += '[targets.main]\nkind = "vllm"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
    parsed_recipe = recipe.parse(text.format('delimiter = ":"'), base=tmp_path)
    (question,) = RecipeData(parsed_recipe).pool(CorpusIds(()))
    assert (question.question, question.answers) == ("Who, me?", ("Ada",))
    assert recipe.parse(text.format('delimiter = "\\t"'), base=tmp_path).data.fields.explicit == {
        "delimiter": "tab"
    }
    resolved = recipe.parse(text.format('delimiter = "tab"'), base=tmp_path)
    assert recipe.parse(resolved.to_toml(), base=tmp_path).data.fields == resolved.data.fields
    with pytest.raises(RecipeError, match='one character, or "tab", found'):
        recipe.parse(text.format('delimiter = "::"'), base=tmp_path)


def test_a_table_needs_no_map_where_its_columns_have_our_names(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("id;question;answers\n1;Who?;Ada\n")
    (tmp_path / "c.csv").write_text("id;text\np;Ada wrote it\n")
    text = 'program = "vanilla"\n[data]\nquestions = "q.csv"\ncorpus = "c.csv"\ndev = 1\n'
    text += '[sources.local]\nkind = "bm25"\n'
    text += '[targets.main]\nkind = "vllm"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
    data = RecipeData(recipe.parse(text, base=tmp_path))
    assert data.pool(CorpusIds(()))[0].answers == ("Ada",)
    assert tuple(data.corpus(data.recipe.sources["local"]).passages) == (Passage("p", "", "Ada wrote it"),)


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_a_missing_column_is_told_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".csv"):
        path.write_text("nr;question ;Anwser\n" + "1;Who?;Ada\n" * 40)
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"nr": ["1"] * 40, "question": ["Who?"] * 40, "Anwser": ["Ada"] * 40}), path)
    (problem,) = problems(path, answers="Answer")
    assert problem.startswith("has no column `Answer`, `id`; its columns are 'nr', 'question', 'Anwser'. ")
    assert "Did you mean 'Anwser'?" in problem
    assert 'id = "#", the number of the row' in problem
    assert "in the recipe's table [data.fields], such as " in problem
    with pytest.raises(DataError) as caught:
        read_corpus(path)
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith("has no column `id`, `text`; its columns are ")
    assert "in the recipe's table [data.corpus_fields], such as text = " in caught.value.problems[0]


def test_a_corpus_without_ids_is_shown_how_to_number_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "corpus.csv"
    path.write_text("title,text\nAda,A mathematician.\n")
    with pytest.raises(DataError) as caught:
        read_corpus(path)
    (problem,) = caught.value.problems
    assert problem.endswith('[data.corpus_fields], such as id = "#", the number of the row.')


def test_a_single_column_hints_at_the_separator(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id^question^answers\n1^Who?^Ada\n")
    (problem,) = problems(path, id="id")
    assert problem.endswith('another character than a comma separates columns, name it: delimiter = ";".')


def test_a_missing_column_of_a_large_corpus_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,body\n" + "".join(f"{n},{'word ' * 100}\n" for n in range(10_000)))
    with pytest.raises(DataError) as caught:
        read_corpus_file(path, home=tmp_path / "home")
    assert len(caught.value.problems) == 1
    assert "has no column `text`; its columns are 'id', 'body'." in caught.value.problems[0]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["q.jsonl", "q.jsonl.gz", "q.txt", "q"])
def test_a_list_in_a_file_of_json_lines_is_read(tmp_path: Path, name: str, indent: int | None) -> None:
    items = [{"id": str(n), "question": "Who?", "answers": ["Ada"]} for n in range(3)]
    data = b"\xef\xbb\xbf\n" + json.dumps(items, indent=indent).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert [question.id for question in read_questions(tmp_path / name)] == ["0", "1", "2"]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_damaged_list_in_a_file_of_json_lines_has_one_problem(tmp_path: Path, indent: int | None) -> None:
    items = [{"id": str(n), "question": "Who?", "answers": ["Ada"]} for n in range(500)]
    cut = json.dumps(items, indent=indent).encode()[:-1]
    (tmp_path / "q.jsonl.gz").write_bytes(gzip.compress(cut))
    (row,) = rows(tmp_path / "q.jsonl.gz")
    assert row.problems
    assert "not JSON" in row.problems[0]
    lines = [json.dumps([1]), *map(json.dumps, items)]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines))
    assert sum(bool(row.problems) for row in rows(tmp_path / "lines.jsonl")) == 1


def office(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")


@pytest.mark.parametrize(
    ("name", "data", "named"),
    [
        ("docs", None, "is a folder"),
        ("guide.md", b"# Guide\n\nRead it.\n", "is Markdown"),
        ("notes.txt", b"Read it.\n", "is plain text (a table is named .csv or .tsv)"),
        ("page.html", b"<html></html>", "is HTML"),
        ("paper.pdf", b"%PDF-1.7\n\x00\xff", "is a PDF"),
        ("paper.csv", b"%PDF-1.7\n\x00\xff", "is a PDF"),
        ("sheet.xlsx", b"PK", "is an Excel workbook (save the sheet as CSV)"),
        ("sheet.csv", b"PK", "is an archive or a document of an office program"),
        ("letter.docx", b"PK", "is a Word document"),
        ("old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an Excel workbook"),
    ],
)
def test_what_holds_no_rows_is_answered_with_what_does(
    tmp_path: Path, name: str, data: bytes | None, named: str
) -> None:
    path = tmp_path / name
    if data is None:
        path.mkdir()
    elif data == b"PK":
        office(path)
    else:
        path.write_bytes(data)
    for read in (read_questions, read_corpus, read_corpus_file):
        with pytest.raises(DataError) as caught:
            read(path)
        (problem,) = caught.value.problems
        assert problem.startswith(named)
        assert "JSON lines, JSON, CSV, TSV or Parquet" in problem
        assert '{"id": "1", "title": "", "text": "..."}' in problem


@pytest.mark.parametrize("encoding", ["", "cp1252", "mac_roman"])
def test_lines_that_end_as_on_an_old_mac(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "mac.csv"
    path.write_bytes(table(";", "\n").replace("\n", "\r").encode(encoding or "utf-8"))
    table_rows = list(rows(path, encoding=encoding))
    assert [list(row.values.values()) for row in table_rows][1:] == RECORDS[1:]
    assert table_rows[0].values["Frage"] == "Wie heißt die\rHauptstadt?"
    assert [row.location for row in table_rows] == ["line 3", "line 4", "line 5"]


def test_utf_16_without_a_mark_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bcp.csv"
    path.write_bytes(table(",").encode("utf-16-le"))
    (problem,) = problems(path)
    assert 'encoding = "utf-16-le"' in problem
    records = [list(row.values.values()) for row in rows(path, encoding="utf-16-le")]
    assert records == RECORDS


def test_null_of_a_database_and_lines_of_spaces_say_nothing(tmp_path: Path) -> None:
    path = tmp_path / "dump.tsv"
    path.write_text(
        "   \nid\tquestion\tanswers\tquery_time\n1\tWho?\tAda\t\\N\n \t\n2\tWhy?\t\\N\t\\N\n", "utf-8"
    )
    (question,), left_out = mapping.read_questions(path, fields={})
    assert (question.answers, question.query_time) == (("Ada",), "")
    assert len(left_out) == 1


def test_the_width_of_a_table_costs_no_square_of_it(tmp_path: Path) -> None:
    path, names = tmp_path / "wide.csv", [f"c{n}" for n in range(200_000)]
    path.write_text(f"{','.join(names)}\n{','.join(names)}\n", "utf-8")
    began = time.process_time()
    (row,) = rows(path)
    assert len(row.values) == len(names)
    assert time.process_time() - began < 20  # a comparison of each with each takes ten minutes


def test_a_long_line_of_two_bytes_a_letter_costs_no_square_of_it(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    text = "id,question\r\n1," + "x" * (48 * 2**20) + "\r\n"
    path.write_bytes(text.encode("utf-16"))
    began = time.process_time()
    (row,) = rows(path, delimiter=",")
    assert len(row.values["question"]) == 48 * 2**20
    assert time.process_time() - began < 8  # joining it block by block takes ten seconds and more
