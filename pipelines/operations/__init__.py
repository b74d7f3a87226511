"""Operator tasks, such as the main job, publications, snapshots, rejected records, backups, and dropping a project.

This package implements the commands as functions that Python code can also call. The `report` package collects the
figures, and the `cli` package prints them.
"""
