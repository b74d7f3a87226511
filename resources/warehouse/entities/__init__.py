"""The items and properties of Wikidata as they are, and as they were.

Entities have a separate rule, because an entity never changes its name.
"""
