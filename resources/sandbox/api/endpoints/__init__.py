"""The operations of the service, one module for each family of paths."""
