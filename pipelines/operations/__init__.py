"""Operator tasks: the main job, publication, snapshots, rejected lines, backups, dropping a project.

Belongs here: the work behind a command, as functions that Python can call as well. Does not belong here: printing (see
`cli`) and collecting the figures to print (see `report`).
"""
