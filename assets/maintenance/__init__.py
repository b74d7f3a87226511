"""Maintenance that keeps a mirror small: compaction, and removal of replaced files."""
