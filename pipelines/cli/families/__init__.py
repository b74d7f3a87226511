"""A group of commands for each family of datasets: what the service has of it, and fetching that."""
