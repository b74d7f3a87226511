"""Snapshots: what having one takes, its files fetched as one set, and the manifest that names them."""
