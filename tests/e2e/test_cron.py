"""A mirror that cron alone keeps, by the lines of `docs/run.md`."""

import re
from pathlib import Path

from resources.warehouse import Warehouse
from tests.builds import lay
from tests.e2e.conftest import ROOT, bare, ran


def test_the_lines_for_cron_keep_a_mirror_whole_and_silent(account, service, call, hours, tmp_path):
    """In this process, but the last time that the first line runs: as cron gives it to a shell. All begin alike."""
    text = (ROOT / "docs" / "run.md").read_text()
    [recipe] = re.findall(r"^```cron\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    project, backups = tmp_path / "srv", tmp_path / "backups"
    project.mkdir()
    (project / ".venv").symlink_to(ROOT / ".venv")
    beginning = f"cd {project} && .venv/bin/wme "
    commands = [re.fullmatch(r"(?:[\d*]+ +){5}(.+)", line)[1] for line in recipe.splitlines()]
    lines = [line.replace("/srv/mirror", str(project)).replace("/mnt/backup/mirror", str(backups)) for line in commands]
    assert all(line.startswith(beginning) for line in lines)
    environ = account.environ(lay(tmp_path / "data"))
    warehouse = Warehouse(Path(environ["WME_DATA"]))

    def run(line):
        assert call(*line.removeprefix(beginning).split(), environ=environ) == (0, "", "")

    def snapshots():
        (loaded,) = warehouse.sql(
            "SELECT list(snapshot_version) FROM snapshots WHERE table_name = 'snapshot_articles'"
        ).rows
        assert warehouse.sql("SELECT DISTINCT state FROM hours WHERE state NOT IN ('loaded', 'empty')").rows == []
        return set(loaded[0])

    try:
        # a snapshot from before the newest hours: a run fetches all hours since
        service.clock.set(hours[-1])
        for name in ("enwiki_namespace_0", "frwiki_namespace_0"):
            service.exports.export(name)
        service.clock.release()
        for line in lines:
            run(line)
        first, states = snapshots(), warehouse.project_states()
        assert len(first) == 2
        assert all(state.exact_from_at < state.exact_until_at for state in states), states
        service.exports.export("enwiki_namespace_0")
        # the first line again, and the backup: nothing else depends on what was there before
        assert ran("/bin/sh", "-c", lines[0], environ=bare() | environ) == (0, "", "")
        run(next(line for line in lines if "backup" in line))
        assert len(snapshots() - first) == 1, "the newer snapshot was fetched and loaded"
        later = {state.project_id: state.base_boundary_at for state in warehouse.project_states()}
        assert [later[state.project_id] > state.base_boundary_at for state in states] == [True, False]
    finally:
        service.clock.release()
        service.exports.clear()
    assert len(list(backups.glob("*/MD5SUMS"))) == 2
