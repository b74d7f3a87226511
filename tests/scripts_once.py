"""Alembic's fifty scripts of revisions, read once in a process.

Dagster reads them twice for a history in memory, which is three quarters of its cost.
"""

from alembic.config import Config
from alembic.script import ScriptDirectory

_read: dict[tuple[str | None, str | None], ScriptDirectory] = {}
_original = ScriptDirectory.from_config


def _once(config: Config) -> ScriptDirectory:
    key = config.config_file_name, config.get_main_option("script_location")
    if key not in _read:
        _read[key] = _original(config)
    return _read[key]


def keep() -> None:
    """Keep what is read from now on."""
    ScriptDirectory.from_config = _once
