"""Local content service with deterministic wikis, called the sandbox.

    with running(Settings(state=folder)) as sandbox:   # in this process, for tests
        ...
    endpoint = attach(Settings(state=folder))          # in a separate process, shared by all clients

This package imports no other part of the project, because shared code would hide shared mistakes.
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
_MODULES = {"server": ("Sandbox", "running"), "settings": ("Settings",)}


def __getattr__(name: str) -> Any:
    # importing the server takes 0.2 seconds, and `find` does not need the server
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), "process")
    return getattr(import_module(f"{__name__}.{module}"), name)
