"""Damage of every kind at random places: rows and rejects add up, and what was not touched is kept."""

from __future__ import annotations

import json
import random

import pytest

from resources.lake import ArchiveError, convert


def flip(rng: random.Random, line: bytes) -> bytes:
    place = rng.randrange(len(line))
    return line[:place] + bytes([line[place] ^ (1 << rng.randrange(8))]) + line[place + 1 :]


def nest(rng: random.Random, line: bytes) -> bytes:
    depth = rng.choice([10, 500, 5000, 50_000])
    return line[:-1] + b',"deep":' + b'[{"a":' * depth + b"1" + b"}]" * depth + b"}"


DAMAGE = {
    "cut": lambda rng, line: line[: rng.randrange(1, len(line))],
    "flipped bit": flip,
    "doubled": lambda _rng, line: line + line,
    "spliced": lambda rng, line: line[: rng.randrange(1, len(line))] + line,
    "nul": lambda rng, line: flip(rng, line).replace(b"e", b"\0", 1),
    "key twice": lambda _rng, line: line[:-1] + b',"name":"again"}',
    "carriage return": lambda _rng, line: line + b"\r",
    "byte order mark": lambda _rng, line: b"\xef\xbb\xbf" + line,
    "deep": nest,
    "line break inside": lambda rng, line: b"\n".join((line[: (at := rng.randrange(1, len(line)))], line[at:])),
    "blank": lambda rng, line: b"\n" * rng.randrange(1, 3) + b"  \t" + b"\n" + line,
    "number as text": lambda _rng, line: line.replace(b'"identifier": 9', b'"identifier": "9"', 1),
    "text as number": lambda _rng, line: line.replace(b'"text', b"7, 'text", 1),
    "unknown field": lambda rng, line: line[:-1] + b',"new%d":[1,{"a":null}]}' % rng.randrange(3),
    "latin-1": lambda _rng, line: line.replace(b"Page", b"Pag\xe9"),
    "empty object": lambda _rng, _line: b"{}",
    "noise": lambda rng, _line: rng.randbytes(rng.randrange(1, 200)),
}
HARMLESS = {"carriage return", "byte order mark", "blank", "unknown field"}


def campaign(lake, rows, seed: int) -> None:
    rng = random.Random(seed)
    lake = lake.elsewhere(str(seed))
    share = rng.choice([0.002, 0.02, 0.3])
    lines, whole = [], []
    for number in range(120):
        line = json.dumps(lake.record(number, abstract="é" * rng.randrange(300))).encode()
        if rng.random() < share:
            kind = rng.choice(sorted(DAMAGE))
            line = DAMAGE[kind](rng, line)
            if kind in HARMLESS:
                whole.append(number)
        else:
            whole.append(number)
        lines.append(line)
    data = b"\n".join(lines) + rng.choice([b"", b"\n"])
    made = convert(lake.archive(data), lake.layout, workers=rng.choice([1, 2, 3]))
    there = [line for line in data.split(b"\n") if line.strip(b" \t\r")]
    found, rejected = rows(made.path), rows(made.rejects_path)
    assert len(found) + len(rejected) == made.row_count + made.reject_count == len(there)
    assert made.update_count + made.delete_count + made.visibility_change_count == made.row_count
    assert {100 + number for number in whole} <= {row["article_id"] for row in found}
    every = data.split(b"\n")
    for reject in rejected:
        assert every[reject["line_number"] - 1] == reject["raw"]
        assert data[reject["byte_offset"] :].startswith(reject["raw"])
        assert reject["reason"]


def damage_gzip(lake, rows, seed: int) -> None:
    rng = random.Random(seed)
    lake = lake.elsewhere(str(seed))
    good = lake.archive(
        *(lake.lines(*(lake.record(n, abstract=rng.randbytes(200).hex()) for n in range(80))) for _ in "ab")
    )
    data = bytearray(good.path.read_bytes())
    if rng.random() < 0.4:
        del data[rng.randrange(len(data)) :]
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    try:
        made = convert(lake.from_bytes(bytes(data)), lake.layout)
    except ArchiveError:
        assert not [path for path in lake.layout.lake.glob("**/*") if path.is_file()]
    else:  # the time and the operating system in gzip's header are not under its checksum
        assert (made.row_count, made.reject_count) == (160, 0)
        assert [row["article_id"] for row in rows(made.path)] == [100 + n for n in range(80)] * 2


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", range(3))
def test_damaged_lines(lake, rows, seed):
    campaign(lake, rows, seed)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", range(3))
def test_damaged_gzip(lake, rows, seed):
    damage_gzip(lake, rows, seed)


@pytest.mark.soak
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("start", range(1000, 1200, 20))
def test_damage_at_length(lake, rows, start):
    for seed in range(start, start + 20):
        campaign(lake, rows, seed)
        damage_gzip(lake.elsewhere("gzip"), rows, seed)
