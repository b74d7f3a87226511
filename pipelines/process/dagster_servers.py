"""The names of Dagster's servers that it does not publish: its web server takes a middleware, and `dagster dev` starts that one.

Apart from the others, because the web server and GraphQL take seconds to import. An upgrade that changes these names is noticed by
tests/e2e/test_other_websites.py.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pipelines.process import supervisor

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence

_GUARDED = "pipelines.process.webserver"


def webserver(middleware: Callable[[Any], Any]) -> None:
    """Run the command line of `dagster-webserver`, whose requests pass through `middleware(app)` first."""
    from dagster_webserver import app, cli
    from starlette.middleware import Middleware

    class Guarded(app.DagsterWebserver):  # type: ignore[misc, name-defined]
        def build_middleware(self) -> list[Middleware]:
            return [Middleware(middleware), *super().build_middleware()]

    app.DagsterWebserver = Guarded  # type: ignore[attr-defined]
    cli.main()  # type: ignore[no-untyped-call]


def development() -> None:
    """Run `dagster dev` (web server, daemon, one code server for both) with the guarded web server in place of Dagster's."""
    supervisor.end_with_supervisor()

    from dagster import _cli
    from dagster._cli import dev

    start = dev.open_ipc_subprocess  # type: ignore[attr-defined]

    def guarded(parts: Sequence[str], **kwargs: Any) -> subprocess.Popen[Any]:
        python, option, module, *rest = parts
        # a program that is not known here may be a web server without the guard
        module = {"dagster_webserver": _GUARDED, "dagster._daemon": module}[module]
        return start([python, option, module, *rest], **kwargs)

    dev.open_ipc_subprocess = guarded  # type: ignore[attr-defined]
    sys.argv = ["dagster", "dev", *sys.argv[1:]]
    _cli.main()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    development()
