"""Conversion of lines to rows: natively, or one by one for difficult lines.

`native` and decode.c are the native path. `records` combines both paths. `strict` examines single lines,
and `strict_json` decides which of them are JSON.
"""
