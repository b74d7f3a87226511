"""Tars that nobody made in good faith: each ends as rows, rejects or one sentence, soon and in little memory."""

import gzip
import random
import signal
import tarfile
import tracemalloc
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from resources.lake import ArchiveError, ConvertedFile, convert

END = bytes(1024)


def header(name: str | bytes, size: int, kind: bytes = tarfile.REGTYPE, **fields: bytes) -> bytes:
    """One header of 512 bytes with a checksum that is right; `size_field` replaces the twelve bytes of the size."""
    text, data = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name, bytearray(512)
    data[: len(text[:100])] = text[:100]
    data[100:108] = b"0000644\0"
    data[124:136] = fields.get("size_field") or b"%011o\0" % size
    data[156:157] = kind
    data[257:265] = b"ustar\x0000"
    data[148:156] = b"        "
    data[148:156] = b"%06o\0 " % sum(data)
    return bytes(data)


def member(name: str | bytes, data: bytes, kind: bytes = tarfile.REGTYPE, **fields: bytes) -> bytes:
    return header(name, len(data), kind, **fields) + data + bytes(-len(data) % 512)


def pax(**fields: str | bytes) -> bytes:
    """The payload of an extended header."""
    records = b""
    for name, value in fields.items():
        rest = b" %s=%s\n" % (name.replace("_", ".").encode(), value if isinstance(value, bytes) else value.encode())
        length = len(rest)
        while len(str(length)) + len(rest) != length:
            length = len(str(length)) + len(rest)
        records += str(length).encode() + rest
    return records


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    """What would go on for ever is ended."""

    def give_up(_number: int, _frame: object) -> None:
        raise TimeoutError("This went on for a minute.")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def converted(lake, tar: bytes) -> ConvertedFile:
    return convert(lake.from_bytes(gzip.compress(tar)), lake.layout)


def refusal(lake, tar: bytes) -> str:
    """The sentence for a tar that cannot be read. Nothing is landed, and memory stays at a header's need."""
    archive = lake.from_bytes(gzip.compress(tar, 1))
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError) as caught:
            convert(archive, lake.layout, workers=1)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) <= 2000
    assert not [path for path in lake.layout.lake.glob("**/*") if path.is_file()]
    return str(caught.value)


#: Extended headers with lengths and sizes that none has.
BAD_PAX = [
    *(b"0 path=x\n", b" path=x\n", b"-9 path=x\n", b"path=x\n", b"1 path=x\n", b"99 path=x\n", b"1" * 5000, b"\n"),
    *(b"8 path=x", "\N{ARABIC-INDIC DIGIT NINE} path=x\n".encode(), pax(size="abc"), pax(size="1" * 4400)),
    *(pax(size="-1"), pax(size=str(2**70)), pax(size=""), pax(size="1.5"), b"2" * 5000 + b" a"),
]


@pytest.mark.parametrize("payload", BAD_PAX, ids=lambda payload: ascii(payload)[2:25])
def test_an_extended_header_that_cannot_be_read(lake, payload):
    tar = member("p", payload, tarfile.XHDTYPE) + member("a.ndjson", b"x\n") + END
    assert "the tar is damaged" in refusal(lake, tar)


#: A negative size, 2 to the power of 70, and letters.
BAD_SIZES = [b"\xff" * 12, b"\x80\0\0" + (1 << 70).to_bytes(9, "big"), b"abcdefghijkl"]


@pytest.mark.parametrize("field", BAD_SIZES, ids=["negative", "large", "letters"])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_size_that_no_member_can_have(lake, field, kind):
    assert "the tar is damaged" in refusal(lake, header("a.ndjson", 0, kind, size_field=field) + bytes(4096))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
@pytest.mark.parametrize("size", [2 << 20, 1 << 40])
def test_a_header_is_not_believed_in_what_it_claims(lake, kind, size):
    told = refusal(lake, header("p", 0, kind, size_field=b"\x80" + size.to_bytes(11, "big")) + bytes(3 << 20))
    assert "the headers before a member exceed 1,048,576 bytes" in told


