"""Events of the realtime stream whose hours have no file yet: the views over them, and their comparison with the files that come."""
