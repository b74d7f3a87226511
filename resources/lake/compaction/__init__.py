"""Many lake files become few: sorted by page, in small row groups, compressed harder.

Belongs here: reading lake files, sorting their rows in bounded memory, writing them again. Does not belong here: which
files are compacted, and what the ledger says of them afterwards.
"""

from resources.lake.compaction.rewriting import Compaction, CompactionJob, compact

__all__ = ["Compaction", "CompactionJob", "compact"]
