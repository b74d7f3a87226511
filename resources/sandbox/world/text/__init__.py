"""Page text from synthetic languages with Parsoid-like markup, or from real records in a corpus."""
