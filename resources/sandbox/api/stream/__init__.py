"""The streams: what a request asks for, what of each record is sent, and an answer without an end.

Belongs here: parameters, fields and filters of streams, which differ from those of lists, and their pace. Does not
belong here: which messages there are (`store.topics`).
"""
