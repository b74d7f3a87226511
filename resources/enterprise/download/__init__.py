"""Downloads: from a signed URL to a verified file with its sidecar, resumed after an interruption.

This package does not know the records of the service: callers pass a `Source`.
"""
