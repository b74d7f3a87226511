"""The native decoder itself: seams of its vectors, its memory, and what happens without it."""

import ctypes
import json
import logging
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from resources.lake.decode import native
from resources.lake.decode.native import Decoder, decoding
from resources.lake.decode.rejected import MISTYPED, NO_OBJECT
from resources.tables import ARTICLE_CHANGES

BOTH = frozenset({"html", "wikitext"})


@pytest.fixture
def decoder(library) -> Decoder:
    return Decoder(library, ARTICLE_CHANGES, BOTH)


@pytest.fixture(scope="session")
def portable(tmp_path_factory) -> ctypes.CDLL:
    """The decoder as it is built for a processor of whose vectors it knows nothing."""
    path, compiler = tmp_path_factory.mktemp("portable") / "_decode.so", shutil.which("cc")
    assert compiler is not None, "there is no C compiler here; the tests need the one that the decoder is built with"
    source = Path(native.__file__).with_name("decode.c")
    options = ["-std=c11", "-O1", "-U__SSE2__", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, "-o", str(path), str(source)], check=True)
    found = native.load(path)
    assert found is not None
    return found


@pytest.fixture(params=["library", "portable"])
def either(request) -> Decoder:
    return Decoder(request.getfixturevalue(request.param), ARTICLE_CHANGES, BOTH)


def decode(decoder: Decoder, block: bytes):
    return decoder.decode(memoryview(block), {"project_id": "enwiki", "namespace_id": 0})


def texts(decoder: Decoder, block: bytes, column: str = "html") -> list:
    decoded = decode(decoder, block)
    decoded.batch.validate(full=True)
    return decoded.batch.column(column).to_pylist()


BOUNDS = "\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
PIECES = ["\\n", "\\u003c", "\\u00e9", "\\u07ff\\u0800", "\\ud83d\\udc3f", "é", "日", "🐿", '\\"', "\\\\", BOUNDS]


@pytest.mark.parametrize("piece", PIECES)
def test_every_distance_from_the_edge_of_a_vector(lake, either, piece):
    template = json.dumps(lake.record(1, article_body={"html": "HERE"}))
    encoded = ["a" * before + piece + "b" * after + piece for before in range(70) for after in (0, 1, 15, 31, 32)]
    block = "\n".join(template.replace("HERE", text) for text in encoded).encode()
    assert texts(either, block) == [json.loads(f'"{text}"') for text in encoded]


ODD = b"\xff \xc3 \xe3\x81 \xc0\x80 \xe0\x9f\xbf \xed\xa0\x80 \xf0\x8f\xbf\xbf \xf0\x90\x80x \xf4\x90\x80\x80".split()
HALVES = [b"\\ud800x", b"\\udc00\\udc00", b"\\ud83d\\ue000"]


@pytest.mark.parametrize("spoiled", [b"\x00", b"\x1f", b"\\x", b"\\u00g0", *ODD, *HALVES])
def test_a_fault_at_every_distance_is_refused_and_leaves_no_trace(lake, either, spoiled):
    good = lake.lines(lake.record(1, article_body={"html": "<good>"}))
    template = json.dumps(lake.record(2, article_body={"html": "HERE"})).encode()
    for before in range(70):
        bad = template.replace(b"HERE", b"a" * before + spoiled + b"b" * (70 - before))
        decoded = decode(either, good + bad + b"\n" + good)
        assert decoded.batch.column("html").to_pylist() == ["<good>", "<good>"]
        assert decoded.batch.column("article_id").to_pylist() == [101, 101]
        verdict = MISTYPED if spoiled in HALVES else NO_OBJECT
        bounds = [len(good), len(good) + len(bad)]
        left = {"number": 1, "row": 1, "start": len(good), "bounds": bounds, "verdict": verdict}
        assert decoded.left.to_pylist() == [left]


