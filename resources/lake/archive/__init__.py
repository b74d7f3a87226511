"""Archive reading: gunzip, tar members, and blocks of complete lines in a bounded number of buffers.

`decode` interprets the content of the lines.
"""
