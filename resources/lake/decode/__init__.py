"""Conversion of lines to rows, in C for most lines and in Python for difficult lines.

`native` and decode.c are the C path. `strict` examines single lines in Python, and `strict_json` parses their JSON.
`records` combines the C and Python paths.
"""
