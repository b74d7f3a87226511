"""Verify lake files, rebuild the lake and the warehouse from the archive, and handle rejected records.

A rebuild skips files that are already converted and loaded. Repeating the call therefore resumes a killed rebuild, and
leaves a complete mirror unchanged. The service is not contacted.
"""

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from assets.published import fill_coverage
from assets.steps.rebuilding import Only, Part, Rebuilt, kept_versions, load_archived
from resources import machine, storage
from resources.adapters import build_resources
from resources.data_folder import facts_of
from resources.datasets import named
from resources.datasets.paths import ARCHIVE, DIGITS, with_bodies
from resources.engine import Engine
from resources.engine.mapping import Reporter
from resources.errors import clause
from resources.formatting import counted, hour_text, listed
from resources.lake import Archive, Layout, digest_of
from resources.lake.rejects import whole_line
from resources.settings import Settings
from resources.warehouse import QueryResult, Warehouse

_FILES = """
SELECT lake_path FROM loads WHERE compaction_id IS NULL
UNION SELECT lake_path FROM compacted_files
ORDER BY 1"""


def verify(warehouse: Warehouse, reporter: Reporter) -> str:
    """Verify the lake files in the published file's ledger, record damaged files, and return a summary sentence.

    Damaged files are then treated as missing. The publication reports missing files.
    """
    lake, engine = warehouse.data / "lake", Engine(workers=machine.cores(), reporter=reporter)
    halves = dict.fromkeys(half for (name,) in warehouse.sql(_FILES).rows for half in (name, with_bodies(name)))
    sizes = {path: (lake / path).stat().st_size for path in halves if (lake / path).is_file()}

    def read(path: str) -> str | None:
        try:
            storage.verify(lake / path)
        except storage.UNREADABLE as error:
            return clause(error) if storage.is_damage(error) else None
        finally:
            advance(sizes[path])
        return None

    found = []
    with engine.task("verify the lake", sum(sizes.values()), "B") as advance:
        for path, outcome in zip(sizes, engine.map(read, sizes), strict=True):
            if (why := outcome.unwrap()) is not None:
                warehouse.note_damage(path, why)
                found.append(f"{path} ({why})")
    wrong = f"Damaged files: {', '.join(found)}." if found else "No files are damaged."
    return f"Verified {counted(len(sizes), 'lake file')}. {wrong}"


def rebuild(settings: Settings, only: Only | None = None, **overrides: Any) -> Rebuilt:
    """Convert and load all archived data that is not yet loaded, then publish. One failure does not stop other loads.

    Archived projects that are no longer in the settings are loaded as well. `only` limits the rebuild to hours and
    snapshots, with their projects and namespaces. `overrides` contains resources that replace the configured resources.
    Raises MirrorError if all other loads would fail as well, for example because the disk is full.
    """
    resources = build_resources(settings) | overrides
    enterprise, store = resources["enterprise"], resources["warehouse"].warehouse
    if only is None:
        store.create()
    done = load_archived(resources["lake"], resources["warehouse"], resources["engine"], enterprise, only)
    fill_coverage(enterprise, store)
    if only is None:
        store.note_complete()
    store.publish(facts_of(settings.data))
    return done


#: Cuts the parts of a reason that differ from line to line (a value, a position), for counts by reason.
_KIND = """\
regexp_replace(regexp_replace(reason, '(?s)the (text|number|truth value) .*, where', 'the \\1 …, where'),
    '(at (?:byte|character)) \\d+', '\\1 …')"""
