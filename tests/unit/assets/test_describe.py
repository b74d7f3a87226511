"""What Dagster's pages show of tables (short types, whole descriptions, rows that can be read) and of errors."""

import errno
import re
from datetime import UTC, datetime
from types import SimpleNamespace

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt

from assets import checks, describe
from assets.describe import as_failure, failed_hours, failure, sentence
from resources.enterprise import errors
from resources.errors import ends_run
from resources.tables import ARTICLE_CHANGES, Column, Table

KEY = dg.AssetKey("a")
COLUMNS = (
    Column("page_id", pa.int64(), "Page.", required=True),
    Column("tags", pa.list_(pa.string()), "Tags."),
    Column("links", pa.list_(pa.struct([("url", pa.string()), ("ranks", pa.list_(pa.int64()))])), "Links."),
    Column("size", pa.struct([("bytes", pa.int64())]), "Size."),
)
NESTED = Table("nested", "A table.", COLUMNS)


def shown(table):
    return describe.lake_metadata(table)["dagster/column_schema"].columns


def test_nested_types_are_short_and_their_fields_stand_in_the_description():
    assert [(one.name, one.type, one.description, one.constraints.nullable) for one in shown(NESTED)] == [
        ("page_id", "int64", "Page.", False),
        ("tags", "list<string>", "Tags.", True),
        ("links", "list<struct>", "Links. Fields: url (string), ranks (list<int64>).", True),
        ("size", "struct", "Size. Fields: bytes (int64).", True),
    ]
    assert max(len(one.type) for one in shown(ARTICLE_CHANGES)) <= len("timestamp[us, tz=UTC]")
    # only tables of DuckDB have a table name, and previews have declared columns
    assert "dagster/table_name" not in describe.lake_metadata(NESTED)
    assert describe.table_metadata(NESTED)["dagster/table_name"] == "warehouse.main.nested"
    assert set(describe.PREVIEW) <= set(ARTICLE_CHANGES.schema.names)


def test_rows_are_a_table_that_markdown_cannot_break():
    rows = [
        {"a": 1234567, "page_id": 1234567, "b": 1.5, "c": None, "d": "x|y\nz", "e": True},
        {"a": 0, "d": "<" * 400, "f": datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)},
    ]
    lines = describe.markdown(rows, ("a", "page_id", "b", "c", "d", "e", "f")).value.splitlines()
    assert lines[:2] == ["| a | page_id | b | c | d | e | f |", "| --- | --- | --- | --- | --- | --- | --- |"]
    assert lines[2] == "| 1,234,567 | 1234567 | 1.50 |  | x\\|y z | yes |  |"
    assert lines[3] == f"| 0 |  |  |  | `{'<' * 200}` |  | 2026-01-02 03:04:05 |"


