"""Events of the realtime stream whose hours have no file yet: views over them, and their comparison with the files."""
