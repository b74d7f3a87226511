"""What is kept between events changes nothing of the history, and leaves nothing behind."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
from alembic.script import ScriptDirectory

from pipelines import cli
from pipelines.process import dagster_storages, history, instance

ROOT = Path(__file__).resolve().parents[3]


@dg.asset
def looked_at() -> None:
    """Nothing."""


def test_engines_and_scripts_are_made_once_and_no_database_stays_open(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")
    made: list[str] = []

    def counted(address: str, **options: object) -> object:
        made.append(Path(address.removeprefix("sqlite:///")).name)
        return kept(address, **options)

    kept = dagster_storages.create_engine
    monkeypatch.setattr(dagster_storages, "create_engine", counted)
    with instance.opened(tmp_path / "first"):
        pass  # what is kept is so from the first instance on
    defs = dg.Definitions(assets=[looked_at], jobs=[dg.define_asset_job("look")]).resolve_job_def("look")
    for folder in ("one", "other", "one"):
        made.clear()
        read = ScriptDirectory.from_config.cache_info().misses
        with instance.opened(tmp_path / folder) as opened:
            before = opened.get_runs_count()
            runs = [defs.execute_in_process(instance=opened) for _ in range(2)]
            # what one engine wrote is what a new one reads
            history._engine.cache_clear()
            assert opened.get_runs_count() == before + 2
            for run in runs:
                assert len(opened.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)) == 1
        assert sorted(made[:5]) == sorted(
            {"runs.db", "schedules.db", "index.db", *(f"{run.run_id}.db" for run in runs)}
        )
        assert ScriptDirectory.from_config.cache_info().misses - read <= history.FOLDERS
    found = [os.path.realpath(entry.path) for entry in os.scandir("/proc/self/fd")]
    assert not [path for path in found if path.startswith(str(tmp_path)) and path.endswith(".db")]


@pytest.mark.parametrize("order", ["definitions first", "instance first"])
def test_all_that_dagster_keeps_in_sqlite_goes_through_it(tmp_path: Path, order: str) -> None:
    definitions, opened = (
        "from pipelines.definitions import defs; defs()",
        f"import dagster; dagster.DagsterInstance.local_temp({str(tmp_path)!r})",
    )
    steps = [definitions, opened] if order.startswith("definitions") else [opened, definitions]
    program = f"""
import sys
{steps[0]}
assert ("sqlalchemy" in sys.modules) == {order.startswith("instance")}, "imported before it is needed"
{steps[1]}
from pipelines.process import dagster_storages, history
assert {{storage.create_engine for storage in dagster_storages.SQLITE_STORAGES}} == {{history.engine}}
"""
    environ = {**os.environ, "WME_DATA": str(tmp_path / "data"), "PYTHON_DOTENV_DISABLED": "1"}
    subprocess.run([sys.executable, "-c", program], env=environ, check=True, timeout=600, cwd=ROOT)


@pytest.mark.parametrize("what", ["disk I/O error", "unable to open database file"])
def test_a_history_that_the_disk_refuses_is_a_sentence(tmp_path: Path, monkeypatch, capsys, what: str) -> None:
    home = instance.prepare(tmp_path / "home")

    def command(**_: object) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        if what.startswith("unable"):
            (home / "history/runs.db").mkdir(parents=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        try:
            with instance.opened(home):
                pass
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setattr(cli.wme, "main", command)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    assert f"The history of runs could not be read or written ({what}): its disk is full, or failing." in " ".join(
        capsys.readouterr().err.split()
    )
