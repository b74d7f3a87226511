"""Lists of records, in which each record is validated separately.

Unusable records are skipped and reported, and all other records are read. A file whose record is unusable is never
assumed to be absent. `Listing.left_out` names the projects and namespaces that may be affected.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import Field, TypeAdapter, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from resources.enterprise.errors import UnexpectedAnswer
from resources.enterprise.models import LONGEST_LIST, ArchiveRecord, Batch, Record
from resources.formatting import counted

RecordT = TypeVar("RecordT", bound=Record)

#: Format of the service's identifiers, which contain the project and the namespace.
_IDENTIFIER = re.compile(r"(?P<project>.+)_namespace_(?P<namespace>\d{1,9})(_chunk_\d+)?", re.DOTALL | re.ASCII)
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_SHOWABLE = re.compile(r"[A-Za-z0-9_-]{1,80}")
#: Scope of records that do not identify their project.
UNKNOWN: Final = ((None, None),)
#: Maximum number of records listed in a message.
_SHOWN: Final = 3


@dataclass(frozen=True)
class OddRecord:
    """An unusable record in a list, with its identifier or number, and the reason without a full stop.

    `places` are the (project, namespace) pairs to which the record may belong, or None if they are unknown. `places` is
    empty if another record replaces this one.
    """

    name: str
    problem: str
    places: tuple[tuple[str | None, int | None], ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


@dataclass(frozen=True)
class Listing(Generic[RecordT]):
    """A list from the service: original bytes (`raw`), typed records in order, and unusable records (`odd`)."""

    raw: bytes = field(repr=False)
    records: tuple[RecordT, ...] = field(repr=False)
    url_path: str
    fetched_at: datetime
    request_count: int = 1
    odd: tuple[OddRecord, ...] = ()

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[RecordT]:
        return iter(self.records)

    @property
    def remark(self) -> str | None:
        """Sentence about the unusable records, or None if all records are usable."""
        if not self.odd:
            return None
        more = len(self.odd) - _SHOWN
        shown = "; ".join(map(str, self.odd[:_SHOWN])) + (f"; and {more:,} more" if more > 0 else "")
        what = f"{counted(len(self.odd), 'record')} in the list {self.url_path}".rstrip()
        return f"{what} {'is' if len(self.odd) == 1 else 'are'} not used ({shown})."

    def typed(self, model: Any) -> tuple[Any, ...]:
        """Convert the records, in their original order, to a model such as one from `record_model`.

        Raises UnexpectedAnswer if a record does not match the model.
        """
        form = tuple[model, ...] if self.raw.lstrip()[:1] == b"[" else model
        try:
            found = TypeAdapter(form).validate_json(self.raw)
        except ValidationError as error:
            problem = shape_problem(error)
        else:
            return found if isinstance(found, tuple) else (found,)
        raise UnexpectedAnswer(
            f"The list {self.url_path} contains records that do not match {model.__name__} ({problem}). Nothing was "
            "changed. Use `listing.records`, which contains all records, and read fields by name."
        )

    def left_out(self, scope: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
        """Return the (project, namespace) pairs for which the list has no reliable file, with the reasons.

        A record without a known project may belong to any pair that has no other record.
        """
        if not self.odd:
            return {}
        named = {(one.project_id, one.namespace_id) for one in self.records if isinstance(one, ArchiveRecord)}
        by_place: dict[tuple[str | None, int | None], OddRecord] = {}
        for odd in self.odd:
            for place in odd.places:
                by_place.setdefault(place, odd)
        found = {}
        for project, namespace in scope:
            unsure = [(None, namespace), (project, None), (None, None)] if (project, namespace) not in named else []
            odd_one = next((by_place[one] for one in [(project, namespace), *unsure] if one in by_place), None)
            if odd_one is not None:
                found[project, namespace] = str(odd_one)
        return found


def list_of(kind: type[RecordT]) -> TypeAdapter[tuple[RecordT | OddRecord, ...]]:
    """Build a list type that limits the number of records and validates each record separately."""

    def read(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            return OddRecord(_name_of(value), shape_problem(error), _places_of(value))

    form: Any = Annotated[
        tuple[Annotated[kind, WrapValidator(read)], ...],  # type: ignore[valid-type]
        Field(max_length=LONGEST_LIST, fail_fast=True),
    ]
    return TypeAdapter(form)


def sorted_out(found: Sequence[RecordT | OddRecord]) -> tuple[tuple[RecordT, ...], tuple[OddRecord, ...]]:
    """Separate a list's usable records from the unusable records.

    If an identifier is listed twice, the most recent export is used. Contradictory files are unusable, for example two
    files for the same project, namespace and hour, or a file whose name and record disagree on the project.
    """
    records: list[Any] = [one for one in found if not isinstance(one, OddRecord)]
    odd = [
        replace(one, name=one.name or f"record {number:,}")
        for number, one in enumerate(found, 1)
        if isinstance(one, OddRecord)
    ]
    if not all(isinstance(one, ArchiveRecord) for one in records):
        return tuple(records), tuple(odd)
    files: dict[tuple[str, str, int], Any] = {}
    for record in records:
        known = files.setdefault(_key(record), record)
        if record is known:
            continue
        if (record.date_modified or _LONG_AGO) > (known.date_modified or _LONG_AGO):
            files[_key(record)] = record
        odd.append(OddRecord(record.identifier, "it is listed more than once; the newest export is used", ()))
    refused = _contradictions(files.values())
    odd += [
        OddRecord(one.identifier, refused[key], _places_of_file(one)) for key, one in files.items() if key in refused
    ]
    return tuple(one for key, one in files.items() if key not in refused), tuple(odd)


def _key(record: ArchiveRecord) -> tuple[str, str, int]:
    return record.identifier, record.project_id, record.namespace_id


def _contradictions(files: Iterable[ArchiveRecord]) -> dict[tuple[str, str, int], str]:
    """Return the files whose records contradict each other, with the reasons."""
    found: dict[tuple[str, str, int], str] = {}
    alike: dict[Any, list[ArchiveRecord]] = defaultdict(list)
    for file in files:
        alike[file.identifier].append(file)
        if isinstance(file, Batch):
            alike[file.project_id, file.namespace_id].append(file)
        if len(_places_of_file(file)) > 1:
            found[_key(file)] = f"its record specifies project {file.project_id} and namespace {file.namespace_id}"
    for same in alike.values():
        if len(same) > 1:
            what = "project and namespace" if len({one.identifier for one in same}) > 1 else "identifier"
            found |= {_key(one): f"{len(same)} files have the same {what}" for one in same}
    return found


def shape_problem(error: ValidationError) -> str:
    """Describe a record's validation errors. Values are omitted, because they may be secrets."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the body"
    more = error.error_count() - 1
    return f"{place}: {first['msg']}" + (f", and {more} more" if more else "")


