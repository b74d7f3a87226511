"""What exists: the assets of every declared dataset, then the current states and the published file.

    families                    lists, hourly files, snapshots: a factory for each, and the steps of one hour and of one snapshot
    current, published          what all of them become
    checks, housekeeping        what must hold, and what may go

When something runs is decided in `pipelines`; how the outside is touched, in `resources`.
"""
