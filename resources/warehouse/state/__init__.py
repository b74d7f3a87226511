"""The current state: which pages there are now, and by which row."""
