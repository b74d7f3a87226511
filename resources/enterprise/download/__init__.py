"""Resumable downloads from signed URLs to verified files with sidecars.

This package does not depend on the service's records. Callers pass a `Source`.
"""
