"""Operations on the archive, the lake and the warehouse as plain functions, without Dagster.

They plan, fetch, convert, load, repair, compact and remove.
"""
