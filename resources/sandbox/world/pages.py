"""Page table of a small wiki, which applies operations to pages and derives the events that the service publishes.

Events are derived from the page table after each operation. The page table is never derived from events.

Source: the service's documentation of the realtime stream and batches. A move is an `update` under the new title and a
`delete` under the old title. Turning a page into a redirect is a `delete` with the new revision. A restore is an
`update`. Pages in namespaces that the service does not support have no events.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Verb(enum.Enum):
    CREATE = enum.auto()
    EDIT = enum.auto()
    MOVE = enum.auto()
    DELETE = enum.auto()
    RESTORE = enum.auto()
    REDIRECT = enum.auto()
    REVIVE = enum.auto()
    HIDE = enum.auto()


class Kind(enum.StrEnum):
    """Reason for an event. A reason is more specific than the service's event type."""

    EDIT = "edit"
    CREATION = "creation"
    MOVE = "move"
    MOVE_BACK = "move back"
    SWAP = "title swap"
    NAMESPACE_OUT = "namespace move out"
    NAMESPACE_IN = "namespace move in"
    DELETION = "delete"
    RECREATION = "recreation under a new id"
    RESTORE = "full restore"
    PARTIAL_RESTORE = "partial restore"
    INTO_REDIRECT = "edit into a redirect"
    OUT_OF_REDIRECT = "edit out of a redirect"
    VISIBILITY = "visibility change"


class Operation(NamedTuple):
    verb: Verb
    kind: Kind
    page: int = 0  # number of the page in the family
    #: Target title of a MOVE as (page, variant). Variant 0 is the page's original title.
    to: tuple[int, int] = (0, 0)
    namespace: int | None = None  # target namespace of a MOVE, or None for the family's namespace
    leaves: int | None = None  # number of the redirect page that a MOVE leaves behind
    back: int = 0  # number of newest revisions that stay deleted after a RESTORE
    fresh: bool = False  # true if a CREATE uses a new title
    quiet: bool = False  # true if a MOVE leaves no redirect behind


class Revision(NamedTuple):
    """Revision of a page, with its number, time (microseconds since 1970) and previous revision."""

    identifier: int
    moment: int
    parent: Revision | None


class Title(NamedTuple):
    """Page title without prefix, and its namespace."""

    namespace: int
    text: str


class State(NamedTuple):
    """State of a page after an operation.

    `home` is the original title. `created` is the time of the first revision in microseconds since 1970.
    """

    identifier: int
    home: Title
    title: Title
    created: int
    revision: Revision
    redirects: tuple[Title, ...]


class Event(NamedTuple):
    """Message on one of the service's stream topics."""

    project: str  # database name
    type: str  # `update`, `delete` or `visibility-change`
    kind: Kind
    title: Title  # title in the message, which is the old title in a move's `delete` event
    state: State  # state of the page after the operation
    ordinal: int  # operation number, which increases with time and is unique per project; equal for a move's two events
    #: Time of the deletion or, for other events, of the revision. All times are in microseconds since 1970.
    happened: int
    created: int  # time at which the change reached the service
    published: int  # time at which the message was published
    partition: int | None = None  # partition of the stream topic
    offset: int | None = None  # offset within the partition


@dataclass(slots=True)
class Page:
    """Row in the page table. `event` is the last published `update`."""

    identifier: int
    home: Title
    title: Title
    created: int
    revision: Revision
    present: bool = True
    redirect: bool = False
    redirects: tuple[Title, ...] = ()
    event: Event | None = None

    @property
    def state(self) -> State:
        """Return the page's current state as an immutable value."""
        return State(self.identifier, self.home, self.title, self.created, self.revision, self.redirects)


class Moment(NamedTuple):
    """Times of an operation, and the numbers that the operation assigns."""

    at: int  # publication time in microseconds since 1970
    gap: int  # microseconds between the two events of a move within a namespace
    created: int  # time at which the change reached the service, in microseconds since 1970
    edited: int  # time of the edit in the wiki, in microseconds since 1970
    ordinal: int  # number of the operation
    revision: int  # number of a new revision
    page: int  # number of a new page
    fresh: str  # title of a new page if the script requires a fresh title


