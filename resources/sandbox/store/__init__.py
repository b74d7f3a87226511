"""Object store with archives on disk, a publication schedule, object keys, signed URLs and the download port.

This package turns the world into files. Record contents belong to `world`, and file listings belong to `api`.
"""
