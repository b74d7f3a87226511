"""What every test starts from: no account, no telemetry, no address but loopback's."""

from __future__ import annotations

import os

os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
# a developer's own .env is none of the tests' business
os.environ["PYTHON_DOTENV_DISABLED"] = "1"
#: Set while the suite runs, so that definitions imported anywhere belong to no real account.
for _name in [name for name in os.environ if name.startswith("WME_")]:
    del os.environ[_name]
os.environ.pop("DAGSTER_HOME", None)
