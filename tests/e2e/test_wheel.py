"""The package as a wheel, in an environment of its own outside the checkout."""

import contextlib
import os
import shutil
import signal
import sys
import sysconfig
from pathlib import Path

import duckdb
import pytest
import yaml

from resources.sandbox.process import find
from tests import containerfile
from tests.e2e.conftest import ran
from tests.e2e.programs import ROOT

#: The main job, and what else is in the package, told in one process: the report, and where Dagster's part begins.
PROGRAM = """
import importlib, sys
from pathlib import Path
import pipelines, assets, resources
from pipelines.cli import wme
from pipelines.process import processes
from resources import connection, sandbox
from resources.settings import PROJECT
small = {"projects": ["simplewiki"], "namespaces": [14], "entities": 0}
connection.sandbox_settings = lambda data: sandbox.Settings(state=data / "sandbox", **small)
wme(["run", "--hours", "1", "--no-reference"], standalone_mode=False)
wme(["report"], standalone_mode=False)
print(pipelines.__file__)
print(*[(Path(one.__file__).parent / "py.typed").exists() for one in (pipelines, assets, resources)])
print(processes.prepare(Path("mirror/dagster")))
print(PROJECT)
print(importlib.import_module(sys.argv[1]).defs().resolve_job_def("hour_to_published").name)
"""
#: A wheel is built, an environment made, and the whole main job run: minutes on a machine that others use as well.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def place(tmp_path):
    """A folder with an environment `env` that has the wheel and the packages it needs, and nothing of the checkout."""
    folder = tmp_path / "elsewhere"
    source = folder / "source"
    source.mkdir(parents=True)
    built_here = shutil.ignore_patterns("__pycache__", "*.so", "*.dylib")
    # what the container file copies is enough to build the package
    for name in containerfile.copied():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=built_here, symlinks=True)
        else:
            shutil.copy(ROOT / name, source)
    # as pip does, which starts three processes for it
    building = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    ran(sys.executable, "-c", building, folder, cwd=source).done()
    shutil.rmtree(source)
    [wheel] = folder.glob("*.whl")
    ran(sys.executable, "-m", "venv", "--without-pip", folder / "env").done()
    python = folder / "env" / "bin" / "python"
    site = Path(ran(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").done().out.strip())
    # the packages of this environment; its own .pth files, one of which leads to the checkout, count only there
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", python)
    ran(*pip, "install", "--no-deps", "--no-index", "--no-compile", wheel).done()
    yield folder
    if (record := find(folder / "mirror" / "sandbox")) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, signal.SIGTERM)


def call(place, program, *words):
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("WME_", "PYTHON", "DAGSTER_"))}
    environ |= {"WME_PROJECTS": "simplewiki", "WME_NAMESPACES": "14", "DAGSTER_DISABLE_TELEMETRY": "1"}
    return ran(place / "env" / "bin" / program, *words, cwd=place, environ=environ)


def test_the_main_job_runs_from_a_wheel_in_any_folder(place):
    (place / ".env").write_text("WME_DATA=mirror\n")  # as in a checkout, for the folder that it is started in
    published, told = place / "mirror" / "warehouse.duckdb", call(place, "wme", "status")
    assert f"! There is no published file {published}" in told.out, told.err
    module = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"][0]["python_module"]["module_name"]
    told = call(place, "python", "-c", PROGRAM, module).done()
    assert str(published) in told.out
    with duckdb.connect(str(published), read_only=True) as connection:
        pages = "articles JOIN article_bodies USING (project_id, article_id, version_id, source_at)"
        [(articles, bodies)] = connection.sql(f"SELECT count(*), count(wikitext) FROM {pages}").fetchall()
    assert articles == bodies > 500
    *_, package, typed, home, project, job = told.out.splitlines()
    assert "<svg" in (place / "mirror" / "report.html").read_text("utf-8")
    # and it was the installed package
    assert package.startswith(str(place / "env"))
    assert typed == "True True True"
    # the files that `wme ui` and services start from are in the package
    assert (home, project) == (str(place / "mirror" / "dagster"), str(place))
    for name, original in (("dagster.yaml", "dagster.example.yaml"), ("workspace.yaml", "workspace.yaml")):
        assert (place / "mirror" / "dagster" / name).read_bytes() == (ROOT / original).read_bytes()
    assert job == "hour_to_published"
