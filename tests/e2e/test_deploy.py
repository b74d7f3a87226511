"""The units for systemd: what they start exists and takes these words, and systemd itself finds nothing wrong."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dagster._daemon.cli import run_command
from dagster_webserver.cli import dagster_webserver

from pipelines import cli
from pipelines.process import instance
from resources.adapters import POOLS

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / "deploy").glob("*.service"))
PARSERS = {"dagster-daemon": (run_command, 1), "dagster-webserver": (dagster_webserver, 0)}


def read(unit):
    parser = configparser.RawConfigParser(strict=True, delimiters=("=",))
    parser.optionxform = str
    parser.read(unit)
    return parser


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_what_a_unit_starts_exists_and_takes_its_words(unit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # its working directory
    instance.prepare(tmp_path / "data" / "dagster")
    service = read(unit)["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert (Path(sys.executable).parent / Path(program).name).exists()
    command, skipped = PARSERS[Path(program).name]
    command.make_context(Path(program).name, words[skipped:], resilient_parsing=False)
    program, *words = shlex.split(service["ExecStartPre"])
    assert Path(program).name == "wme"
    assert cli.wme.commands[words[0]].make_context(words[0], words[1:]).params["prepare"]
    environ = dict(entry.split("=", 1) for entry in shlex.split(service["Environment"]))
    assert environ["DAGSTER_HOME"] == f"{environ['WME_DATA']}/dagster"
    assert service["ReadWritePaths"] == environ["WME_DATA"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong(tmp_path):
    for unit in UNITS:
        # programs must be there to be verified
        (tmp_path / unit.name).write_text(
            unit.read_text().replace("/srv/mirror/.venv/bin", str(Path(sys.executable).parent))
        )
    told = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / unit.name) for unit in UNITS)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")
    # it would say so
    broken = tmp_path / UNITS[0].name
    broken.write_text(broken.read_text().replace("Restart=always", "Restart=sometimes"))
    told = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(broken)], capture_output=True, text=True, timeout=120, check=False
    )
    assert "restart specifier" in told.stderr


def test_what_services_need_is_written_once(tmp_path, monkeypatch):
    from click.testing import CliRunner

    monkeypatch.setenv("WME_DATA", str(tmp_path / "data"))
    home = tmp_path / "data" / "dagster"
    for _ in range(2):
        told = CliRunner().invoke(cli.wme, ["ui", "--prepare"])
        assert (told.exit_code, told.output) == (0, f"Dagster's instance: {home}\n")
        assert yaml.safe_load((home / "workspace.yaml").read_text())["load_from"]
        (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")  # the operator's own stays
    assert "pools" not in (home / "dagster.yaml").read_text()
    with instance.opened(home) as opened:
        assert {pool.name for pool in opened.event_log_storage.get_pool_limits()} >= set(POOLS)
