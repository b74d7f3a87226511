"""The assets of every declared dataset, then the current states and the published file.

    lists, hourly, snapshots, lookups, streams  one asset factory for each dataset family
    steps                                       functions that process hours, snapshots, lookups and the stream
    checks, coverage_checks                     asset checks of a run's results, and of the complete mirror
    current, published                          assets derived from all datasets

`pipelines` schedules the work; `resources` accesses external systems.
"""
