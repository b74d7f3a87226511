"""The realtime streams: connections that are opened again wherever they end, and positions from which nothing is lost.

Belongs here: requests for streams, framing, reconnecting, how much waits in memory. Does not belong here: what is kept
of the events (`lake`), and what they change (`warehouse`).
"""
