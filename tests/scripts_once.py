"""Read Alembic's fifty scripts of revisions once in a process, which Dagster reads twice for each history."""

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
