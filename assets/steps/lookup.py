"""Page lookups for the watch list, and for pages that are uncertain because of a missing hour or a rejected record.

Source: the service's lookup endpoint, /v2/articles/{name}.
"""

import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from pathlib import Path

from pydantic import BaseModel, NonNegativeInt, TypeAdapter, ValidationError

from assets.steps.converting import attempts
from resources import files
from resources.datasets import LOOKUPS
from resources.engine import Engine
from resources.enterprise import EnterpriseClient, Filter, Listing, Query
from resources.enterprise.errors import EnterpriseError, NotFound, UnexpectedAnswer
from resources.enterprise.listing import shape_problem
from resources.enterprise.models import NamespaceReference, ProjectReference, Record
from resources.errors import MirrorError, ends_run
from resources.lake import Archive, Converter, Layout, digest_of, journal
from resources.lake.journal import Asked, Journals
from resources.remote import RemoteWorkers
from resources.tables import Purpose
from resources.warehouse import Warehouse

_log = logging.getLogger(__name__)

#: Name of the account quota that lookups use.
_QUOTA = LOOKUPS.quota or ""


class LookupsBusyError(MirrorError):
    """Another process is looking up pages."""

    retryable = True


class WatchlistError(MirrorError):
    """The watch list is unreadable or contains an invalid line."""

    ends_run = True


class _Spent(BaseModel):
    day: date
    spent: NonNegativeInt


_SPENT = TypeAdapter(_Spent)


class _Page(BaseModel):
    name: str
    is_part_of: ProjectReference
    namespace: NamespaceReference


_PAGE = TypeAdapter(_Page)


class Budget:
    """Lookup budget per UTC day. Lookups are recorded before they are sent, so killed runs cannot exceed the budget."""

    def __init__(self, folder: Path, per_day: int, now: Callable[[], datetime]) -> None:
        self._path, self._per_day, self._now = folder / "state" / "lookups.json", per_day, now
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        return max(0, self._per_day - self._spent())

    def take(self) -> bool:
        """Spend one lookup, or return False if no lookup is left."""
        with self._lock:
            spent = self._spent()
            if spent >= self._per_day:
                return False
            self._write(spent + 1)
        return True

    def _spent(self) -> int:
        try:
            known = files.read_json(self._path, _SPENT)
        except FileNotFoundError:
            return 0
        except files.UnusableFileError as error:
            _log.warning("%s The file is recreated, and lookups resume tomorrow (UTC).", error.what)
            self._write(self._per_day)  # the number of spent lookups is unknown, so the budget counts as spent
            return self._per_day
        return known.spent if known.day == self._now().astimezone(UTC).date() else 0

    def _write(self, spent: int) -> None:
        files.write(self._path, _SPENT.dump_json(_Spent(day=self._now().astimezone(UTC).date(), spent=spent)))


def alone(layout: Layout) -> AbstractContextManager[int]:
    """Hold the data folder's lookup lock, so that no page is looked up twice. Raises LookupsBusyError."""
    path = layout.root / "state" / "lookups.lock"
    busy = LookupsBusyError(
        "Another process is looking up pages in this data folder. Nothing was sent. Wait until the process ends, then "
        "run the command again."
    )
    return files.held(path, wait_seconds=0, busy=busy)


def read_watchlist(path: Path | None) -> list[tuple[str, str]]:
    """Read the (project, title) pairs in a watch list. Raises WatchlistError.

    Each line contains a project, a space and a title. `#` starts a comment.
    """
    if path is None:
        return []
    try:
        lines = files.read(path).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError, files.UnusableFileError) as error:
        told = error.what if isinstance(error, files.UnusableFileError) else error
        raise WatchlistError(
            f"The watch list {path} cannot be read ({told}). Nothing was looked up. Correct WME_WATCHLIST or the file."
        ) from error
    found = []
    for number, line in enumerate(lines, 1):
        project, _, title = line.partition("#")[0].strip().partition(" ")
        if project and not (title.strip() and project.replace("_", "").isalnum() and project == project.lower()):
            raise WatchlistError(
                f"Line {number} of the watch list {path} is invalid: {line[:100]!r}. Nothing was looked up. Each line "
                "must contain a project, a space and a title, for example: enwiki Alan Turing"
            )
        if project:
            found.append((project, title.strip()))
    return list(dict.fromkeys(found))


def plan(
    watched: Sequence[tuple[str, str]],
    scope: Sequence[tuple[str, int]],
    warehouse: Warehouse,
    limit: int,
    now: datetime,
) -> list[Asked]:
    """Return up to `limit` pages to look up: pages that are due on the watch list, then uncertain pages."""
    if limit < 1:
        return []
    projects, namespaces = sorted({one for one, _ in scope}), sorted({one for _, one in scope})
    pages = [Asked(*page, Purpose.WATCH) for page in warehouse.lookups_due(watched, now)]
    # a repair returns the same data as a watch and also updates `articles`
    pages += [Asked(*page, Purpose.REPAIR) for page in warehouse.uncertain_pages(projects, namespaces, limit, now)]
    return list({(page.project_id, page.name): page for page in pages}.values())[:limit]


