"""The bytes of an archived file, compared with its sidecar."""

from pathlib import Path

from resources import files
from resources.enterprise import Sidecar


def is_intact(target: Path) -> bool:
    """Read the complete file, and compare its MD5 with its sidecar."""
    sidecar = Sidecar.read(target)
    return sidecar is not None and target.is_file() and files.md5_of(target) == sidecar.version
