"""Lines become rows: natively (native, tree, decode.c), by pyarrow's parser, or one by one where a line needs a closer look.

`records` brings the three together; `examine` is the closer look, and `strict_json` what it takes for JSON.
"""
