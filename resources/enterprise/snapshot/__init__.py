"""Snapshots: cost planning, download of all files as one consistent set, and the set's manifest."""
