"""The interface description (OpenAPI 3.1.2) of all three areas: authentication, data, realtime.

It is written here and nowhere derived: the tests compare the sandbox's routes and the client's endpoints with it.
`operations` has what can be asked, `answers` what comes back, `schemas` and `records` the shapes; `document` puts them
together, and `viewer` shows them on a page.
"""
