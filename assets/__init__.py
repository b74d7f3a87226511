"""The assets of every declared dataset, then the current states and the published file.

    lists, hourly, snapshots, lookups, streams  a factory of assets for each family of datasets
    steps                                       the work for one hour, one snapshot, a lookup, the stream: functions
    checks, coverage_checks                     conditions that must hold: for the results of a run, and at any time
    current, published                          assets that are built from all of them

`pipelines` decides when something runs; `resources` accesses the outside.
"""
