"""Object store: archives on disk, publication schedule, keys, signed URLs, and the download port.

Everything that turns the world into files belongs here; the contents of records belong to `world`, the listing of files
to `api`.
"""
