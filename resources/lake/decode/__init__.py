"""Conversion of lines to rows, in C for most lines and in Python for difficult ones.

`native` and decode.c are the C path. `strict` examines single lines in Python; `strict_json` parses their JSON.
`records` combines both paths.
"""
