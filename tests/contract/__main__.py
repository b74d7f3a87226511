"""`python -m tests.contract`: the contract with the service of the configured account (`make test-live`)."""

import os
import sys
from pathlib import Path

import pytest

from resources import settings
from resources.settings import SettingsError


def main(words: list[str]) -> int:
    settings.load_env_file()
    try:
        # which projects are mirrored makes no difference here
        found = settings.read({"WME_PROJECTS": "enwiki", **os.environ})
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if found.username is None or found.password is None:
        sys.stderr.write(
            "No account is configured, so there is no service to compare with. Nothing was sent. "
            "Set WME_USERNAME and WME_PASSWORD, and run the same command again.\n"
        )
        return 2
    # the suite itself knows no setting of the mirror (tests/conftest.py)
    os.environ["TEST_LIVE_AUTH_URL"], os.environ["TEST_LIVE_BASE_URL"] = found.auth_url, found.base_url
    os.environ["TEST_LIVE_USERNAME"], os.environ["TEST_LIVE_PASSWORD"] = (
        found.username,
        found.password.get_secret_value(),
    )
    os.environ["TEST_LIVE_DOWNLOADS"] = os.environ.get("WME_LIVE_DOWNLOADS", "")
    return int(pytest.main([str(Path(__file__).parent), "-q", "-p", "no:cacheprovider", *words]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
