"""The HTTP side: the operations of the service, the control requests below `/sandbox/`, and answers that misbehave.

Belongs here: routing, parameters, permissions, forms of answers. Does not belong here: what is listed (`store`), and
what an account may do (`accounts`).
"""
