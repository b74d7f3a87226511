"""The assets of every declared dataset, then the current states and the published file.

    lists, hourly, snapshots, lookups, streams  a factory of assets for each family of datasets
    steps                                       functions for one hour, one snapshot, a lookup, the stream
    checks, coverage_checks                     conditions on the results of a run, and on the mirror at any time
    current, published                          assets derived from all datasets

`pipelines` schedules the work; `resources` accesses external systems.
"""
