"""The work for one hour, one snapshot, a lookup and the stream, as plain functions.

They plan, fetch, convert, load and compare.
"""
