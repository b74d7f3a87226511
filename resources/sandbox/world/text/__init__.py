"""Texts of pages: made-up languages, titles, Parsoid-like markup, or records of a corpus."""
