"""Process management: the Dagster instance, locks of running processes, interrupts, and servers."""
