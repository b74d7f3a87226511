"""The settings of a mirror: which service, which projects, which folder.

    model         `Settings`: every setting, declared once
    types         what a variable's text means
    environment   reading variables and `.env`

Reading settings touches no network, and no file but `.env`.
"""

from resources.settings.environment import load_env_file, read, read_data, unknown
from resources.settings.model import NAMES, Settings
from resources.settings.types import BODIES, ENV_FILE, PROJECT, SANDBOX_PROJECTS, SettingsError

__all__ = [
    "BODIES",
    "ENV_FILE",
    "NAMES",
    "PROJECT",
    "SANDBOX_PROJECTS",
    "Settings",
    "SettingsError",
    "load_env_file",
    "read",
    "read_data",
    "unknown",
]
