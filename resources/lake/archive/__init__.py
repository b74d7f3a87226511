"""Reading an archive: gunzip, the tar's members, and blocks of whole lines in a bounded number of buffers.

What the lines say is for `decode`.
"""
