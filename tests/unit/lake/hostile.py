"""Hostile archives, each made from its seed, with what is known of how it must end."""

import json
import random
import zlib
from collections import Counter
from dataclasses import dataclass, field

from tests.unit.lake.conftest import page_record
from tests.unit.lake.test_bad_lines import BAD_LINES
from tests.unit.lake.test_hostile_tars import END, header, member, pax
from tests.unit.lake.test_tiny_lines import LONG
from tests.unit.lake.test_tiny_lines import spoilt as short

BOM = b"\xef\xbb\xbf"
BLOCK = 512
#: One archive in so many has megabytes, in a form that costs time or memory.
HEAVY_EVERY = 100


@dataclass
class Hostile:
    """An archive, what was done to it, and how it must end.

    `fails`: True (an ArchiveError), False (rows and rejects), or None where either is right. `lines` are those that are
    not blank, in all members with records; `good` are the article ids of records that must become rows. `size` is the
    number of bytes in those members, `longest` that of the longest line.
    """

    data: bytes = b""
    fails: bool | None = False
    lines: int = 0
    good: Counter[int] = field(default_factory=Counter)
    size: int = 0
    longest: int = 0
    done: list[str] = field(default_factory=list)


def spoilt(rng: random.Random, hostile: Hostile, damage: tuple, data: bytes) -> bytes:
    """The data with a damage, which is noted. Where it may be that nothing fails, all the lines are there."""
    what, fails, make = damage
    hostile.done.append(what)
    if fails is not False:
        hostile.fails = True if fails or hostile.fails else None
    return make(rng, data)


def record(number: int, rng: random.Random) -> dict:
    """A record of the service's form."""
    body = {"html": "<p>é</p>" * rng.choice([0, 1, 30]), "wikitext": "text"}
    return page_record(number, identifier=number, article_body=body)


NUMBERS = ["1e400", "-0", "1e-400", "1" * 5000, "12345678901234567890.5", "1e999999999", "0." + "7" * 900, "7"]


def with_field(line: bytes, text: str) -> bytes:
    """The record with one more field, given as text."""
    return line[:-1] + b',"new":' + text.encode("utf-8", "surrogatepass") + b"}"


def nested(depth: int, kind: str) -> str:
    """Objects or lists inside one another."""
    return '{"a":' * depth + "1" + "}" * depth if kind == "{" else "[" * depth + "]" * depth


#: Lines that are rows, by what is odd about them; each is made of a good one.
ODD = {
    "carriage return": lambda _rng, line: line + b"\r",
    "blank around": lambda _rng, line: b" \t" + line + b"\t ",
    "byte order mark": lambda _rng, line: BOM + line,
    "number": lambda rng, line: with_field(line, rng.choice(NUMBERS)),
    "depth": lambda rng, line: with_field(line, nested(rng.choice([1, 60, 63, 64, 65, 400]), rng.choice("{["))),
    "no zone": lambda _rng, line: line.replace(b"05:10:11Z", b"05:10:11"),
    "nul": lambda _rng, line: with_field(line, '"\\u0000"'),
    "many fields": lambda rng, line: with_field(
        line, "1" + "".join(f',"k{n}":{n}' for n in range(rng.randrange(2000)))
    ),
    "odd key": lambda rng, line: with_field(line, "1," + json.dumps(chr(rng.choice([0, 34, 128, 0x1F43F])) * 3) + ":1"),
    "long": lambda rng, line: with_field(line, json.dumps("x" * rng.randrange(200_000))),
}
#: Lines that cannot be rows, beside those of `test_bad_lines` and `test_tiny_lines`.
BAD = {
    "cut": lambda rng, line: line[: rng.randrange(1, len(line))],
    "two": lambda rng, line: line + rng.choice([b"", b" \t"]) + line,
    "deep": lambda rng, line: with_field(line, nested(rng.choice([501, 3000, 60_000]), rng.choice("{["))),
    "no number": lambda rng, line: with_field(line, rng.choice(["-Infinity", "01", "+1", "1.", ".5", "0x1", "--1"])),
    "double too large": lambda _rng, line: line[:-1] + b',"image":{"thumbnail":{"width":1e400}}}',
    "list": lambda _rng, line: b"[" + line + b"]",
    "noise": lambda rng, _line: rng.randbytes(rng.randrange(1, 300)).replace(b"\n", b"") or b"x",
    "brackets": lambda rng, _line: (
        rng.choice([b"[", b"{", b'{"a":', b"]", b'"', b"\\"]) * rng.choice([1, 2000, 50_000])
    ),
    **{name: lambda rng, _line, make=make: make(rng.randrange(10**6)) for name, make in LONG.items()},
    **{f"{name} alone": lambda _rng, _line, bad=bad: bad for name, (bad, _) in BAD_LINES.items()},
}
BLANK = [b"", b" ", b"\t", b"\r", b" \t \r"]


