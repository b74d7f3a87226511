"""What services are started from, units for systemd and the image of containers, exists and takes these words."""

import configparser
import inspect
import re
import shlex
import shutil
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from dagster._core.instance.ref import InstanceRef
from dagster._daemon.cli import liveness_check_command, run_command
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pipelines import cli
from pipelines.process import processes
from resources.adapters import POOLS
from tests import containerfile
from tests.e2e.conftest import ran
from tests.e2e.programs import ROOT
from tests.local_cluster import free_port

UNITS = sorted((ROOT / "deploy").glob("*.service"))
HADOLINT = Path(sys.executable).with_name("hadolint")


def parser_of(program):
    """The words that name a program's command, and what parses the rest."""
    if program == "dagster-daemon":
        return ["run"], run_command
    assert program == "python"
    from dagster_webserver.cli import dagster_webserver

    # Dagster's web server with the guard, never its own
    return ["-m", "pipelines.process.webserver"], dagster_webserver


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_what_a_unit_starts_exists_and_takes_its_words(unit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # its working directory
    processes.prepare(tmp_path / "data" / "dagster")
    parser = configparser.RawConfigParser(strict=True, delimiters=("=",))
    parser.optionxform = str
    parser.read(unit)
    service = parser["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert (Path(sys.executable).parent / Path(program).name).exists()
    named, command = parser_of(Path(program).name)
    assert words[: len(named)] == named
    command.make_context(Path(program).name, words[len(named) :], resilient_parsing=False)
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
        text = unit.read_text().replace("/srv/mirror/.venv/bin", str(Path(sys.executable).parent))
        (tmp_path / unit.name).write_text(text)
    verify = ("systemd-analyze", "verify", "--man=no")
    assert ran(*verify, *(tmp_path / unit.name for unit in UNITS)) == (0, "", "")
    # it would say so
    broken = tmp_path / UNITS[0].name
    broken.write_text(broken.read_text().replace("Restart=always", "Restart=sometimes"))
    assert "restart specifier" in ran(*verify, broken).err


def test_what_services_need_is_written_once(tmp_path, monkeypatch):
    from click.testing import CliRunner

    monkeypatch.setenv("WME_DATA", str(tmp_path / "data"))
    home = tmp_path / "data" / "dagster"
    for _ in range(2):
        told = CliRunner().invoke(cli.wme, ["ui", "--prepare"])
        assert (told.exit_code, told.stdout) == (0, f"Dagster's instance: {home}\n")
        assert yaml.safe_load((home / "workspace.yaml").read_text())["load_from"]
        (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")  # the operator's own stays
    assert "pools" not in (home / "dagster.yaml").read_text()
    with processes.opened(home) as opened:
        assert {pool.name for pool in opened.event_log_storage.get_pool_limits()} >= set(POOLS)
    served, port = [], free_port()
    monkeypatch.setattr(processes, "serve", lambda *given: served.append(given))
    told = CliRunner().invoke(cli.wme, ["ui", "--port", str(port)]).stderr
    assert told.endswith(f"The Dagster UI will be at http://127.0.0.1:{port} in a few seconds. Ctrl-C stops it.\n")
    assert served == [(tmp_path / "data", port)]


def started(command):
    """The program that a shell line of a container prepares the instance for and becomes, with its words."""
    shell, option, line = command
    assert (shell, option) == ("sh", "-c")
    before, _, program = line.partition(" && exec ")
    assert before == "wme ui --prepare"
    return shlex.split(program)


def compose():
    return yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())


def test_what_containers_start_exists_and_takes_its_words(tmp_path):
    processes.prepare(tmp_path / "dagster")
    services = compose()["services"]
    last = [one for one in containerfile.instructions() if one.name == "CMD"][-1]
    assert "command" not in services["web"], "it is the image's own"
    for command in (last.words, services["daemon"]["command"]):
        program, *words = started(command)
        named, parser = parser_of(program)
        assert words[: len(named)] == named
        words = [word.replace("/data", str(tmp_path)) for word in words]
        parser.make_context(program, words[len(named) :], resilient_parsing=False)
    assert services["daemon"]["healthcheck"]["test"] == ["CMD", "dagster-daemon", liveness_check_command.name]
    [healthy] = [one.words for one in containerfile.instructions() if one.name == "HEALTHCHECK"]
    compile(healthy[-1], "healthcheck", "exec")
    path = re.search(r"127\.0\.0\.1:3000(/\w+)", healthy[-1])[1]
    from dagster_webserver.webserver import DagsterWebserver

    assert f'"{path}"' in inspect.getsource(DagsterWebserver.build_routes)


def test_what_the_image_is_built_from_is_there_and_nothing_else_is_sent():
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = containerfile.copied()
    assert set(copied) == allowed
    assert all((ROOT / name).exists() for name in copied)
    # no secret and no data could be, whatever lies beside them
    assert not allowed & {".env", "data", ".git", ".venv"}
    final = containerfile.instructions()
    final = {one.name: one for one in final[max(place for place, one in enumerate(final) if one.name == "FROM") :]}
    assert final["USER"].text.split(":")[0].isdigit()
    assert final["VOLUME"].text == "/data"
    assert "WME_DATA=/data" in final["ENV"].words
    for service in compose()["services"].values():
        assert service["volumes"] == ["data:/data"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_steps_of_the_image_take_the_locked_versions():
    """Each entry of the lock has hashes, and the builder's lines are pip's, as pip reads them."""
    from pip._internal.commands import create_command

    entries = re.split(r"^(?=[a-z])", (ROOT / "requirements-runtime.lock").read_text(), flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)
    assert any(entry.startswith("setuptools==") for entry in entries)
    lines = [one.text for one in containerfile.instructions() if one.name == "RUN" and "pip" in one.text]
    found = re.findall(r"pip ((?:wheel|install) [^&\n]*)", "\n".join(lines))
    assert [shlex.split(words)[0] for words in found] == ["wheel", "install", "wheel", "install"]
    for words in found:
        name, *rest = shlex.split(words)
        options, _ = create_command(name, isolated=True).parse_args(rest)
        # from the lock, or from nowhere but what the lock gave
        assert options.no_index != (options.require_hashes and options.requirements == ["requirements-runtime.lock"])
        assert options.find_links in ([], ["wheels"])


def pinned(path):
    """Version and hashes of each package of a lock file, by its canonical name."""
    entries = re.split(r"^(?=[a-z0-9])", path.read_text(), flags=re.MULTILINE)[1:]
    found = {}
    for entry in entries:
        requirement = Requirement(entry.partition("\\")[0].strip())
        hashes = sorted(re.findall(r"--hash=\S+", entry))
        found[canonicalize_name(requirement.name)] = (str(requirement.specifier), hashes)
    return found


def needed(*texts):
    """Names of the packages that these requirements mean on this machine, with those that they need in turn."""
    names, waiting = set(), [Requirement(text) for text in texts]
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        key = (name, *sorted(one.extras))
        if key not in names and (one.marker is None or one.marker.evaluate({"extra": ""})):
            names.add(key)
            for text in metadata.requires(name) or ():
                below = Requirement(text)
                if below.marker is None or any(below.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)):
                    below.marker = None
                    waiting.append(below)
    return {name for name, *_ in names}


def test_lock_of_the_runtime_is_the_part_of_the_whole_lock_that_the_package_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    runtime, whole = pinned(ROOT / "requirements-runtime.lock"), pinned(ROOT / "requirements.lock")
    assert runtime == {name: whole[name] for name in runtime}
    declared = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["dask"]]
    assert needed(*declared, *project["dependency-groups"]["build"]) <= runtime.keys()
    # no tool of the developer's, whatever this machine is
    assert not runtime.keys() & {"pytest", "playwright", "mypy", "ruff", "uv", "polars", "marimo", "hypothesis"}
    assert not re.search(r"https?://|--index-url", (ROOT / "requirements-runtime.lock").read_text())


@pytest.mark.skipif(not HADOLINT.exists(), reason="hadolint has no wheel for this machine; the lock omits it")
def test_linter_of_container_files_finds_nothing():
    assert ran(HADOLINT, "--no-color", containerfile.PATH)[:2] == (0, "")


def test_history_in_postgres_is_read_by_dagster(tmp_path):
    text = processes.TEMPLATE.read_text()
    before = InstanceRef.from_dir(str(processes.prepare(tmp_path / "before"))).storage_data
    assert before.class_name == "DagsterSqliteStorage"
    (tmp_path / "dagster.yaml").write_text(re.sub(r"^#(?=storage:|  )", "", text, flags=re.MULTILINE))
    data = InstanceRef.from_dir(str(tmp_path)).storage_data
    assert (data.module_name, data.class_name) == ("dagster_postgres", "DagsterPostgresStorage")
    assert data.config_dict["postgres_url"] == {"env": "DAGSTER_POSTGRES_URL"}
