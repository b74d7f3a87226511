"""Snapshots: cost of a download, download of the files as one set, and the manifest that names them."""
