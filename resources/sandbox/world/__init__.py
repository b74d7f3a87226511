"""A deterministic world: what every wiki holds and what happens in it, at any moment, from a seed alone.

Belongs here: pages and their history, records, texts, reference lists, what a snapshot holds. Does not belong here:
archives and the clock (`store`), HTTP (`api`). It imports none of the other rooms.
"""
