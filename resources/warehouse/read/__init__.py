"""Read-only warehouse queries."""
