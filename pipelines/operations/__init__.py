"""Operator tasks: the main job, publication, snapshots, rejected records, backups, dropping a project.

This package implements the commands as functions that Python code can call as well. Printing is in `cli`, and the
figures to print are collected in `report`.
"""
