"""Archive reading: decompression, tar members, and blocks of complete lines in a bounded number of buffers.

The `decode` package interprets the lines.
"""
