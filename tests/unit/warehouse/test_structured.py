"""Structured contents in the published file: what went in comes out, and the questions asked of it."""
