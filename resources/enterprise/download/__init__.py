"""Downloads: from a signed URL to a verified file with its sidecar, resumed where an earlier one stopped.

Nothing here knows which record a file belongs to: whoever does gives a `Source`.
"""