def member_data(rng: random.Random, hostile: Hostile, first: int) -> bytes:
    """The bytes of a member with records."""
    style = rng.choice(["good", "mixed", "mixed", "mixed", "bad", "short", "blank", "empty"])
    count = {"empty": 0, "short": rng.choice([50, 2000])}.get(style, rng.choice([1, 3, 20, 120]))
    chance = {"good": 1.0, "mixed": 0.5, "bad": 0.0, "blank": 0.1}.get(style, 1.0)
    lines: list[bytes] = []
    for number in range(first, first + count):
        line = short(number) if style == "short" else json.dumps(record(number, rng)).encode()
        if rng.random() < chance:
            hostile.good[number] += 1
        elif rng.random() < 0.3:
            name = rng.choice(sorted(ODD))
            line = ODD[name](rng, line)
            hostile.good[number] += 1
        elif style == "blank" or rng.random() < 0.2:
            line = rng.choice(BLANK)
        else:
            line = BAD[rng.choice(sorted(BAD))](rng, line)
        lines.append(line)
    ending = rng.choice([b"\n", b"\n", b"\r\n", b"\n\n"])
    data = ending.join(lines) + rng.choice([ending, b""])
    if rng.random() < 0.1:
        data = BOM + data
    return data


def heavy_data(rng: random.Random, hostile: Hostile) -> bytes:
    """Megabytes in one of the forms that once cost minutes or gigabytes."""
    line = json.dumps(record(1, rng)).encode()
    size = rng.choice([4, 12, 20, 40]) << 20
    kind = rng.choice(sorted(HEAVY))
    hostile.done.append(f"{size >> 20} MB of {kind}")
    before, filling, behind, good = HEAVY[kind]
    filling = rng.choice(filling)
    data = line[:-1] + before + filling * (size // len(filling)) + behind + b"}\n" + line
    hostile.good[1] += 1 + good
    return data


def many_lines(rng: random.Random, hostile: Hostile) -> bytes:
    """Short lines by the million, and lines of very many fields."""
    line = json.dumps(record(1, rng)).encode()
    fields = [b',"key%d":1,"other%d":{"a":1}' % (n, n) for n in range(20_000)]
    lines, good = rng.choice(
        [
            ([short(1)] * 50_000, True),
            ([b""] * (20 << 20), False),
            ([rng.choice([b"x", b"{}", b'{"a":1}', b"[1]\r"])] * 200_000, False),
            ([line[:-1] + one + b"}" for one in fields], True),
            ([line[:-1] + b"".join(fields) + b"}"] * 10, True),
        ]
    )
    hostile.done.append(f"{len(lines)} lines like {lines[0][:20]!r}")
    hostile.good[1] += good * len(lines)
    return b"\n".join(lines)


#: What fills a record up: what stands before it, one of several, what stands behind it, and whether it is still one.
HEAVY = {
    "empty values": (b',"new":[', [b"[],", b"{},", b"1.5e5,"], b"0]", False),
    "empty values within": (b',"new":[{"a":[', [b"[],", b"{},", b"1.5e5,"], b"0]}]", False),
    "texts in a list": (b',"new":[', [b'"' + b"x" * 900 + b'",'], b"0]", True),
    "a known list": (b',"categories":[', [b"{},", b"null,", b'{"name":"x"},'], b"null]", False),
    "long text": (b',"abstract":"', [text.encode() for text in ("x", "é", "\\u00e9", "🐿", "\\n")], b'"', True),
    "long bad text": (b',"abstract":"', [b"\0", b"x\0"], b'"', False),
    "no end": (b',"new":', [b"[", b'{"a":', b'"', b'"k":1,'], b"", False),
}


NAMES = [
    *(b"a.ndjson", b"enwiki_namespace_0_1.ndjson", b"dir/b.ndjson", b"../c.ndjson", b"/d.ndjson", b"A.NDJSON"),
    *("é.ndjson".encode(), b"\xff\xfe.ndjson", b"\x1b[31m.ndjson", b"with blank .ndjson", b".ndjson", b"x\n.ndjson"),
]
OTHER_NAMES = [b"x.json", b"x.ndjson.exe", b"readme", b"", b"\xff", b"a/readme", b"x.ndjson.gz", b"ndjson"]


def one_member(rng: random.Random, hostile: Hostile, name: bytes, data: bytes, *, holds: bool) -> bytes:
    """A member with header and padding, written in one of the ways that tars have."""
    head, kind, size = b"", b"0", len(data)
    way = rng.randrange(12)
    if way == 0:
        kind = rng.choice([b"\0", b"7"])
    elif way == 1:
        name = b"n" * rng.choice([90, 150, 5000]) + name
        head = member("././@LongLink", name + b"\0", b"L")
    elif way == 2:
        name = b"p" * rng.choice([90, 150, 5000]) + name
        head = member("pax", pax(path=name), b"x")
    elif way == 3:
        head = member("pax", pax(size=str(size), mtime="1.5"), b"x")
        size = rng.choice([0, size, 7])
    elif way == 4:
        head = member("pax", pax(**{f"k{n}": "v" for n in range(rng.choice([1, 100, 3000]))}), b"x")
    elif way == 5:
        head = member("pax", pax(comment=b"\xff\xfe") + b"6 \xff=x\n", rng.choice([b"x", b"g"]))
    if way < 6:
        hostile.done.append(f"member in way {way}")
    if holds:
        lines = data.removeprefix(BOM).split(b"\n")
        hostile.lines += sum(1 for line in lines if line.strip(b" \t\r"))
        hostile.size += len(data)
        hostile.longest = max([hostile.longest, *map(len, lines)])
    return head + header(name, size, kind) + data + bytes(-len(data) % BLOCK)


def lie(rng: random.Random, hostile: Hostile) -> bytes:
    """A member that cannot be read; `test_hostile_tars` has the kinds of these."""
    data = json.dumps(record(0, rng)).encode() + b"\n"
    good = member("lie.ndjson", data)
    lies = [
        ("size 2^70", member("lie.ndjson", data, size_field=b"\x80" + (1 << 70).to_bytes(11, "big"))),
        ("pax: size abc", member("pax", pax(size="abc"), b"x") + good),
        ("checksum", flipped(good, 0, 7)),
    ]
    what, lie = rng.choice(lies)
    return spoilt(rng, hostile, (what, True, lambda *_: lie), data)


def tar(rng: random.Random, hostile: Hostile, first: int) -> bytes:
    """Members, and an end."""
    parts: list[bytes] = []
    count = rng.choice([1, 1, 2, 3, 10, 40])
    if rng.random() < 0.01:
        count = rng.choice([500, 2000])
    for number in range(count):
        chance = rng.random()
        if count >= 500:
            line = short(first + number) + b"\n"
            hostile.good[first + number] += 1
            parts.append(one_member(rng, hostile, b"%d.ndjson" % number, line, holds=True))
        elif chance < 0.75 or not number:
            data = member_data(rng, hostile, first + 10_000 * number)
            parts.append(one_member(rng, hostile, rng.choice(NAMES), data, holds=True))
        elif chance < 0.9:
            data = rng.randbytes(rng.choice([0, 1, 511, 512, 5000]))
            parts.append(one_member(rng, hostile, rng.choice(OTHER_NAMES), data, holds=False))
        else:
            kind = rng.choice([b"1", b"2", b"3", b"4", b"5", b"6"])
            parts.append(header(rng.choice(NAMES), 0, kind))
    if rng.random() < 0.2:
        parts.insert(rng.randrange(len(parts) + 1), lie(rng, hostile))
    return b"".join(parts)


#: Ends of a tar: what is wrong, whether that fails, and the tar.
ENDS = [
    ("one block of zeros", False, lambda _rng, members: members + bytes(BLOCK)),
    ("no end", True, lambda _rng, members: members),
    ("junk behind the end", True, lambda rng, members: members + END + b"junk" * rng.choice([1, 128, 1000])),
    ("zeros", False, lambda rng, members: members + END + bytes(rng.choice([1, 511, 10_240, 30 << 20]))),
    ("cut", None, lambda rng, members: (members + END)[: rng.randrange(len(members) + 1)]),
    *[("blocks of zeros", False, lambda rng, members: members + END + bytes(rng.choice([0, 8 * BLOCK])))] * 8,
]


def ended(rng: random.Random, hostile: Hostile, members: bytes) -> bytes:
    """The tar with one of the ends that were seen."""
    if rng.randrange(14) == 0:
        hostile.done.append("a second tar behind the end")
        return members + rng.choice([END, bytes(BLOCK)]) + tar(rng, hostile, 500_000_000) + END
    return spoilt(rng, hostile, rng.choice(ENDS), members)


def gzipped(data: bytes, level: int = 1) -> bytes:
    """One gzip member."""
    zipper = zlib.compressobj(level, wbits=31)
    return zipper.compress(data) + zipper.flush()


def flipped(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


#: Damages of a gzip file.
DAMAGES = [
    ("gzip cut", True, lambda rng, whole: whole[: rng.randrange(1, len(whole))]),
    ("bad CRC", True, lambda rng, whole: flipped(whole, len(whole) - rng.randrange(5, 9), rng.randrange(8))),
    ("flipped bit", None, lambda rng, whole: flipped(whole, rng.randrange(len(whole)), rng.randrange(8))),
    (
        "no gzip",
        True,
        lambda rng, _whole: rng.choice([b"", b"\0", rng.randbytes(1000), b"\x1f\x8b", b"<html>502</html>"]),
    ),
    ("junk behind the gzip data", None, lambda rng, whole: whole + rng.choice([bytes(1000), b"junk", b"\x1f\x8b\x08"])),
]


def packed(rng: random.Random, hostile: Hostile, data: bytes) -> bytes:
    """The gzip file, which may be damaged too."""
    way = rng.randrange(16)
    if way == 0:
        hostile.done.append("two gzip members")
        place = rng.randrange(len(data) + 1)
        return gzipped(data[:place]) + gzipped(data[place:])
    # otherwise the first would go on in the second, or its blocks would not begin where blocks do
    if way == 1 and not {"no end", "cut"} & {*hostile.done} and not len(data) % BLOCK:
        hostile.done.append("a second tar.gz")
        return gzipped(data) + gzipped(tar(rng, hostile, 700_000_000) + END)
    return spoilt(rng, hostile, rng.choice(DAMAGES), gzipped(data)) if way < 6 else gzipped(data)


def build(seed: int) -> Hostile:
    """The archive of a seed."""
    rng = random.Random(seed)
    hostile = Hostile()
    if rng.randrange(HEAVY_EVERY) == 0:
        data = rng.choice([heavy_data, many_lines])(rng, hostile)
        hostile.data = gzipped(one_member(rng, hostile, b"heavy.ndjson", data, holds=True) + END)
        return hostile
    members = tar(rng, hostile, 1)
    hostile.data = packed(rng, hostile, ended(rng, hostile, members))
    return hostile
