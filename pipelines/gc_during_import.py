"""Imports without the garbage collector, which would look again and again at hundreds of thousands of objects that stay: a sixth of the code location's start.

To be imported before all else; `done()` behind the imports lets it work again.
"""

import atexit
import gc

_was_enabled = gc.isenabled()
gc.disable()


def done() -> None:
    """Collect again, unless whoever imports did not either."""
    if _was_enabled:
        gc.enable()


def keep() -> None:
    """Look no more at what is there by now, in a process of our own: it stays."""
    gc.freeze()
    # DuckDB's binding counts what is left at the end, and complains of it
    atexit.register(gc.unfreeze)
