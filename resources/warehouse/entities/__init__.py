"""The items and properties of Wikidata as they are, and as they were: a rule of their own, since an entity never changes its name."""
