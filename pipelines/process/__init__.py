"""Process management: the Dagster instance, locks of running processes, interrupts, servers."""
