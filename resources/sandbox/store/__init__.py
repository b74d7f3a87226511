"""The object store: archives on disk, what is published at a moment, keys, signed URLs, and the port of downloads.

Belongs here: everything that turns the world into files. Does not belong here: what is in a record (`world`), and the
API that lists the files (`api`).
"""