_PLACE = "archive || ' ' || member || ' line ' || line_number"
_ORDER = "source_at, archive, member, line_number"
_NEWEST_FIRST = "source_at DESC, archive, member, line_number"
#: Archives with rejected records, and their ledger rows. Chunks of a snapshot differ only by file name. Lookups are
#: converted again by their next run.
_REJECTED = f"""\
SELECT table_name, source_at, project_id, namespace_id, archive, line_count, identifier, version, digest, snapshot_id,
  snapshot_version, exported_at
FROM (SELECT table_name, source_at, project_id, namespace_id, archive, count(*) AS line_count
  FROM rejects WHERE table_name <> 'lookups' AND {{where}} GROUP BY ALL) AS rejected
JOIN loads USING (table_name, source_at, project_id, namespace_id)
LEFT JOIN (SELECT table_name, source_at, project_id, namespace_id, snapshot_id, snapshot_version, exported_at
  FROM snapshots) AS snapshots USING (table_name, source_at, project_id, namespace_id)
WHERE snapshot_id IS NULL OR ends_with(archive, concat('/', identifier, '.', version[1:{DIGITS}], '.{ARCHIVE}'))
ORDER BY snapshot_id IS NOT NULL, source_at, archive"""  # noqa: S608  constant texts
#: Maximum number of names in a sentence.
_SHOWN = 5


@dataclass(frozen=True)
class Selection:
    """Filter for rejected records by hour, project and part of the reason. None matches every record."""

    hour: datetime | None = None
    project: str | None = None
    reason: str | None = None

    def where(self) -> tuple[str, list[Any]]:
        """Return an SQL condition on the `rejects` table, and the condition's parameters."""
        conditions = ("batch_hour = ?", "project_id = ?", "contains(lower(reason), lower(?))")
        values: tuple[Any, ...] = (self.hour, self.project, self.reason)
        chosen = {text: value for text, value in zip(conditions, values, strict=True) if value is not None}
        return " AND ".join(chosen) or "true", list(chosen.values())


def by_reason(warehouse: Warehouse, selection: Selection) -> QueryResult:
    """Count records by reason, with the most frequent reason first.

    Each row also contains the hour, the location and the beginning of the first record with that reason.
    """
    where, parameters = selection.where()
    return warehouse.sql(
        f"SELECT count(*) AS lines, {_KIND} AS reason, min(batch_hour) AS first_hour, "  # noqa: S608  constant texts
        f"arg_min({_PLACE}, ({_ORDER})) AS first_place, arg_min(raw[1:80], ({_ORDER})) AS begins "
        f"FROM rejects WHERE {where} GROUP BY ALL ORDER BY lines DESC, reason",
        parameters,
    )


def places(warehouse: Warehouse, selection: Selection, limit: int) -> QueryResult:
    """List the locations and reasons of rejected records, newest hour first."""
    where, parameters = selection.where()
    return warehouse.sql(
        "SELECT batch_hour, archive, member, line_number, byte_offset, reason, raw_bytes AS bytes "  # noqa: S608
        f"FROM rejects WHERE {where} ORDER BY {_NEWEST_FIRST} LIMIT {limit:d}",
        parameters,
    )


