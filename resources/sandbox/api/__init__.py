"""HTTP interface: the service's operations, control requests under `/sandbox/`, and injected faults.

Routing, parameters, permissions and response formats belong here; the listed files belong to `store`, the rights of an
account to `accounts`.
"""
