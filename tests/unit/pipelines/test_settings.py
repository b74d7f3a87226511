"""The environment's settings: defaults, and a sentence for every value that cannot be used."""

import os
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from resources.settings import NAMES, PROJECT, SettingsError, load_env_file, read, read_data, unknown
from resources.settings.types import host

ACCOUNT = {"WME_USERNAME": "Ada", "WME_PASSWORD": "not-to-be-seen", "WME_PROJECTS": "enwiki"}


#: Settings that cannot be used (`account`: besides those of an account), and what their refusal matches.
REFUSED = [line.split(" | ") for line in Path(__file__).with_name("refused_settings.txt").read_text().splitlines()]
REFUSED += [("WME_MAX_RECORD_MB=000000064" + "9" * 5000, "a whole number from 16 to 1024")]
REFUSED += [("WME_MAX_RECORD_MB=" + "9" * 5000, "^WME_MAX_RECORD_MB is '9{59}…; use a maximum record length in MiB")]


def test_with_nothing_set_the_sandbox_is_used_and_without_an_account_the_service_if_projects_are_named():
    settings = read({})
    assert settings.sandbox
    assert settings.projects == ("enwiki", "frwiki", "simplewiki")
    assert (settings.namespaces, settings.bodies) == ((0,), ("html", "wikitext"))
    assert settings.data == PROJECT / "data" == Path(__file__).parents[3] / "data" == read_data({"WME_DATA": " "})
    assert settings.dagster_home == PROJECT / "data" / "dagster"
    numbers = {"min_free_gb": 1, "max_record_mb": 64, "workers": 4, "grace_hours": 24, "lookups_per_day": 100}
    assert {name: getattr(settings, name) for name in numbers} == numbers
    assert all(read(one).sandbox for one in ({"WME_SANDBOX": "1", "WME_PASSWORD": "x"}, {"WME_USERNAME": " "}))
    settings = read({"WME_ANONYMOUS": "1", "WME_PROJECTS": "enwiki", "WME_PASSWORD": "x"})
    assert (settings.anonymous, settings.sandbox) == (True, False)


def test_an_account_switches_the_sandbox_off_unless_it_is_forced_and_its_password_shows_nowhere():
    settings = read(ACCOUNT)
    assert (settings.sandbox, settings.username) == (False, "ada")
    assert settings.password.get_secret_value() == "not-to-be-seen"
    assert settings.base_url == "https://api.enterprise.wikimedia.com"
    assert "not-to-be-seen" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert read(ACCOUNT | {"WME_SANDBOX": "1"}).sandbox
    assert read({"WME_SANDBOX": "0", **ACCOUNT, "WME_BASE_URL": "http://127.0.0.1:1/"}).base_url == "http://127.0.0.1:1"


def test_lists_are_split_and_times_to_publish_are_read():
    given = {"WME_PROJECTS": " enwiki, frwiki ,enwiki,", "WME_NAMESPACES": "0,10", "WME_BODIES": "html"}
    settings = read(ACCOUNT | given)
    assert (settings.projects, settings.namespaces, settings.bodies) == (("enwiki", "frwiki"), (0, 10), ("html",))
    settings = read(ACCOUNT | {"WME_PROJECTS": " ,", "WME_NAMESPACES": ","}, scoped=False)
    assert (settings.projects, settings.namespaces) == ((), (0,))
    assert (read(ACCOUNT | {"WME_BODIES": "none"}).bodies, read({}).storage_version) == ((), None)
    every = {"": 0, "run": 0, "Run": 0, "0.5": 0.5, "90": 90, "1000000": 1_000_000}
    assert [read({"WME_PUBLISH": one}).publish_every for one in every] == [timedelta(minutes=n) for n in every.values()]
    assert {read({"WME_PUBLISH": one}).publish_every for one in ("off", "OFF")} == {None}


