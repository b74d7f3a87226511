"""Pause the garbage collector during imports: a sixth of the start of the code location.

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
