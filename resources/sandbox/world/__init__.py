"""Deterministic wikis derived from a seed: pages and their history, records, texts, reference lists, snapshot contents.

Archives and the clock belong to `store`, HTTP to `api`. This package imports neither.
"""
