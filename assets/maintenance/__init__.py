"""What keeps a mirror small: compaction, and removing what nobody needs any more."""