def units_left(client: EnterpriseClient) -> int | None:
    """Return the account's remaining lookup quota, or None if the service reports no limit. Uses no quota."""
    quota = client.account.quotas().get(_QUOTA)
    return None if quota is None else quota.left


def ask(
    wanted: Sequence[Asked],
    client: EnterpriseClient,
    layout: Layout,
    budget: Budget,
    engine: Engine,
    now: Callable[[], datetime],
) -> tuple[int, int, list[str]]:
    """Look up the pages in parallel, once each. Each page costs one unit of quota. Each response is stored on disk.

    Return the numbers of found and missing pages, and a message for each failure.
    """
    # random microseconds keep timestamps unique even if the clock was set back
    source_at = now().replace(microsecond=1 + secrets.randbelow(999_999))
    journals = Journals(layout, source_at)
    with engine.task("look up", len(wanted), "page") as advance:

        def look_up(asked: Asked) -> bool | None:
            if not budget.take():
                return None
            looked_up_at = now()
            try:
                listing = client.lookups.articles(
                    asked.name, Query(filters=(Filter("is_part_of.identifier", asked.project_id),), limit=1)
                )
                record = _record_of(asked, listing)
            except NotFound:
                record = None
            journals.add(asked, looked_up_at, record)
            advance(1)
            return record is not None

        outcomes = engine.map(look_up, wanted, ends=ends_run)
    failures = dict.fromkeys(str(outcome.error) for outcome in outcomes if isinstance(outcome.error, EnterpriseError))
    for outcome in outcomes:
        if not isinstance(outcome.error, EnterpriseError | None):
            raise outcome.error
    found = [outcome.result for outcome in outcomes]
    return found.count(True), found.count(False), list(failures)


def _record_of(asked: Asked, listing: Listing[Record]) -> bytes:
    """Return the unmodified record in a response. Raises UnexpectedAnswer if the record is not the requested page.

    Titles are compared as the service compares them: exactly, with `_` as a space, and without resolving redirects.
    """
    # the record in an array of one element
    raw, count = listing.raw.strip().removeprefix(b"[").removesuffix(b"]").strip(), len(listing) + len(listing.odd)
    problem = "" if count == 1 else f"it contains {count} records instead of one"
    if not problem:
        try:
            page = _PAGE.validate_json(raw)
        except ValidationError as error:
            problem = shape_problem(error)
        else:
            project, number = page.is_part_of.identifier, page.namespace.identifier
            if project != asked.project_id:
                problem = f"it contains a page of {project}"
            elif page.name.replace("_", " ") != asked.name.replace("_", " "):
                problem = f"it contains the page {page.name[:100]!r}"
            elif not 0 <= number < 10**9 or asked.namespace_id not in {0, number}:
                problem = f"it contains a page of namespace {number}"
    if problem:
        raise UnexpectedAnswer(
            f"The response to the lookup of {asked.name!r} in {asked.project_id} was not used: {problem}. The "
            "lookup cost one unit. Check the configured service addresses. If they are correct, the service's API has "
            "changed."
        )
    return raw


def load(
    layout: Layout, warehouse: Warehouse, converter: Converter | RemoteWorkers, engine: Engine, bodies: frozenset[str]
) -> tuple[int, list[MirrorError]]:
    """Load all pending responses into DuckDB, including responses from killed runs.

    Return the number of rows, and the errors of files that cannot be used. Such files do not affect other files.
    """
    errors: list[MirrorError] = []
    archives: list[Archive] = []
    try:
        journal.pack(layout)
    except files.UnusableFileError as error:
        errors.append(error)
    try:
        for archive in journal.archives(layout):
            archives.append(archive)  # noqa: PERF402  the archives before an error are kept
    except files.UnusableFileError as error:
        errors.append(error)
    known, longest = warehouse.lookup_digests(), converter.record_bytes_max
    pending = [one for one in archives if (one.source_at, digest_of(one, bodies, longest)) not in known]
    outcomes = attempts("the lookups", pending, layout, bodies=bodies, converter=converter, engine=engine)
    for outcome in outcomes:
        if isinstance(outcome.error, MirrorError) and not ends_run(outcome.error):
            errors.append(outcome.error)
        else:
            outcome.unwrap()
    conversions = [outcome.result for outcome in outcomes if outcome.result is not None]
    return warehouse.load_lookups(conversions) if conversions else 0, errors
