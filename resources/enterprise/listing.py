"""Lists of records, in which each record is validated separately.

Unusable records are skipped and reported, and all other records are read. A file whose record is unusable is never
assumed to be absent. `Listing.left_out` names the projects and namespaces that may be affected.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import Field, TypeAdapter, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from resources.enterprise.errors import UnexpectedAnswer
from resources.enterprise.models import IDENTIFIER, LONGEST_LIST, ArchiveRecord, Batch, Record
from resources.formatting import counted

RecordT = TypeVar("RecordT", bound=Record)

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_SHOWABLE = re.compile(r"[A-Za-z0-9_-]{1,80}")
#: Maximum number of records listed in a message.
_SHOWN: Final = 3


@dataclass(frozen=True)
class OddRecord:
    """An unusable record in a list, with its identifier or number, and the reason without a full stop.

    `projects` and `namespaces` are the values in the record, which may contradict each other. If there are none, the
    record may belong to any project or namespace.
    """

    name: str
    problem: str
    projects: frozenset[str] = frozenset()
    namespaces: frozenset[int] = frozenset()

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


@dataclass(frozen=True)
class Listing(Generic[RecordT]):
    """A list from the service: original bytes (`raw`), typed records in order, and unusable records (`odd`)."""

    raw: bytes = field(repr=False)
    records: tuple[RecordT, ...] = field(repr=False)
    url_path: str
    fetched_at: datetime
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
        named = {(one.project_id, one.namespace_id) for one in self.records if isinstance(one, ArchiveRecord)}
        found = {}
        for project, namespace in scope:
            for odd in self.odd:
                has_project, has_namespace = project in odd.projects, namespace in odd.namespaces
                is_possible = (has_project or not odd.projects) and (has_namespace or not odd.namespaces)
                if (has_project and has_namespace) or (is_possible and (project, namespace) not in named):
                    found[project, namespace] = str(odd)
                    break
        return found


@cache
def list_of(kind: type[Record]) -> TypeAdapter[Any]:
    """Build a list type that limits the number of records and validates each record separately."""

    def read(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            return _odd_record(value, shape_problem(error))

    form: Any = Annotated[
        tuple[Annotated[kind, WrapValidator(read)], ...],  # type: ignore[valid-type]
        Field(max_length=LONGEST_LIST, fail_fast=True),
    ]
    return TypeAdapter(form)


def sorted_out(found: Sequence[RecordT | OddRecord]) -> tuple[tuple[RecordT, ...], tuple[OddRecord, ...]]:
    """Separate a list's usable records from the unusable records.

    If an identifier is listed twice, the most recent export is used. An hour has only one file for each project and
    namespace, so a second identifier for them is unusable.
    """
    odd: list[OddRecord] = []
    files: dict[Any, Any] = {}
    names: dict[tuple[str, int], str] = {}
    for number, one in enumerate(found, 1):
        if isinstance(one, OddRecord):
            odd.append(replace(one, name=one.name or f"record {number:,}"))
        elif isinstance(one, ArchiveRecord):
            place = one.project_id, one.namespace_id
            if isinstance(one, Batch) and names.setdefault(place, one.identifier) != one.identifier:
                name = one.identifier if _SHOWABLE.fullmatch(one.identifier) else f"record {number:,}"
                problem = "the list has another file for the same project and namespace"
                odd.append(OddRecord(name, problem, frozenset({one.project_id}), frozenset({one.namespace_id})))
                continue
            known = files.setdefault(one.identifier, one)
            if (one.date_modified or _LONG_AGO) > (known.date_modified or _LONG_AGO):
                files[one.identifier] = one
        else:
            files[number] = one
    return tuple(files.values()), tuple(odd)


def shape_problem(error: ValidationError) -> str:
    """Describe a record's validation errors. Values are omitted, because they may be secrets."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the body"
    more = error.error_count() - 1
    return f"{place}: {first['msg']}" + (f", and {more} more" if more else "")


def _odd_record(value: Any, problem: str) -> OddRecord:
    """Build an unusable record from the fields that can be read. Names that look like tokens or URLs are omitted."""
    fields: dict[str, Any] = value if isinstance(value, dict) else {}
    identifier = fields.get("identifier")
    identifier = identifier if isinstance(identifier, str) else ""
    project, namespace = (
        place.get("identifier") if isinstance(place, dict) else None
        for place in (fields.get("is_part_of"), fields.get("namespace"))
    )
    projects = {project} if isinstance(project, str) else set()
    namespaces = {namespace} if type(namespace) is int else set()
    if (found := IDENTIFIER.fullmatch(identifier)) is not None:
        projects.add(found["project"])
        namespaces.add(int(found["namespace"]))
    name = identifier if _SHOWABLE.fullmatch(identifier) else ""
    return OddRecord(name, problem, frozenset(projects), frozenset(namespaces))
