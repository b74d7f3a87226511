"""Assets for every declared dataset, for the current states, and for the published file.

    lists, hourly, snapshots, lookups, streams  one asset factory for each dataset family
    steps                                       functions that process hours, snapshots, lookups and the stream
    checks, coverage_checks                     asset checks of a run's results, and of the complete mirror
    current, published                          assets derived from all datasets

The `pipelines` package schedules the work, and the `resources` package accesses external systems.
"""
