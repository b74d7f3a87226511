"""Process management, which covers the Dagster instance, locks of running processes, interrupts and servers."""
