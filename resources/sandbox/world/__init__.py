"""Deterministic wikis that are derived from a seed, with page histories, records, page text and reference lists.

Archives belong to `store`, and HTTP belongs to `api`. This package imports neither.
"""
