"""Many lake files become few: sorted by page, in small row groups, compressed harder.

Belongs here: reading lake files, sorting their rows in bounded memory, writing them again. Does not belong here: which files are
compacted, and what the ledger says of them afterwards.
"""

from resources.lake.compaction.rewriting import CompactedFile, Compaction, CompactionJob, Source, compact

__all__ = ["CompactedFile", "Compaction", "CompactionJob", "Source", "compact"]