HOSTILE = [
    *("[free](https://evil.example/a)", "![](https://evil.example/b.png)", "<img src=x onerror=alert(1)>"),
    *("<https://evil.example/>", "https://evil.example/c", "www.evil.example WWW.evil.example", "a@evil.example"),
    *("a `code` b ``two`` ` `` [x](y)", "`` [x](https://evil.example) `` ` \\` [x](y)"),
    *(r"\[x](https://evil.example)", r"a\|b\\|[x](https://evil.example)|`|"),
    "| --- |\n\n# heading\n\n[x]: https://evil.example\n[x]",
    "&lt;b&gt; &#91;x&#93;(https://evil.example)",
    "<details open ontoggle=alert(1)>\n<script>alert(1)</script>",
    r"run `wme auth login`. \` `[x](https://evil.example)` \ `a`` `[x](y)",
    *("`a` `b`` [x](y) ` c` ``` `d`", "x`a b` [`c](d) ` e` [x](`y`) `f", "[x][y] ~~z~~ **b** $$e$$ [^1]"),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_makes_a_link_an_image_or_html_in_markdown(name):
    table = describe.markdown([{"a": name, "b": "end"}], ("a", "b")).value
    hour = datetime(2026, 1, 2, tzinfo=UTC)
    failed = describe.failed_hours({hour: ConnectionError(name)}, 2).metadata["failed_hours"].value
    check = checks.format_findings([name], "")
    for text, cells in ((table, 4), (failed, 0), (check, 0)):
        tokens = MarkdownIt("commonmark").enable("table").parse(text)
        assert sum(one.type in {"th_open", "td_open"} for one in tokens) == cells
        inline = [part for one in tokens for part in one.children or ()]
        assert {part.type for part in inline} <= {"text", "code_inline", "softbreak"}
        assert not any(one.type in {"html_block", "heading_open", "fence"} for one in tokens)
        prose = "".join(part.content if part.type == "text" else " " for part in inline)
        # what GitHub's Markdown links without brackets
        assert not re.search(r"://|www\.|@", prose, re.IGNORECASE)
        # but for blanks, and for backticks of code, all of it is shown
        bare = str.maketrans("", "", " \n`")
        assert name.translate(bare) in "".join(part.content for part in inline).translate(bare)


def test_a_preview_takes_a_few_rows_of_each_file_and_none_of_an_empty_one(tmp_path):
    table = pa.table({"name": [f"Page {number}" for number in range(50)], "html": ["<p>" * 1000] * 50})
    paths = []
    for number, rows in enumerate((table, table.slice(0, 0), table.slice(40))):
        paths.append(tmp_path / f"{number}.parquet")
        pq.write_table(rows, paths[-1])
    few = describe.preview(paths, ("name",)).value.splitlines()[2:]
    assert few == ["| Page 0 |", "| Page 1 |", "| Page 40 |", "| Page 41 |"]
    assert len(describe.preview(paths[:1], ("name",)).value.splitlines()) == 2 + describe.PREVIEW_ROWS
    # of many files as many rows, and of other columns as many
    pq.write_table(pa.table({f"column {number}": ["x"] for number in range(9)}), paths[0])
    assert describe.preview(paths[:1] * 9, ("name",)).value.count("x |") == describe.PREVIEW_ROWS**2


def test_a_run_that_changes_nothing_shows_the_work_of_the_run_that_made_the_same(instance):
    work = "files_fetched bytes_fetched size_fetched requests quota_units form because files_converted seconds "
    made = dict.fromkeys((work + "seconds_by_archive dropped_versions").split(), 7)
    for metadata in (made | {"rows": 3}, made | {describe.WORKED_AT: 5}):
        tags = {"dagster/data_version": "same"}
        instance.report_runless_asset_event(dg.AssetMaterialization(KEY, metadata=metadata, partition="p", tags=tags))
        assert describe.earlier_work(instance, KEY, "p", "another") == {}
        found = {name: one.value for name, one in describe.earlier_work(instance, KEY, "p", "same").items()}
        moment = found.pop(describe.WORKED_AT)
        assert (found, moment == 5) == (made, describe.WORKED_AT in metadata)


def test_a_sentence_is_the_errors_own_unless_it_has_none():
    assert sentence(errors.Forbidden("The account may not.")) == "The account may not."
    assert (sentence(KeyError("x")), sentence(RuntimeError())) == ("KeyError: 'x'", "RuntimeError")
    owner = "Make the user who runs this command the folder's owner (chown), or set WME_DATA to another folder."
    read_only = "Mount the file system read-write, or set WME_DATA to another folder."
    for number, advice in ((errno.EACCES, owner), (errno.EPERM, owner), (errno.EROFS, read_only)):
        said = f"Refused: /data/x -> /y. Committed data is kept. {advice} Then run the same command again."
        assert sentence(OSError(number, "Refused", "/data/x", None, "/y")) == said


@pytest.mark.parametrize("kind", [RuntimeError, KeyError, OSError, MemoryError])
def test_errors_that_do_not_say_end_their_hour_and_are_not_tried_again(kind):
    assert (ends_run(kind("x")), failure(kind("x")).allow_retries) == (False, False)


LOST, WRONG, GONE = errors.UnreachableError("Lost."), errors.IntegrityError("Wrong."), errors.RetentionPassed("Gone.")


def test_every_failed_hour_is_named_with_its_reason_and_with_those_of_the_same():
    at, kept = "2026-11-19", "failed. Data loaded earlier is kept."
    same, others = f"3 hours from {at} 05:00 to {at} 08:00: Lost.", "4 of 6 hours failed. The other 2 hours are loaded."
    for failed, total, told in (
        ({2: WRONG, 3: LOST, 0: LOST, 1: LOST}, 6, (others, same, f"{at} 07:00: Wrong.")),
        (dict.fromkeys(range(6), LOST), 6, (f"6 of 6 hours {kept}", f"{at} 05:00 to {at} 10:00: Lost.")),
        ({0: GONE}, 1, (f"1 of 1 hour {kept}", f"{at} 05:00: Gone.")),
        ({0: GONE}, 2, ("1 of 2 hours failed. The other hour is loaded.", f"{at} 05:00: Gone.")),
    ):
        hours = {datetime(2026, 11, 19, 5 + number, tzinfo=UTC): error for number, error in failed.items()}
        found = failed_hours(hours, total, what="entity_changes: ")
        assert found.description == "entity_changes: " + "\n- ".join(told)
        assert found.allow_retries is (LOST in failed.values())  # one of them can heal
        assert found.metadata["failed_count"].value == len(failed)
        lost = {"unavailable": "service", "retryable": True} if LOST in failed.values() else {}
        assert {name: found.metadata[name].value for name in found.metadata.keys() & {*lost, "unavailable"}} == lost


def test_whatever_goes_wrong_within_becomes_a_failure_once():
    with pytest.raises(dg.Failure) as caught, as_failure():
        raise errors.RateLimited("Too many.")
    assert (caught.value.description, caught.value.allow_retries) == ("Too many.", True)
    own = dg.Failure("Mine.", allow_retries=False)
    with pytest.raises(dg.Failure) as caught, as_failure():
        raise own
    assert caught.value is own
    told = []
    for error in (KeyError("x"), errors.RateLimited("<a>")):
        with pytest.raises(dg.Failure), as_failure(SimpleNamespace(partition_key="p", log_event=told.append), [KEY]):
            raise error
    found = [(one.asset_key, one.partition, one.description) for one in told]
    assert found == [(KEY, "p", text) for text in ("KeyError: 'x'", "`<a>`")]


def test_a_size_stands_beside_every_number_of_bytes():
    found = describe.sized({"bytes": 1, "bytes_fetched": 2_000_000, "rows": 3})
    assert found == {"bytes": 1, "bytes_fetched": 2_000_000, "rows": 3, "size": "1 B", "size_fetched": "2.0 MB"}
