"""Current states: the pages and entities that exist now, each with the row that decides it."""
