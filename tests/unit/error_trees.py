"""Every class of the trees of errors, found by looking: a new one cannot be forgotten by the tests that go through them."""

from __future__ import annotations

from resources.enterprise.errors import EnterpriseError
from resources.lake import LakeError
from resources.warehouse import WarehouseError


def below(root: type[Exception]) -> tuple[type[Exception], ...]:
    """A class and all below it, in the order of their names."""
    found = {root}
    for child in root.__subclasses__():
        found.update(below(child))
    return tuple(sorted(found, key=lambda kind: kind.__name__))


ENTERPRISE = below(EnterpriseError)
LAKE = below(LakeError)
WAREHOUSE = below(WarehouseError)
