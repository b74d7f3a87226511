"""The sandbox: a local content service with a deterministic world behind it.

    with running(Settings(state=folder)) as sandbox:   # in this process, for tests
        ...
    endpoint = attach(Settings(state=folder))          # in a process of its own, shared by all that attach

It imports none of the project's other parts: shared code would hide shared mistakes.
"""

from resources.sandbox.claim import SandboxConflictError
from resources.sandbox.process import Endpoint, SandboxStartError, attach
from resources.sandbox.server import Sandbox, running
from resources.sandbox.settings import Settings

__all__ = ["Endpoint", "Sandbox", "SandboxConflictError", "SandboxStartError", "Settings", "attach", "running"]
