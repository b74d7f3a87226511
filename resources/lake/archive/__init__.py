"""Reading an archive: gunzip, the tar's members, and blocks of complete lines in a bounded number of buffers.

The content of the lines is for `decode`.
"""
