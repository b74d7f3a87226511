"""The environment's settings: defaults, and a sentence for every value that cannot be used."""

import os
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from resources.settings import NAMES, PROJECT, SettingsError, load_env_file, read, read_data, unknown

ACCOUNT = {"WME_USERNAME": "Ada", "WME_PASSWORD": "not-to-be-seen", "WME_PROJECTS": "enwiki"}


#: Values that a setting cannot have, by the setting and the words of its refusal.
REFUSED = {
    **{(f"WME_{flag}", "use 1 or 0"): ["maybe"] for flag in ("SANDBOX", "WIKIDATA", "ANONYMOUS", "ALLOW_HTTP")},
    ("WME_PROJECTS", "^WME_PROJECTS has '(en/wiki|../etc)'; use database names"): ["en/wiki", "../etc"],
    ("WME_NAMESPACES", "use namespace numbers"): ["zero", "0,-1"],
    ("WME_BODIES", "html,wikitext / none"): ["pdf", "none,html"],
    ("WME_MIN_FREE_GB", "number of gigabytes"): ["lots"],
    ("WME_MAX_RECORD_MB", "a whole number from 16 to 1024"): ["15", "1025", "000000064" + "9" * 5000, "64.5"],
    ("WME_MAX_RECORD_MB", "^WME_MAX_RECORD_MB is '9{59}…; use a maximum record length in MiB"): ["9" * 5000],
    ("WME_FIRST_HOUR", "2026-11-20T05"): ["yesterday"],
    ("WME_GRACE_HOURS", "number of hours from 0 to 1,000,000"): ["-1", "1e9"],
    ("WME_REQUESTS_PER_SECOND", "requests per second"): ["0", "0.0009", "1000001", "nan"],
    ("WME_ENGINE", "dask://host:8786"): ["dask", "dask://host", "dask://:1", "tcp://host:1", "dask://host:1/x"],
    ("WME_WORKERS", "from 1 to 64"): ["0", "65"],
    ("WME_THREADS", "from 1 to 1,024"): ["0", "1025"],
    **{(f"WME_{one}", "from 0 to 1,000,000"): ["-1", "1000001"] for one in ("LOOKUPS_PER_DAY", "CHECK_PAGES")},
    ("WME_STORAGE_VERSION", "v1.5.0 or v2.0.0"): ["1.5"],
    ("WME_DATA", "would read files in other folders"): ["/srv/[old]/data", "what?"],
    ("WME_PUBLISH", r"number of minutes .* \(up to 1,000,000\)"): ["seldom", "0", "nan", "1e12"],
}


REMOTE = ("http://api.example.org", "http://10.0.0.7:8090", "http://localhost.example.org", "HTTP://127.1")


def test_with_nothing_set_the_sandbox_is_used_and_without_an_account_the_service_if_projects_are_named():
    settings = read({})
    assert settings.sandbox
    assert settings.projects == ("enwiki", "frwiki", "simplewiki")
    assert (settings.namespaces, settings.bodies) == ((0,), ("html", "wikitext"))
    assert settings.data == PROJECT / "data" == Path(__file__).parents[3] / "data" == read_data({"WME_DATA": " "})
    assert settings.dagster_home == PROJECT / "data" / "dagster"
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
    assert (settings.projects, settings.namespaces) == (("enwiki", "frwiki"), (0, 10))
    assert settings.bodies == ("html",)
    settings = read(ACCOUNT | {"WME_PROJECTS": " ,", "WME_NAMESPACES": ","}, scoped=False)
    assert (settings.projects, settings.namespaces) == ((), (0,))
    assert (read(ACCOUNT | {"WME_BODIES": "none"}).bodies, read({}).storage_version) == ((), None)
    every = {"": 0, "run": 0, "Run": 0, "0.5": 0.5, "90": 90, "1000000": 1_000_000}
    assert [read({"WME_PUBLISH": one}).publish_every for one in every] == [timedelta(minutes=n) for n in every.values()]
    assert {read({"WME_PUBLISH": one}).publish_every for one in ("off", "OFF")} == {None}


def test_a_settings_file_may_begin_with_a_mark_and_paths_begin_at_it_or_at_home(tmp_path):
    (tmp_path / "mirror.env").write_text("\ufeffWME_CONTACT=ops\n")
    with patch.dict(os.environ, {"WME_ENV_FILE": str(tmp_path / "mirror.env"), "PYTHON_DOTENV_DISABLED": "0"}):
        load_env_file()
        paths = {"~": Path.home(), "~/d": Path.home() / "d", "d": tmp_path / "d", "~d": tmp_path / "~d"}
        assert (os.environ["WME_CONTACT"], {one: read_data({"WME_DATA": one}) for one in paths}) == ("ops", paths)


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
    # the sandbox takes their place
    assert read(ACCOUNT | remote | {"WME_SANDBOX": "1"}).sandbox


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"WME_MEMORY_MB": "255"}, r"^WME_MEMORY_MB is '255'; use a memory limit .* at least 256 \(enough for one"),
        ({"WME_MEMORY_MB": "2 GB"}, r"^WME_MEMORY_MB is '2 GB'; use a memory limit"),
        ({"WME_USERNAME": "ada", "WME_PASSWORD": "x"}, "WME_PROJECTS is not set"),
        ({"WME_ANONYMOUS": "1"}, "WME_PROJECTS is not set"),
        ({"WME_SANDBOX": "0"}, "no account is configured"),
        ({"WME_PASSWORD": "x"}, "WME_PASSWORD is set, but WME_USERNAME is not"),
        (ACCOUNT | {"WME_BASE_URL": "api.example.org"}, r"^WME_BASE_URL is not valid .*; use a URL like"),
        (ACCOUNT | {"WME_AUTH_URL": "https://ada:secret@a.b"}, r"^WME_AUTH_URL is not valid \(the value is hidden "),
        (ACCOUNT | {"WME_REALTIME_URL": "http://[::1"}, r"^WME_REALTIME_URL is not valid"),
        (ACCOUNT | {"WME_AUTH_URL": "https://auth.example.org", "WME_BASE_URL": "x"}, r"^WME_BASE_URL is not valid"),
        *(
            (ACCOUNT | {name: url}, "^The setting .* is an http:// address of another machine.* WME_ALLOW_HTTP=1")
            for name in ("WME_AUTH_URL", "WME_BASE_URL", "WME_REALTIME_URL")
            for url in REMOTE
        ),
        *(({name: text}, words) for (name, words), texts in REFUSED.items() for text in texts),
    ],
)
def test_what_cannot_be_used_is_said(environ, words):
    with pytest.raises(SettingsError, match=words):
        read(environ)


def test_a_variable_that_is_no_setting_is_reported_with_the_nearest_that_is_one():
    elsewhere = (f"WME_{name}" for name in ("NATIVE", "ENV_FILE", "NEW_PASSWORD", "CODE", "LIVE_DOWNLOADS"))
    environ = {"PATH": "", "OTHER_WME_X": "1", **dict.fromkeys((*NAMES, *elsewhere), "0")}
    assert unknown(environ) == []
    near = {"WME_PROJECT": "WME_PROJECTS", "WME_NAMESPACE": "WME_NAMESPACES", "WME_PASWORD": "WME_PASSWORD"}
    told = {name: f"did you mean {other}?" for name, other in (near | {"wme_data": "WME_DATA"}).items()}
    for name, words in (told | {"WME_ZZZZZZZZZZ": "docs/settings.md lists all settings."}).items():
        assert unknown(environ | {name: "not-to-be-seen"}) == [f"{name} is not a setting and has no effect; {words}"]
