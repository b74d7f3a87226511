"""The sandbox: a local content service with a deterministic world behind it.

    with running(Settings(state=folder)) as sandbox:   # in this process, for tests
        ...
    endpoint = attach(Settings(state=folder))          # in a process of its own, shared by all that attach

It imports none of the project's other parts: shared code would hide shared mistakes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resources.sandbox.process import Endpoint, Record, SandboxConflictError, SandboxStartError, attach, find
    from resources.sandbox.server import Sandbox, running
    from resources.sandbox.settings import Settings

__all__ = [
    "Endpoint",
    "Record",
    "Sandbox",
    "SandboxConflictError",
    "SandboxStartError",
    "Settings",
    "attach",
    "find",
    "running",
]
_MODULES = {
    "server": ("Sandbox", "running"),
    "settings": ("Settings",),
}


def __getattr__(name: str) -> Any:
    # the server takes a fifth of a second to import, and finding a sandbox does without it
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), "process")
    return getattr(import_module(f"{__name__}.{module}"), name)
