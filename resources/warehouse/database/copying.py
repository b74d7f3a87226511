"""Copying a file in the kernel."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

#: `copy_file_range` does not serve these two files; reading and writing does.
_UNSUPPORTED: Final = frozenset({errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF})


def copy_file(source: Path, target: Path) -> None:
    """Copy the bytes of a file, which a file system may share between both. `target` is replaced; nothing is synced.

    Raises:
        OSError: Reading or writing failed, for example on a full disk.
    """
    if not (hasattr(os, "copy_file_range") and _copy_range(source, target)):
        shutil.copyfile(source, target)


def _copy_range(source: Path, target: Path) -> bool:
    """Copy with `copy_file_range`. False: the file system does not support it."""
    with source.open("rb") as read, target.open("wb") as written:
        try:
            while os.copy_file_range(read.fileno(), written.fileno(), 1 << 30):
                pass
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return False
    return True
