"""HTTP with the service: its paths, what is sent and read, within which bounds, and what failures mean. No accounts."""
