"""Failures as `wme run` reports them.

Counted as the table shows the hours, each once, with the dataset where there are several.
"""

import shutil

from pipelines.cli.run import EXAMPLES
from tests.builds import lay

HOUR = "%Y-%m-%dT%H"


def test_failures_agree_with_the_table_and_name_their_dataset(account, call, service, hours, tmp_path):
    environ = account.environ(lay(tmp_path / "data")) | {"WME_WIKIDATA": "1"}
    words = ("run", "--no-reference", "--from")
    # what the account may not fetch ends a run: of the two hours the later one
    failing = f"/v2/*/{hours[2]:%Y-%m-%d}/{hours[2]:%H}/*/download"
    service.faults.add(path=failing, kind="status", status=403, count=None)
    told = call(*words, f"{hours[1]:{HOUR}}", "--to", f"{hours[2]:{HOUR}}", environ=environ)
    service.faults.clear()
    assert told.code == 1
    rows = [
        line.split()[5] for line in told.out.splitlines() if line.startswith(("article_changes ", "entity_changes "))
    ]
    assert (rows.count("loaded"), rows.count("missing")) == (4, 4), told.out
    said = told.err.partition("Error: ")[2].splitlines()
    for dataset, line in zip(("article_changes", "entity_changes"), said[::2], strict=True):
        assert line == f"{dataset}: 1 of 2 hours failed. The other hour is loaded."
    assert all(line.startswith(f"- {hours[2]:%Y-%m-%d %H:00}: ") for line in said[1::2])
    assert not any(question in told.out for question in EXAMPLES)

    told = call(*words, f"{hours[2]:{HOUR}}", environ=environ | {"WME_MIN_FREE_GB": "999999"})
    said = told.err.partition("Error: ")[2].splitlines()
    assert [
        line.partition(" must leave 999,999.0 GB of disk space free (WME_MIN_FREE_GB), ")[0].split(" about ")[0]
        for line in said
    ] == ["article_changes: The run needs", "entity_changes: The run needs"]


def test_what_meets_every_dataset_alike_is_said_once(call, filled, hours, tmp_path):
    data = shutil.copytree(filled[0]["WME_DATA"], tmp_path / "data")
    (data / "state" / "tokens.json").unlink()
    environ = filled[0] | {"WME_DATA": str(data), "WME_WIKIDATA": "1", "WME_PASSWORD": "Wr0ng-password!"}
    told = call("run", "--no-reference", "--from", f"{hours[2]:{HOUR}}", environ=environ)
    said = told.err.partition("Error: ")[2]
    assert said.count("Check WME_USERNAME and WME_PASSWORD") == 1, said
    assert "_changes: " not in said
