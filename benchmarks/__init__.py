"""Measured work with its peers beside it: `python -m benchmarks convert`.

Belongs here: workloads, contenders, and one table of figures from one run. Does not belong here: anything the pipeline
needs.
"""
