"""The page table of a small wiki: what operations do to pages, and which events the service publishes of them.

The table is the world's truth. Events are derived from the table after each operation, never the table from events.

Source of the events: the service's documentation of its realtime stream and batches (a move is an `update` under the
new title and a `delete` under the old one, a page turned into a redirect is a `delete` with the new revision, a
restore is an `update`, and nothing is published of pages in namespaces that it does not serve).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Verb(enum.Enum):
    """An operation on a page."""

    CREATE = enum.auto()
    EDIT = enum.auto()
    MOVE = enum.auto()
    DELETE = enum.auto()
    RESTORE = enum.auto()
    REDIRECT = enum.auto()
    REVIVE = enum.auto()
    HIDE = enum.auto()


class Kind(enum.StrEnum):
    """The reason for an event, finer than the service's event type."""

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
    """One thing done to one page of a family."""

    verb: Verb
    kind: Kind
    page: int = 0  # number of the page in the family
    #: For MOVE and CREATE: (page, variant), the title meant. Variant 0 is that page's home title.
    to: tuple[int, int] = (0, 0)
    namespace: int | None = None  # for MOVE: the target; None is the family's own
    leaves: int | None = None  # for MOVE: the number under which the redirect left behind becomes a page of the family
    back: int = 0  # for RESTORE: how many of the newest revisions stay deleted
    fresh: bool = False  # for CREATE: under a title never used before
    quiet: bool = False  # for MOVE: no redirect is left behind


class Revision(NamedTuple):
    """A revision: its number, when it was made (microseconds since 1970) and the one before it."""

    identifier: int
    moment: int
    parent: Revision | None


class Title(NamedTuple):
    """A title without prefix, and its namespace."""

    namespace: int
    text: str


class State(NamedTuple):
    """A page after an operation.

    `home` is the title it was born under, `created` its first revision's moment (microseconds since 1970).
    """

    identifier: int
    home: Title
    title: Title
    created: int
    revision: Revision
    redirects: tuple[Title, ...]


class Event(NamedTuple):
    """One message, as put on the service's topics."""

    project: str  # database name
    type: str  # `update`, `delete` or `visibility-change`
    kind: Kind
    title: Title  # the title that the message is about: for the delete half of a move the old one
    state: State  # the page after the operation
    ordinal: int  # number of the operation, rising with time, unique in its project; both halves of a move share it
    #: Moment of the new state (all moments in microseconds since 1970): of a deletion its own, else of the revision.
    happened: int
    created: int  # moment at which the change reached the service
    published: int  # moment at which the message was put on the topic
    partition: int | None = None  # on the topic of a stream: the partition
    offset: int | None = None  # the place in the partition


@dataclass(slots=True)
class Page:
    """A row of the page table. `event` is the last `update` that was published of it."""

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
        """Current state of the page."""
        return State(self.identifier, self.home, self.title, self.created, self.revision, self.redirects)


class Moment(NamedTuple):
    """The moment of an operation, and the numbers that it assigns."""

    at: int  # publication, microseconds since 1970
    gap: int  # microseconds between the two halves of a move within a namespace
    created: int  # moment at which the change reached the service, microseconds since 1970
    edited: int  # moment of the edit in the wiki, microseconds since 1970
    ordinal: int  # number of the operation
    revision: int  # number a revision made by it gets
    page: int  # number a page made by it gets
    fresh: str  # title a page made by it gets when its script asks for a fresh one


class Family:
    """The pages that a script plays with, and the titles they go by."""

    __slots__ = ("_homes", "_namespace", "_project", "_served", "_variants", "pages")

    def __init__(
        self, project: str, namespace: int, served: frozenset[int], variants: tuple[str, ...], pages: dict[int, Page]
    ) -> None:
        """Begin with `pages` by their number; `variants` are the forms of a title, `{}` standing for its home form."""
        self._project = project
        self._namespace = namespace
        self._served = served
        self._variants = variants
        self._homes = {number: page.home for number, page in pages.items()}
        self.pages = pages

    def live(self, namespace: int) -> Iterator[Page]:
        """The articles of the namespace: pages in it that exist and are not redirects."""
        for page in self.pages.values():
            if page.present and not page.redirect and page.title.namespace == namespace:
                yield page

    def apply(self, operation: Operation, moment: Moment) -> list[Event]:
        """Change the table; returns the events that the service publishes of it (none, one message, or two halves)."""
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
        # a redirect at the target is overwritten and is no longer an article of its own
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
            # from one namespace to another both halves at once: a mirror of one of them shall never see half a move
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
            self._project,
            kind,
            operation.kind,
            title,
            page.state,
            moment.ordinal,
            happened,
            moment.created,
            published,
        )
