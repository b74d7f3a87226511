"""HTTP communication with the service: requests, responses, limits, and errors. Accounts are handled elsewhere."""