class Family:
    """Page family, which contains the pages and titles for one run of a script."""

    __slots__ = ("_homes", "_namespace", "_project", "_served", "_variants", "pages")

    def __init__(
        self, project: str, namespace: int, served: frozenset[int], variants: tuple[str, ...], pages: dict[int, Page]
    ) -> None:
        """Start with `pages`, keyed by number. `variants` are title formats in which `{}` is the original title."""
        self._project = project
        self._namespace = namespace
        self._served = served
        self._variants = variants
        self._homes = {number: page.home for number, page in pages.items()}
        self.pages = pages

    def live(self, namespace: int) -> Iterator[Event]:
        """Yield the last `update` event of each article in the namespace, with the current state and title."""
        for page in self.pages.values():
            if page.present and not page.redirect and page.title.namespace == namespace:
                # scripts guarantee that every live page was updated in the last two cycles
                assert page.event is not None
                yield page.event._replace(state=page.state, title=page.title)

    def apply(self, operation: Operation, moment: Moment) -> list[Event]:
        """Apply `operation` and return the published events. A move can publish two events."""
        verb = operation.verb
        if verb is Verb.CREATE:
            return self._create(operation, moment)
        page = self.pages[operation.page]
        if verb is Verb.MOVE:
            return self._move(page, operation, moment)
        if verb is Verb.RESTORE:
            page.present = True
            for _ in range(operation.back):
                assert page.revision.parent is not None
                page.revision = page.revision.parent
        elif verb is Verb.DELETE:
            page.present = False
        elif verb is not Verb.HIDE:
            page.revision = Revision(moment.revision, moment.edited, page.revision)
            page.redirect = verb is Verb.REDIRECT
        if verb is Verb.HIDE:
            return self._publish(page, "visibility-change", operation, moment)
        return self._publish(page, "delete" if page.redirect or not page.present else "update", operation, moment)

    def _create(self, operation: Operation, moment: Moment) -> list[Event]:
        if operation.fresh:
            self._homes[operation.page] = Title(self._namespace, moment.fresh)
        home = self._homes[operation.page]
        revision = Revision(moment.revision, moment.edited, None)
        page = Page(moment.page, home, home, moment.edited, revision)
        self.pages[operation.page] = page
        return self._publish(page, "update", operation, moment)

    def _move(self, page: Page, operation: Operation, moment: Moment) -> list[Event]:
        old = page.title
        owner, variant = operation.to
        text = self._variants[variant].format(self._homes[owner].text)
        page.title = Title(self._namespace if operation.namespace is None else operation.namespace, text)
        page.revision = Revision(moment.revision, moment.edited, page.revision)
        # a move overwrites a redirect at its target title
        for number, other in list(self.pages.items()):
            if other is not page and other.redirect and other.title == page.title:
                del self.pages[number]
        if not operation.quiet:
            page.redirects = (*(title for title in page.redirects if title != page.title), old)
        if operation.leaves is not None:
            left = Revision(moment.revision + 1, moment.edited, None)
            self.pages[operation.leaves] = Page(moment.page, old, old, moment.edited, left, redirect=True)
            self._homes[operation.leaves] = old
        events = self._publish(page, "update", operation, moment)
        if old.namespace in self._served:
            # publish both events of a namespace move together, because a mirror of one namespace must see a complete
            # move
            apart = moment.gap if events and old.namespace == page.title.namespace else 0
            events.append(self._event(page, "delete", operation, moment, old, moment.at + apart))
        return events

    def _publish(self, page: Page, kind: str, operation: Operation, moment: Moment) -> list[Event]:
        if page.title.namespace not in self._served:
            return []
        event = self._event(page, kind, operation, moment, page.title, moment.at)
        if kind == "update":
            page.event = event
        return [event]

    def _event(
        self, page: Page, kind: str, operation: Operation, moment: Moment, title: Title, published: int
    ) -> Event:
        happened = moment.edited if operation.verb is Verb.DELETE else page.revision.moment
        return Event(
            self._project, kind, operation.kind, title, page.state, moment.ordinal, happened, moment.created, published
        )
