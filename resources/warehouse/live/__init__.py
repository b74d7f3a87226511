"""Events of the stream as provisional rows: beside the published file, until the files of their hours take their place."""
