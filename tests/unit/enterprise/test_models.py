"""Recorded lists of the real service parse into the models, with no field lost."""

import datetime as dt
import gzip
import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from resources.enterprise import models
from resources.enterprise.listing import OddRecord, list_of

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "data" / "real" / "enterprise"
recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded lists (../shared/data/real) are not here")

#: The model of a file by what its name has in it, and otherwise that of entries.
MODELS = {"batch": models.Batch, "snapshot": models.Snapshot, "chunk": models.Chunk}
FILES = sorted([*RECORDED.glob("metadata/*"), *RECORDED.glob("readme-samples/*")])
LISTS = [path for path in FILES if path.name not in {"error.json", "ondemand-03.json"}]


def same(wire, dumped):
    """Every value of the record is in the model; dates at the microsecond."""
    if isinstance(wire, dict):
        return all(key in dumped and same(value, dumped[key]) for key, value in wire.items())
    if isinstance(wire, list):
        return len(wire) == len(dumped) and all(map(same, wire, dumped))
    if isinstance(dumped, dt.datetime):
        head, _, fraction = wire.removesuffix("Z").partition(".")
        return dumped == dt.datetime.fromisoformat(f"{head}.{fraction[:6]:0<6}+00:00")
    return wire == dumped


@recorded
@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_recorded_lists_parse_with_no_field_lost(path):
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if path.suffix == ".ndjson":
        raw = b"[" + b",".join(raw.splitlines()) + b"]"
    elif not raw.lstrip().startswith(b"["):
        raw = b"[" + raw + b"]"
    model = next((model for part, model in MODELS.items() if part in path.name), models.Entry)
    records = list_of(model).validate_json(raw)
    wire = json.loads(raw)
    assert len(records) == len(wire) > 0
    for told, record in zip(wire, records, strict=True):
        if isinstance(record, OddRecord):  # one of them has a version of 33 digits, which is no MD5
            assert len(told["version"]) == 33
            assert record.problem.startswith("version: ")
        else:
            assert same(told, record.model_dump())


@recorded
def test_recorded_sizes_add_up():
    records = TypeAdapter(tuple[models.Batch, ...]).validate_json((RECORDED / "metadata" / "batches.json").read_bytes())
    assert sum(r.approximate_bytes for r in records) == pytest.approx(4_478e6, rel=0.001)


def batch(**changes):
    record = {
        "identifier": "enwiki_namespace_0",
        "version": "0" * 32,
        "date_modified": "2026-11-01T06:04:11.123456789Z",
        "is_part_of": {"identifier": "enwiki"},
        "namespace": {"identifier": 0},
    }
    return models.Batch.model_validate_json(json.dumps(record | changes))


def test_exponents_nanoseconds_and_units_are_read():
    record = models.Batch.model_validate_json(
        b'{"identifier":"a_namespace_0","version":"00000000000000000000000000000000",'
        b'"date_modified":"2026-11-01T06:04:11.123456789Z",'
        b'"is_part_of":{"identifier":"a"},"namespace":{"identifier":0},"size":{"value":126211.488e0,"unit_text":"MB"}}'
    )
    assert record.date_modified == dt.datetime(2026, 11, 1, 6, 4, 11, 123456, dt.UTC)
    assert record.approximate_bytes == 126_211_488_000
    for unit, size in (("B", 5), ("kB", 5000), ("GB", 5 * 10**9), ("?", 0)):
        assert batch(size={"value": 5, "unit_text": unit}).approximate_bytes == size
    assert batch().approximate_bytes == 0


def test_unknown_fields_are_kept_and_records_do_not_change():
    record = batch(name="Wikipedia", checksum={"sha": "1"})
    assert record.model_extra == {"name": "Wikipedia", "checksum": {"sha": "1"}}
    with pytest.raises(ValueError, match="frozen"):
        record.version = "other"
