"""Benchmarks of conversion, warehouse, stream and growth, each with its alternatives: `python -m benchmarks convert`.

Belongs here: workloads, contenders, one harness, one report format. Does not belong here: code that the pipeline needs.
"""