def test_a_line_may_end_anywhere_before_the_end_of_the_block(lake, decoder):
    line = lake.lines(lake.record(1)).rstrip()
    for size in range(140):
        for end in (b"", b"\n", b" ", b"\r\n"):
            decoded = decode(decoder, line + b"\n" + b" " * size + end)
            assert (len(decoded.batch), decoded.line_count, len(decoded.left)) == (1, 1, 0)
    for size in range(len(line)):
        decoded = decode(decoder, line[:size])
        assert len(decoded.batch) == 0
        assert len(decoded.left) == decoded.line_count == bool(size)


def test_a_living_batch_is_never_written_over(lake, decoder):
    kept = [decode(decoder, lake.lines(lake.record(n, article_body={"html": f"<p>{n}</p>" * 1000}))) for n in range(5)]
    assert [one.batch.column("html")[0].as_py() for one in kept] == [f"<p>{n}</p>" * 1000 for n in range(5)]
    part, addresses = kept[2].batch.column("html"), {one.batch.column("html").buffers()[2].address for one in kept}
    assert len(addresses) == 5
    del kept
    again = [decode(decoder, lake.lines(lake.record(9, article_body={"html": "z" * 7000}))) for _ in range(4)]
    assert {one.batch.column("html").buffers()[2].address for one in again} < addresses
    assert part[0].as_py() == "<p>2</p>" * 1000
    del decoder
    assert part[0].as_py() == "<p>2</p>" * 1000


def test_memory_of_huge_lines_is_given_back(lake, decoder, library, monkeypatch):
    html = "<p>é\\n" * 5_000_000
    line = json.dumps(lake.record(1, article_body={"html": html}), ensure_ascii=False).encode()
    assert len(line) > 30_000_000
    decoded = decode(decoder, line)
    assert decoded.batch.column("html")[0].as_py() == html
    del decoded
    library.wme_bytes.argtypes, library.wme_bytes.restype = [ctypes.c_void_p], ctypes.c_int64
    assert library.wme_bytes(decoder._handle) > 30_000_000
    monkeypatch.setattr(native, "KEEP_BYTES", 1 << 20)
    small = Decoder(library, ARTICLE_CHANGES, BOTH)
    assert decode(small, line).batch.column("html")[0].as_py() == html
    assert library.wme_bytes(small._handle) < 1 << 20
    assert texts(small, lake.lines(lake.record(1))) == ["<p>1</p>"]


@pytest.mark.usefixtures("library")
def test_each_thread_has_a_decoder_of_its_own(lake):
    meet = threading.Barrier(4)

    def work(number: int) -> tuple[int, list[str]]:
        with decoding(ARTICLE_CHANGES, BOTH) as mine:
            assert mine is not None
            meet.wait(120)
            block = lake.lines(*(lake.record(100 * number + row) for row in range(50)))
            for _ in range(20):
                found = texts(mine, block, "name")
                assert found == [f"Page {100 * number + row}" for row in range(50)]
            return id(mine), found

    with ThreadPoolExecutor(4) as pool:
        assert len({mine for mine, _ in pool.map(work, range(4))}) == 4
    native.trim()


@pytest.mark.parametrize("what", ["no library at all", "another version", "another library"])
def test_a_library_that_cannot_be_used_is_told_and_left_alone(tmp_path, caplog, what):
    path = tmp_path / "_decode.so"
    path.write_bytes(b"no library")
    if what != "no library at all":
        source = tmp_path / "other.c"
        source.write_text("int wme_version(void) { return 999; }" if what == "another version" else "int nothing;")
        subprocess.run([shutil.which("cc"), "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    with caplog.at_level(logging.WARNING):
        assert native.load(path) is None
    (message,) = caplog.messages
    assert "records are read more slowly" in message
    assert str(path) in message


def test_the_environment_can_forbid_the_decoder(monkeypatch):
    monkeypatch.setenv("WME_NATIVE", "0")
    with decoding(ARTICLE_CHANGES, BOTH) as none:
        assert none is None
