"""Page table of a small wiki: the effect of operations on pages, and the events that the service publishes.

Events are derived from the table after each operation, never the table from events.

Source of the events: the service's documentation of its realtime stream and batches. A move is an `update` under the
new title and a `delete` under the old one. Turning a page into a redirect is a `delete` with the new revision. A
restore is an `update`. Pages in unserved namespaces have no events.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Verb(enum.Enum):
    """Kind of operation on a page."""

    CREATE = enum.auto()
    EDIT = enum.auto()
    MOVE = enum.auto()
    DELETE = enum.auto()
    RESTORE = enum.auto()
    REDIRECT = enum.auto()
    REVIVE = enum.auto()
    HIDE = enum.auto()


class Kind(enum.StrEnum):
    """Reason for an event, more specific than the service's event type."""

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
    """Operation on one page of a family."""

    verb: Verb
    kind: Kind
    page: int = 0  # number of the page in the family
    #: For MOVE: target title as (page, variant); variant 0 is that page's home title.
    to: tuple[int, int] = (0, 0)
    namespace: int | None = None  # for MOVE: target namespace; None means the family's own
    leaves: int | None = None  # for MOVE: page number, in the family, of the redirect left behind
    back: int = 0  # for RESTORE: number of newest revisions that stay deleted
    fresh: bool = False  # for CREATE: use a new title
    quiet: bool = False  # for MOVE: leave no redirect behind


class Revision(NamedTuple):
    """Revision of a page: number, time (microseconds since 1970) and previous revision."""

    identifier: int
    moment: int
    parent: Revision | None


class Title(NamedTuple):
    """Namespace, and title without prefix."""

    namespace: int
    text: str


class State(NamedTuple):
    """State of a page after an operation.

    `home` is its original title, `created` the time of its first revision (microseconds since 1970).
    """

    identifier: int
    home: Title
    title: Title
    created: int
    revision: Revision
    redirects: tuple[Title, ...]


class Event(NamedTuple):
    """Message on one of the service's topics."""

    project: str  # database name
    type: str  # `update`, `delete` or `visibility-change`
    kind: Kind
    title: Title  # title in the message: the old one in the `delete` of a move
    state: State  # the page after the operation
    ordinal: int  # number of the operation, increasing with time, unique per project; shared by both halves of a move
    #: Time of the deletion, or else of the revision. All times are in microseconds since 1970.
    happened: int
    created: int  # time at which the change reached the service
    published: int  # time at which the message was published
    partition: int | None = None  # partition of the stream's topic
    offset: int | None = None  # offset in the partition


@dataclass(slots=True)
class Page:
    """Row of the page table. `event` is its last published `update`."""

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
        """Return the current state as an immutable value."""
        return State(self.identifier, self.home, self.title, self.created, self.revision, self.redirects)


class Moment(NamedTuple):
    """Times of an operation, and the numbers that it assigns."""

    at: int  # publication, microseconds since 1970
    gap: int  # microseconds between the two halves of a move within a namespace
    created: int  # time at which the change reached the service, microseconds since 1970
    edited: int  # time of the edit in the wiki, microseconds since 1970
    ordinal: int  # number of the operation
    revision: int  # number of a new revision
    page: int  # number of a new page
    fresh: str  # title of a new page if its script requires a fresh one


class Family:
    """Pages used by one run of a script, and their titles."""

    __slots__ = ("_homes", "_namespace", "_project", "_served", "_variants", "pages")

    def __init__(
        self, project: str, namespace: int, served: frozenset[int], variants: tuple[str, ...], pages: dict[int, Page]
    ) -> None:
        """Start with `pages`, by number; `variants` are formats of a title, with `{}` for the home title."""
        self._project = project
        self._namespace = namespace
        self._served = served
        self._variants = variants
        self._homes = {number: page.home for number, page in pages.items()}
        self.pages = pages

    def live(self, namespace: int) -> Iterator[Event]:
        """Yield the articles of the namespace: the last `update` of each, with its current state and title."""
        for page in self.pages.values():
            if page.present and not page.redirect and page.title.namespace == namespace:
                # scripts guarantee that every live page has an update in the last cycles
                assert page.event is not None
                yield page.event._replace(state=page.state, title=page.title)

    def apply(self, operation: Operation, moment: Moment) -> list[Event]:
        """Apply `operation` and return the published events: none, one, or the two halves of a move."""
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
        # a move overwrites a redirect at its target
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
            # publish both halves of a namespace move together: a mirror of one namespace must not see half a move
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
