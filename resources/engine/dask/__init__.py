"""Parallel execution on a Dask cluster whose workers share the data folder. Only this package imports Dask.

Dask's dashboard, memory management and profiler are not used. Importing this package without Dask raises
ExtraMissingError.
"""

from resources.engine.mapping import ExtraMissingError

try:
    import distributed as _  # noqa: F401  looked for before the modules below need it
except ModuleNotFoundError as missing:
    raise ExtraMissingError(
        f"A Dask cluster is configured, but the package {missing.name} is not installed. Nothing was started. Install "
        "the extra with `pip install -e '.[dask]'`, or set WME_ENGINE=threads."
    ) from None

from resources.engine.dask.cluster import Cluster, TimeLimits
from resources.engine.dask.worker import Call, portable, serve

__all__ = ["Call", "Cluster", "TimeLimits", "portable", "serve"]
