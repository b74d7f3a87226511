"""Every public class of the trees of errors, found by looking: tests that go through them cannot forget a new one."""

from resources.engine.mapping import EngineError
from resources.enterprise.errors import EnterpriseError
from resources.lake import LakeError
from resources.warehouse import WarehouseError


def below(root: type[Exception]) -> tuple[type[Exception], ...]:
    """A class and the public ones of its module below it, in the order of their names.

    Those of other modules are nobody's but theirs.
    """
    found = {root}
    for child in root.__subclasses__():
        found.update(below(child))
    own = (kind for kind in found if kind.__module__ == root.__module__ and not kind.__name__.startswith("_"))
    return tuple(sorted(own, key=lambda kind: kind.__name__))


ENGINE = below(EngineError)
ENTERPRISE = below(EnterpriseError)
LAKE = below(LakeError)
WAREHOUSE = below(WarehouseError)
