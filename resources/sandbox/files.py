"""Readers of the sandbox's packaged tables and state files, and an atomic file writer."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import yaml

#: Folder with the packaged tables and the interface description.
DATA = Path(__file__).with_name("data")
#: Maximum size of a state file.
_STATE_BYTES = 1 << 20


def read_yaml(name: str) -> Any:
    """Read a YAML table from the `data` folder."""
    return yaml.load((DATA / name).read_bytes(), yaml.CSafeLoader)


def read_state(path: Path, *texts: str) -> dict[str, Any]:
    """Read a state file, which is a JSON object with string values for the keys in `texts`.

    Raises:
        FileNotFoundError: The file is missing.
        ValueError: The path is a folder, named pipe or device, or the file's content is invalid.
    """
    content: Any = None
    # without O_NONBLOCK, opening a named pipe would wait for a writer
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
            f"The sandbox's file {path} is damaged. Nothing was changed. "
            "Delete the file, and the sandbox will create a new one at its next start."
        )
    return content


def write_private(path: Path, content: bytes) -> None:
    """Write a file atomically, with mode 0600."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    part.replace(path)
