"""What exists: the assets of every declared dataset, then the current states and the published file.

    families                    lists, hourly files, snapshots, lookups, streams: a factory for each
    steps                       what is done for one hour, one snapshot, a lookup, the stream: plain functions
    checks, coverage_checks     what must hold: of what a run has made, and at any time
    current, published, report  what all of them become
    maintenance                 compaction, and what may go

When something runs is decided in `pipelines`; how the outside is touched, in `resources`.
"""