def _places_of(value: Any) -> tuple[tuple[str | None, int | None], ...]:
    """Return the projects and namespaces to which a record may belong, as far as the record identifies them."""
    if not isinstance(value, dict):
        return UNKNOWN
    identifier = value.get("identifier")
    named = _places_of_identifier(identifier) if isinstance(identifier, str) else ()
    project, namespace = _inside(value, "is_part_of"), _inside(value, "namespace")
    stated = (
        project if isinstance(project, str) else None,
        namespace if isinstance(namespace, int) and not isinstance(namespace, bool) else None,
    )
    if named and None in stated:
        stated = (stated[0] or named[0][0], named[0][1] if stated[1] is None else stated[1])
    return tuple(dict.fromkeys((stated, *named)))


def _inside(value: dict[str, Any], name: str) -> Any:
    found = value.get(name)
    return found.get("identifier") if isinstance(found, dict) else None


def _places_of_identifier(identifier: str) -> tuple[tuple[str, int], ...]:
    """Return an identifier's (project, namespace) pair, or nothing if the format is unknown."""
    found = _IDENTIFIER.fullmatch(identifier)
    return () if found is None else ((found["project"], int(found["namespace"])),)


def _places_of_file(file: ArchiveRecord) -> tuple[tuple[str, int], ...]:
    return tuple(dict.fromkeys(((file.project_id, file.namespace_id), *_places_of_identifier(file.identifier))))


def _name_of(value: Any) -> str:
    """Return a record's identifier for display, unless it looks like a token or a URL."""
    identifier = value.get("identifier") if isinstance(value, dict) else None
    return identifier if isinstance(identifier, str) and _SHOWABLE.fullmatch(identifier) else ""