def lines(
    warehouse: Warehouse, selection: Selection, *, limit: int | None = None, raw: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield records as rows of the `rejects` table, newest hour first. The rows are read in batches.

    Without `raw`, a row contains the record's size as `bytes` but no content. In rows with a `raw_path`, `raw` is only
    a prefix of the record. Raises NotPublishedError if nothing has been published yet.
    """
    where, parameters = selection.where()
    with warehouse.connect_published() as connection:
        found = connection.sql(
            f"SELECT * EXCLUDE (raw, raw_bytes), raw_bytes AS bytes{', raw' if raw else ''} "  # noqa: S608
            f"FROM rejects WHERE {where} ORDER BY {_NEWEST_FIRST}{'' if limit is None else f' LIMIT {limit:d}'}",
            params=parameters,
        )
        for batch in found.to_arrow_reader(256):
            yield from batch.to_pylist()


def as_json(line: dict[str, Any], layout: Layout) -> Iterator[str]:
    """Yield a row of `lines` as parts of a JSON object, with the complete record in base64 as `raw_base64`."""
    plain = {name: value for name, value in line.items() if name != "raw"}
    text, raw = json.dumps(plain, ensure_ascii=False, default=datetime.isoformat), line.get("raw")
    if raw is None:
        yield text
        return
    yield f'{text[:-1]}, "raw_base64": "'
    held = b""
    for block in (raw,) if line["raw_path"] is None else whole_line(layout, line["raw_path"], line["raw_offset"]):
        data = held + block
        whole = len(data) - len(data) % 3  # a multiple of three bytes needs no padding in base64
        held = data[whole:]
        yield base64.b64encode(data[:whole]).decode()
    yield f'{base64.b64encode(held).decode()}"}}'


@dataclass
class Retry:
    """Hours and snapshots to convert again (`parts`), with their projects and namespaces.

    `archives` counts the rejected records by archive of these parts, `unavailable` those by archive that cannot be
    converted because a file is not on disk, and `current_count` those that the current converter would reject again.
    """

    parts: dict[Part, set[tuple[str, int]]] = field(default_factory=lambda: defaultdict(set))
    archives: Counter[str] = field(default_factory=Counter)
    unavailable: Counter[str] = field(default_factory=Counter)
    current_count: int = 0

    def sentences(self) -> list[str]:
        if not (self.archives or self.current_count or self.unavailable):
            return ["There are no rejected records to convert again."]
        found = []
        if self.current_count:
            found.append(
                f"{counted(self.current_count, 'rejected record')} {'was' if self.current_count == 1 else 'were'} read "
                "by the current converter, which would reject the same records again."
            )
        count = self.archives.total()
        if not count:
            return [*found, "There is nothing to convert again."]
        found.append(
            f"{counted(count, 'rejected record')} in {counted(len(self.archives), 'archive')} "
            f"{'was' if count == 1 else 'were'} read by a different converter or with different settings."
        )
        hours = sorted({hour_text(part) for _, part in self.parts if isinstance(part, datetime)})
        others = sorted({part for _, part in self.parts if isinstance(part, str)})
        for what, names, ends in (("Hours", hours, " (UTC)"), ("Snapshots", others, "")):
            if names:
                found.append(f"{what} to convert again: {listed(names, _SHOWN)}{ends}.")
        return found

    def obstacles(self) -> list[str]:
        names = listed([*self.unavailable], _SHOWN)
        sentence = (
            f"{counted(self.unavailable.total(), 'rejected record')} in {names} cannot be "
            "converted again, because the archive or another file of its snapshot is not on disk. The records remain "
            "in `rejects`, and loaded rows are unchanged. Restore the file from a backup, then run the command again."
        )
        return [sentence] if self.unavailable else []


def plan_retry(settings: Settings, selection: Selection) -> Retry:
    """Find archives with rejected records, and group them by whether a retry can help. Nothing is changed."""
    lake = build_resources(settings)["lake"]
    layout: Layout = lake.layout
    where, parameters = selection.where()
    found = Retry()
    for row in Warehouse(settings.data).sql(_REJECTED.format(where=where), parameters).rows:
        name, source_at, project, namespace, path, line_count, identifier, version, digest, snapshot, of, at = row
        dataset = named(name)
        archive = Archive(
            layout.archive / path if snapshot else layout.batch_archive(dataset, source_at, identifier, version),
            *(identifier, version, source_at if snapshot is None else None, project, namespace),
            snapshot_id=snapshot or "",
            snapshot_version=of or "",
            exported_at=at,
            dataset=dataset,
        )
        is_available = archive.path.exists() and (
            snapshot is None or any(one.version == of for one in kept_versions(layout, dataset, snapshot))
        )
        if digest_of(archive, lake.bodies_of(dataset), lake.record_bytes_max) == digest:
            found.current_count += line_count
        elif is_available:
            found.parts[dataset, snapshot or source_at].add((project, namespace))
            found.archives[path] += line_count
        else:
            found.unavailable[path] += line_count
    return found


def count(warehouse: Warehouse, parts: Iterable[Part]) -> int:
    """Count all rejected records in the given hours and snapshots."""
    chosen: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for dataset, part in parts:
        # count by the archive's folder, because a snapshot that gains rows can get another source_at
        column = "batch_hour" if isinstance(part, datetime) else "split_part(archive, '/', 2)"
        chosen[dataset.name, column].append(part)
    return sum(
        warehouse.sql(
            f"SELECT count(*) FROM rejects WHERE table_name = ? AND list_contains(?, {column})",  # noqa: S608  constant texts
            [name, values],
        ).rows[0][0]
        for (name, column), values in chosen.items()
    )
