"""Uses of private Dagster APIs, which are tested with Dagster 1.13.27. No other module imports `dagster._…`.

| name | used for | noticed by | until |
|---|---|---|---|
| `InstanceRef.from_dir` | settings for this process only | `test_dagster_internals.py` | `from_config` has overrides |
| `NoOpComputeLogManager` | no four processes per step to copy output | the same | the executor can skip the capture |
| `DagsterWebserver.build_middleware` | the guard against other websites | `test_other_websites.py` | Dagster has one |
| `dagster._cli.dev.open_ipc_subprocess` | `dagster dev` starts the guarded web server | the same | the same |

`pipelines/embedding.py` reads `OpDefinition.compute_fn.decorated_fn`, an undocumented attribute of a public object.
`test_embedding.py` detects changes to this attribute. The attribute is needed until Dagster can rename resource keys.

The `python -m pipelines.process.dagster_internals` command runs `dagster dev` with the guarded web server.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipelines.process import supervisor


def instance_settings(home: Path) -> Any:
    """Return a folder's instance settings for runs in this process. The output of these runs goes to the terminal."""
    from dagster._core.instance.ref import InstanceRef
    from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager

    logs = {"module": NoOpComputeLogManager.__module__, "class": NoOpComputeLogManager.__name__}
    return InstanceRef.from_dir(str(home), overrides={"compute_logs": logs})


def webserver(middleware: Callable[[Any], Any]) -> None:
    """Run the `dagster-webserver` command line with the web app wrapped in `middleware`."""
    from dagster_webserver import app, cli
    from starlette.middleware import Middleware

    class Guarded(app.DagsterWebserver):  # type: ignore[misc, name-defined]
        def build_middleware(self) -> list[Middleware]:
            return [Middleware(middleware), *super().build_middleware()]

    app.DagsterWebserver = Guarded  # type: ignore[attr-defined]
    cli.main()  # type: ignore[no-untyped-call]


def development() -> None:
    """Run `dagster dev` (web server, daemon, code server) with the guarded web server."""
    supervisor.end_with_supervisor()

    from dagster import _cli
    from dagster._cli import dev

    start = dev.open_ipc_subprocess  # type: ignore[attr-defined]

    def guarded(parts: Sequence[str], **kwargs: Any) -> subprocess.Popen[Any]:
        python, option, module, *rest = parts
        # an unknown program might be a web server without the guard
        module = {"dagster_webserver": "pipelines.process.webserver", "dagster._daemon": module}[module]
        return start([python, option, module, *rest], **kwargs)

    dev.open_ipc_subprocess = guarded  # type: ignore[attr-defined]
    sys.argv = ["dagster", "dev", *sys.argv[1:]]
    _cli.main()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    development()
