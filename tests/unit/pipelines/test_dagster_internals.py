"""What is used of Dagster and not published: a change of it is noticed here, and only one module names it."""

import re
import resource
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage import tags

from assets.layers import RunTag
from pipelines import cli
from pipelines.process import processes

ROOT = Path(__file__).resolve().parents[3]
#: Our names of tags, by Dagster's.
TAGS = {
    "ASSET_PARTITION_RANGE_END_TAG": RunTag.RANGE_END,
    "ASSET_PARTITION_RANGE_START_TAG": RunTag.RANGE_START,
    "BACKFILL_ID_TAG": RunTag.BACKFILL,
    "HIDDEN_TAG_PREFIX": RunTag.HIDDEN,
    "MAX_RETRIES_TAG": RunTag.MAX_RETRIES,
    "PARTITION_NAME_TAG": RunTag.PARTITION,
    "ROOT_RUN_ID_TAG": RunTag.ROOT_RUN,
    "RUN_FAILURE_REASON_TAG": RunTag.FAILURE_REASON,
    "RUN_KEY_TAG": RunTag.RUN_KEY,
    "SCHEDULE_NAME_TAG": RunTag.SCHEDULE,
    "SENSOR_NAME_TAG": RunTag.SENSOR,
    "WILL_RETRY_TAG": RunTag.WILL_RETRY,
}


def test_only_one_module_names_what_dagster_does_not_publish_and_that_is_still_there():
    sources = [path for folder in ("pipelines", "assets", "resources") for path in (ROOT / folder).rglob("*.py")]
    naming = [path.name for path in sources if re.search(r"\bdagster\._", path.read_text())]
    assert naming == ["dagster_internals.py"]
    assert {name: getattr(tags, name) for name in TAGS} == TAGS
    # importing it takes half a second, and every worker imports this module
    from dagster_webserver import app

    assert callable(app.DagsterWebserver.build_middleware)


def test_an_instance_of_this_process_copies_no_output(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", "")
    with processes.opened(tmp_path) as opened:
        assert type(opened.compute_log_manager).__name__ == "NoOpComputeLogManager"
        assert isinstance(opened, dg.DagsterInstance)


@pytest.mark.parametrize("what", ["disk I/O error", "unable to open database file"])
def test_a_history_that_the_disk_refuses_is_a_sentence(tmp_path: Path, monkeypatch, capsys, what: str) -> None:
    home = processes.prepare(tmp_path / "home")

    def command(**_: object) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        if what.startswith("unable"):
            (home / "history/runs.db").mkdir(parents=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        try:
            with processes.opened(home):
                pass
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setattr(cli.wme, "main", command)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    assert f"Dagster's run history could not be read or written ({what}). The disk is full or failing." in " ".join(
        capsys.readouterr().err.split()
    )
