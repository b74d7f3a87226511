"""Texts of pages: synthetic languages, titles and Parsoid-like markup, or records of a corpus."""