def test_a_settings_file_may_begin_with_a_mark_and_paths_begin_at_it_or_at_home(tmp_path, monkeypatch):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/secret").write_text("\ufeffWME_CONTACT=ops\nWME_NAMESPACES=0\n")
    (tmp_path / "mirror.env").symlink_to("kept/secret")
    monkeypatch.chdir(tmp_path)
    own = {"WME_ENV_FILE": "mirror.env", "PYTHON_DOTENV_DISABLED": "0", "WME_NAMESPACES": "14"}
    with patch.dict(os.environ, own):
        load_env_file()
        # the environment has the last word, and processes that start in another folder find the file
        assert {**own, "WME_ENV_FILE": str(tmp_path / "mirror.env"), "WME_CONTACT": "ops"}.items() <= os.environ.items()
        paths = {"~": Path.home(), "~/d": Path.home() / "d", "d": tmp_path / "d", "~d": tmp_path / "~d"}
        assert {one: read_data({"WME_DATA": one}) for one in paths} == paths
        (tmp_path / "half.env").write_text('WME_CONTACT=other\nWME_NAMESPACES="0,10\n')
        for name, problem in (("half.env", "line 2 .*"), ("[old]/mirror.env", "No such file or directory")):
            os.environ["WME_ENV_FILE"] = str(tmp_path / name)
            with pytest.raises(SettingsError, match=rf"{name.replace('[', '.')} cannot be read \({problem}\)\. "):
                load_env_file()
        with pytest.raises(SettingsError, match="would read files in other folders"):
            read_data({"WME_DATA": "d"})


def test_the_port_of_a_host_is_that_of_the_scheme_or_said():
    hosts = {"a.b:443": ("a.b", None), "A.b.:80": ("a.b", None), "[::1]:8443": ("[::1]", 8443), "a:\uff18\uff10": None}
    assert {one: host(one) for one in hosts} == hosts


def test_the_lowest_and_the_highest_number_of_each_setting_are_accepted():
    bounds = {"max_record_mb": (16, 1024), "workers": (1, 64), "threads": (1, 1024), "memory_mb": (256, 1_000_000)}
    bounds |= dict.fromkeys(("min_free_gb", "grace_hours", "lookups_per_day", "check_pages"), (0, 1_000_000))
    for name, numbers in (bounds | {"requests_per_second": (0.001, 1_000_000)}).items():
        assert [getattr(read({f"WME_{name.upper()}": str(one)}), name) for one in numbers] == list(numbers)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://localhost:2", "http://[::1]:3", "http://api.localhost", "https://a.b"]
)
def test_open_connections_stay_on_this_machine_unless_they_are_allowed(url):
    names = ("WME_AUTH_URL", "WME_BASE_URL", "WME_REALTIME_URL")
    assert read(ACCOUNT | dict.fromkeys(names, url)).auth_url == url
    remote = dict.fromkeys(names, "http://api.example.org")
    assert read(ACCOUNT | remote | {"WME_ALLOW_HTTP": "1"}).base_url == "http://api.example.org"
    assert read(ACCOUNT | {"WME_ENGINE": "dask://[::1]:8786"}).engine == "dask://[::1]:8786"
    # the sandbox takes their place
    assert read(ACCOUNT | remote | {"WME_SANDBOX": "1"}).sandbox


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=lambda text: text[:60])
def test_what_cannot_be_used_is_said(given, words):
    environ = dict(one.split("=", 1) for one in given.removeprefix("account & ").split(" & "))
    with pytest.raises(SettingsError, match=words):
        read(ACCOUNT | environ if given.startswith("account") else environ)


def test_a_variable_that_is_no_setting_is_reported_with_the_nearest_that_is_one():
    elsewhere = (f"WME_{name}" for name in ("NATIVE", "ENV_FILE", "NEW_PASSWORD", "CODE", "LIVE_DOWNLOADS"))
    environ = {"PATH": "", "OTHER_WME_X": "1", **dict.fromkeys((*NAMES, *elsewhere), "0")}
    assert unknown(environ) == []
    near = {"WME_PROJECT": "WME_PROJECTS", "WME_NAMESPACE": "WME_NAMESPACES", "WME_PASWORD": "WME_PASSWORD"}
    told = {name: f"did you mean {other}?" for name, other in (near | {"wme_data": "WME_DATA"}).items()}
    for name, words in (told | {"WME_ZZZZZZZZZZ": "docs/settings.md lists all settings."}).items():
        assert unknown(environ | {name: "not-to-be-seen"}) == [f"{name} is not a setting and has no effect; {words}"]
