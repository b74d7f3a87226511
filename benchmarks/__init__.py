"""Benchmarks that compare conversion, warehouse, stream and growth with alternatives (`python -m benchmarks --help`).

This package contains workloads, contenders, a shared harness and a shared report. The pipeline must not depend on
benchmarks.
"""
