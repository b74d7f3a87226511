"""Snapshots: planned cost, download of all files as one consistent set, and the manifest of the set."""
