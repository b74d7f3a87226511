"""HTTP communication with the service: requests, responses, limits, and the mapping of failures. No accounts."""
