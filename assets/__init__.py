"""What exists: the assets, one module per dataset, in the order of the data's way.

reference, batches and hourly, articles, published; checks beside them.

Belongs here: what is made of what, and what is told of it. Does not belong here: when (see `pipelines`), or how the outside
is touched (see `resources`).
"""
