"""The first minutes of a newcomer whose machine is not as expected.

A sentence that says what to do, and no traceback.
"""

import os
import sys

import pytest

from tests.e2e.conftest import ran


def make(*arguments, **environ):
    # the suite itself may be run by make, whose ways these are not to inherit
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return ran("make", "--no-print-directory", *arguments, environ=own | environ | {"MFLAGS": ""})


def test_make_alone_lists_the_commands():
    told = make()
    assert told.code == 0
    for name in ("setup", "run", "test", "soak", "ui", "check", "bench", "sandbox"):
        assert any(line.startswith(name) and len(line.split()) > 2 for line in told.out.splitlines()), name


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 14, 0), (2, 7, 18)])
def test_an_unsupported_python_is_named_with_the_way_out(tmp_path, version):
    other = tmp_path / "python"
    other.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -c "import sys; sys.version_info = {version}; exec(sys.argv[1])" "$2"\n'
    )
    other.chmod(0o755)
    told = make("setup", f"PYTHON={other}", f"VENV={tmp_path}/venv")
    assert told.code != 0
    assert f"This is Python {version[0]}.{version[1]}" in told.err
    assert "make setup PYTHON=python3.12" in told.err
    assert "Traceback" not in told.err
    assert not (tmp_path / "venv").exists()


def test_without_a_network_setup_says_so_and_can_be_repeated(tmp_path):
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0"}
    nowhere |= {"PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": "", "PIP_NO_CACHE_DIR": "1"}
    told = make("setup", f"PYTHON={sys.executable}", f"VENV={tmp_path}/venv", **nowhere)
    assert told.code != 0
    assert "Without a network this cannot work" in told.err
    assert "Then run the same command again" in told.err
    assert "Traceback" not in told.err
    assert not (tmp_path / "venv" / ".made").exists()


def test_setup_is_done_once(tmp_path):
    stamp = tmp_path / ".made"
    stamp.touch()
    told = make("setup", f"VENV={tmp_path}")
    assert told.code == 0
    assert told.out == "make: Nothing to be done for 'setup'.\n"
