"""Parts of several statements, each written once: how states, snapshots and events are ordered, and the keys of rows.

A statement has the name in braces where the text belongs.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta

from resources import tables

#: A row as it competes for its title and its page: the columns that decide, with their types.
STATE = {
    "project_id": "VARCHAR",
    "title": "VARCHAR",
    "article_id": "BIGINT",
    "event_at": "TIMESTAMPTZ",
    "version_id": "BIGINT",
    "is_update": "BOOLEAN",
    "event_key": "UBIGINT",
    "source_at": "TIMESTAMPTZ",
    "namespace_id": "BIGINT",
}
#: How the keys are computed that the build file stores. `event_key`: 64 bits of a digest over event and title, over the
#: whole row
#: where it names no event; the last word in the order of states. `title_key`: 64 bits of a digest over project and
#: title, by which a
#: title is found among millions without comparing texts. A build file of other formulas is refused.
KEYS = {
    "event_key": (
        "md5_number_lower(CASE WHEN event_id IS NULL THEN {row_digest} "
        "ELSE concat(event_id, chr(10), replace(name, '_', ' ')) END)"
    ),
    # a row of a snapshot has the key of the same event in an hour's file
    "event_key_of_snapshot": (
        "md5_number_lower(concat(coalesce(event_id, concat('page ', article_id)), chr(10), title))"
    ),
    "title_key": "md5_number_lower(concat(project_id, chr(10), title))",
    "row_digest": "md5(CAST(row({content}) AS VARCHAR))",
}
KEYS_DIGEST = hashlib.sha256(repr(KEYS).encode()).hexdigest()[:16]
FORMULAS = KEYS | {
    "content": ", ".join(f'"{column.name}"' for column in tables.ARTICLE_CHANGES.narrow if column.name != "batch_hour"),
    "covered": ", ".join(f"'{state}'" for state in sorted(tables.COVERED)),
    "no_snapshot": tables.NO_SNAPSHOT,
    "last_recheck_hours": str(tables.RECHECKS[-1] // timedelta(hours=1)),
    "row_key": ", ".join(STATE),
    # rows of one title or page that are equal in all of it are the same row
    "newest_state_first": "event_at DESC, version_id DESC, is_update DESC, event_key DESC, source_at, namespace_id",
    "oldest_state_first": "event_at, version_id, is_update, event_key, source_at DESC, namespace_id DESC",
    "newest_snapshot_first": "boundary_at DESC, exported_at DESC NULLS LAST, snapshot_version DESC",
    # both halves of a move share the event
    "event": (
        "project_id, replace(name, '_', ' '), "
        "coalesce(event_id, concat(article_id, ' ', version_id, ' ', change_type, ' ', event_at))"
    ),
}
