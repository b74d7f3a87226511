"""Conversion of lines to rows: natively, by pyarrow's parser, or one by one for difficult lines.

`native`, `tree` and decode.c are the native path. `records` combines the three paths. `strict` examines single lines,
and `strict_json` decides which of them are JSON.
"""
