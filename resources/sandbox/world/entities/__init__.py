"""Wikidata in the world: its items and properties, what happens to them, and their records."""
