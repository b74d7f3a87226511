"""Benchmarks of conversion, warehouse, stream and growth, compared with alternatives: `python -m benchmarks --help`.

This package contains workloads, contenders, a common harness and a common report. The pipeline must not depend on it.
"""
