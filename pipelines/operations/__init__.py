"""What operators do: run the main job, publish, download snapshots, look at rejected lines and reprocess them, forget a project.

Belongs here: the work behind a command, as functions that Python can call as well. Does not belong here: showing anything (see
`cli`), and collecting what there is to show (see `report`).
"""
