"""Current states: the pages and entities that exist now, each with its deciding row."""