@pytest.mark.parametrize("size", [8 << 30, 1 << 40, 2**63 - 1])
@pytest.mark.parametrize("name", ["a.ndjson", "a.txt"])
def test_a_member_that_is_shorter_than_its_header_says(lake, size, name):
    field = b"\x80" + size.to_bytes(11, "big")
    assert "the tar file is truncated" in refusal(lake, header(name, 0, size_field=field) + b"{}\n" * 1000)


@pytest.mark.parametrize("payload", [b"7 a=bb\n" * 20, pax(comment="x" * 5000), b""], ids=["many", "long", "empty"])
@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_headers_upon_headers_end_with_a_sentence(lake, payload, kind):
    one = member("p", payload, kind)
    tar = one * ((3 << 20) // len(one)) + member("a.ndjson", b"x\n") + END
    assert "the headers before a member exceed 1,048,576 bytes" in refusal(lake, tar)


NAMES = {
    "not UTF-8": (b"p\xe9ge.ndjson", "p\\udce9ge.ndjson ("),
    "control characters": (b"a\x1b[31m\n.ndjson", "a\\x1b[31m\\n.ndjson ("),
    "long": (b"n" * 1_000_000 + b".ndjson", "n" * 199 + "… ("),
}


@pytest.mark.parametrize(
    ("way", "name"),
    [(way, name) for way in ("gnu", "pax", "plain") for name in NAMES if (way, name) != ("plain", "long")],
)
def test_a_name_that_cannot_be_shown_as_it_is(lake, rows, name, way):
    raw, begins = NAMES[name]
    before = {
        "gnu": lambda: member("././@LongLink", raw + b"\0", tarfile.GNUTYPE_LONGNAME),
        "pax": lambda: member("p", pax(path=raw), tarfile.XHDTYPE),
        "plain": lambda: b"",
    }[way]()
    tar = before + member(raw, b"x\n" * 3000 + lake.lines(lake.record(1)))
    made = converted(lake, tar + END)
    assert (made.row_count, made.reject_count) == (1, 3000)
    [shown] = {row["member"] for row in rows(made.rejects_path)}
    assert shown.startswith(begins)
    assert len(shown) < 220
    assert shown in refusal(lake.elsewhere("cut"), tar[:-900])


#: Headers whose fields have no equals sign: readers that look for it go through all that follows, to the zeros.
MANY = member("p", b"5 aa\n" * 200_000 + pax(path="b.ndjson") + bytes(7), tarfile.XHDTYPE)
LONG = [member("././@LongLink", b"n" * 5000 + last + b".ndjson\0", tarfile.GNUTYPE_LONGNAME) for last in (b"a", b"b")]
#: The path of a header for all members, and the name of a link's target, are no name of the next member.
OTHERS_NAME = member("g", pax(path="b"), tarfile.XGLTYPE) + member("l", b"b\0", tarfile.GNUTYPE_LONGLINK)
ODD_MEMBERS = {
    "many fields": (MANY + member("a", b"x\n"), {"b.ndjson"}),
    "two long names with one beginning": (LONG[0] + member("n", b"x\n") + LONG[1] + member("n", b"x\n"), None),
    "a size in binary": (member("a.ndjson", b"x\n", size_field=b"\x80" + (2).to_bytes(11, "big")), {"a.ndjson"}),
    "other kinds": (member("a.ndjson", b"x\n", b"Z") + member("b.ndjson", b"x\n", b"7"), {"a.ndjson", "b.ndjson"}),
    "names of others": (OTHERS_NAME + member("a.ndjson", b"x\n"), {"a.ndjson"}),
    "a link": (header("l.ndjson", 512, tarfile.LNKTYPE) + member("a.ndjson", b"x\n"), {"a.ndjson"}),
}


@pytest.mark.parametrize(("tar", "names"), ODD_MEMBERS.values(), ids=ODD_MEMBERS)
def test_odd_members_are_read(lake, rows, tar, names):
    found = {row["member"] for row in rows(converted(lake, tar + END).rejects_path)}
    assert found == names if names else len(found) == 2


@pytest.mark.parametrize("told", [0, 1, 8**11 - 1])
def test_the_size_in_an_extended_header_is_the_one_that_counts(lake, rows, told):
    """As for members over 8 GB, whose size the plain header has no room for."""
    first, second = lake.lines(*(lake.record(n) for n in range(50))), lake.lines(lake.record(60), b"bad")
    tar = member("p", pax(size=str(len(first))), tarfile.XHDTYPE if told else tarfile.SOLARIS_XHDTYPE)
    tar += header("a.ndjson", told) + first + bytes(-len(first) % 512) + member("b.ndjson", second) + END
    made = converted(lake, tar)
    assert [row["article_id"] for row in rows(made.path)] == [*(100 + n for n in range(50)), 160]
    assert [row["member"] for row in rows(made.rejects_path)] == ["b.ndjson"]
    assert made.ndjson_bytes == len(first) + len(second)


@pytest.mark.soak
def test_a_member_of_nine_gigabytes(lake):
    """Of blank lines, by an extended header; the records behind it are found."""
    times, blank = 9 << 4, gzip.compress(b"\n" * (64 << 20), 1)
    size = times * (64 << 20)
    head = gzip.compress(member("p", pax(size=str(size)), tarfile.XHDTYPE) + header("a.ndjson", 0))
    tail = gzip.compress(member("b.ndjson", lake.lines(lake.record(1), b"bad")) + END)
    signal.alarm(600)
    made = convert(lake.from_bytes(head + blank * times + tail), lake.layout)
    assert (made.row_count, made.reject_count) == (1, 1)
    assert made.ndjson_bytes > size > 8 << 30


@pytest.mark.parametrize("before", [member("p", pax(GNU_sparse_major="1"), tarfile.XHDTYPE), b""], ids=["pax", "gnu"])
def test_a_sparse_member_is_refused(lake, before):
    kind = tarfile.REGTYPE if before else tarfile.GNUTYPE_SPARSE
    assert "stored as a sparse file" in refusal(lake, before + member("a.ndjson", b"1\n0\n512\n", kind) + END)


@pytest.mark.parametrize("zeros", [1, 2, 41])
@pytest.mark.parametrize("apart", [False, True], ids=["one gzip", "two gzips"])
def test_members_behind_zeros_are_read_and_told_of(lake, rows, zeros, apart):
    parts = [
        member("e.txt", b"") + member("a.ndjson", lake.lines(lake.record(1))) + bytes(512 * zeros),
        member("b.ndjson", lake.lines(lake.record(2))) + member("c.ndjson", b"") + END,
    ]
    packed = b"".join(map(gzip.compress, parts)) if apart else gzip.compress(b"".join(parts))
    made = convert(lake.from_bytes(packed), lake.layout)
    assert [row["article_id"] for row in rows(made.path)] == [101, 102]
    assert made.remarks == ("Members after the tar's end-of-archive marker were also read.",)
    assert convert(lake.from_bytes(packed), lake.layout).remarks == made.remarks
    # zeros at the beginning or the end are nothing to tell of
    made = convert(lake.from_bytes(gzip.compress(bytes(512) + parts[0] + bytes(511))), lake.layout)
    assert (made.row_count, made.remarks) == (1, ())


@pytest.mark.parametrize(
    ("tail", "told"),
    [
        (b"x", "unexpected data follows the end of the tar"),
        (b'{"name":"x"}\n' * 100, "the data after the tar archive is not another tar archive"),
        (bytes(511) + b"x", "the data after the tar archive is not another tar archive"),
        (bytes(5120) + b"\n", "unexpected data follows the end of the tar"),
        (member("p", pax(comment="b"), tarfile.XHDTYPE) + END, "the tar file is truncated"),
        (member("b.ndjson", b"{}\n"), "the tar file is truncated"),
    ],
)
def test_anything_else_behind_the_end_is_damage(lake, tail, told):
    assert told in refusal(lake, member("a.ndjson", lake.lines(lake.record(1))) + END + tail)


def test_bytes_behind_the_gzip_data_are_damage(lake):
    archive = gzip.compress(member("a.ndjson", lake.lines(lake.record(1))) + END)
    with pytest.raises(ArchiveError, match="gzip data is damaged"):
        convert(lake.from_bytes(archive + b'{"name":"x"}\n'), lake.layout)
    assert convert(lake.from_bytes(archive + bytes(700)), lake.layout).row_count == 1  # as gzip takes it


def test_members_with_other_names_are_told_of_and_in_any_case_read(lake, rows):
    line = lake.lines(lake.record(2))
    named = [("X.NDJSON", lake.lines(lake.record(1))), ("x.json", line), ("x.ndjson.exe", line), ("empty.txt", b"")]
    tar = b"".join(member(name, data) for name, data in named) + member("d.ndjson/", b"", tarfile.DIRTYPE) + END
    made = converted(lake, tar)
    assert [row["article_id"] for row in rows(made.path)] == [101]
    skipped = f"x.json, x.ndjson.exe, empty.txt (3 members, {2 * len(line):,} bytes)."
    assert made.remarks == (f"Members that are not named *.ndjson were skipped: {skipped}",)
    assert b"x.ndjson.exe" in pq.read_metadata(made.path).metadata[b"conversion"]


def test_a_remark_on_many_members_is_short(lake):
    tar = b"".join(member(f"{n}.txt", b"x") for n in range(500)) + member("a.ndjson", lake.lines(lake.record(1)))
    [remark] = converted(lake, tar + END).remarks
    assert "*.ndjson were skipped: 0.txt, 1.txt, 2.txt, 3.txt, 4.txt and more (500 members, 500 bytes)." in remark
    assert "and more" in refusal(lake.elsewhere("none"), tar[: 500 * 1024] + END)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The data with a bit flipped, or without bytes, with some of them twice, or with others."""
    place, size = rng.randrange(len(data)), rng.choice([1, 8, 512])
    before, some, behind = data[:place], data[place : place + size], data[place + size :]
    flipped = bytes([some[0] ^ 1 << rng.randrange(8)]) + some[1:]
    return before + rng.choice([flipped + behind, b"", behind, 2 * some + behind, rng.randbytes(size) + behind])


def attempt(lake, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Convert an archive that may be damaged, with the native decoder and without it."""
    rng = random.Random(seed)
    records = [lake.lines(lake.record(number, abstract="é" * rng.randrange(500))) for number in range(20)]
    heads = [b"", b"", MANY, LONG[0], OTHERS_NAME, member("p", pax(comment="x" * 600), tarfile.XHDTYPE)]
    tar = END
    for _ in range(rng.randrange(1, 6)):
        data = b"".join(rng.choices([*records, b"bad\n", b"\n"], k=rng.randrange(40)))
        tar = rng.choice(heads) + member(rng.choice(["a.ndjson", "b.NDJSON", "a.txt"]), data) + tar
    packed = gzip.compress(damaged(rng, tar) if rng.random() < 0.7 else tar, 1)
    packed, found = damaged(rng, packed) if rng.random() < 0.3 else packed, []
    for how in "01":
        monkeypatch.setenv("WME_NATIVE", how)
        there = lake.elsewhere(f"{seed}-{how}")
        try:
            made = convert(there.from_bytes(packed), there.layout)
        except ArchiveError as error:
            told = str(error)
            assert len(told) <= 2000
            assert told.isprintable()
            assert not [path for path in there.layout.lake.glob("**/*") if path.is_file()]
            found.append((error.member, error.offset))
        else:
            tables = [pq.read_table(path) for path in (made.path, made.rejects_path) if path]
            assert [*map(len, tables)] == [made.row_count, made.reject_count][: len(tables)]
            found.append((tables, made.ndjson_bytes, made.remarks))
    assert found[0] == found[1], f"seed {seed}"


@pytest.mark.parametrize("first", [0, *(pytest.param(one, marks=pytest.mark.soak) for one in range(1000, 6000, 16))])
def test_damaged_archives_end_as_rows_and_rejects_or_with_a_sentence(lake, first, monkeypatch):
    for seed in range(first, first + 16):
        attempt(lake, seed, monkeypatch)
