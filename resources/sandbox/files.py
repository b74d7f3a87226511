"""The sandbox's own files: tables that come with the code, and state that is complete or absent."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import yaml

#: Tables of facts, and the interface description.
DATA = Path(__file__).with_name("data")
#: Longest file of the sandbox's own state.
_STATE_BYTES = 1 << 20


def read_yaml(name: str) -> Any:
    """Read a table of the folder `data`."""
    return yaml.load((DATA / name).read_bytes(), yaml.CSafeLoader)


def read_state(path: Path, *texts: str) -> dict[str, Any]:
    """Read one of the sandbox's own files, a JSON object with these texts in it.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is a folder, a named pipe or a device, or holds something else; the message says what to do.
    """
    content: Any = None
    # opening a named pipe would wait for somebody who writes into it
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            content = json.loads(os.read(descriptor, _STATE_BYTES))
    except (ValueError, RecursionError):
        content = None
    finally:
        os.close(descriptor)
    if not isinstance(content, dict) or not all(isinstance(content.get(name), str) for name in texts):
        raise ValueError(
            f"The file {path} of the sandbox is damaged. Nothing was changed. "
            "Remove it: the sandbox makes a new one at its next start."
        )
    return content


def write_private(path: Path, content: bytes) -> None:
    """Write a file with mode 0600 in one step."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    part.replace(path)
