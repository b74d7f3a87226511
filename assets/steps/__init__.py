"""What is done for one hour, one snapshot, a lookup and the stream, as plain functions: plan, fetch, convert, load, compare."""
