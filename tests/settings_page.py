"""The page of all settings and `.env.example`, rendered from the settings model."""

from resources.settings import Settings

_HEAD = """\
# Settings

Every setting is an environment variable. You can also set the variables in a `.env` file in the project folder, which
contains `workspace.yaml`. Environment variables take precedence over `.env`. The file [.env.example](../.env.example)
contains an example of each setting.

- Relative paths in `.env` and the default data folder `data` are resolved against the folder that contains `.env`. The
  current folder does not matter. In an [installation from a wheel](install.md#from-a-wheel), commands read `.env` and
  `data` from the current folder.
- To use another settings file, run `wme --env-file FILE …` or set the `WME_ENV_FILE` variable. The project's `.env` is
  then not read. `dagster dev` also reads `.env` from the current folder.
- If a value is invalid, the command fails before it starts any work. Unknown variables that begin with `WME_` have no
  effect. Commands warn about unknown variables and suggest the most similar setting.
- Every command that writes data first prints one line with the service, the data folder and the settings file. To
  suppress this line, use `--quiet`.

The `python -m tests.generated` command generates this page from the settings model, and a test detects differences.
"""
GROUPS = {
    "Account and service": "username password anonymous contact requests_per_second sandbox",
    "Content of the mirror": "projects namespaces wikidata bodies max_record_mb",
    "Data folder and disk": "data min_free_gb grace_hours first_hour",
    "Processor and memory": "workers threads memory_mb engine",
    "Publishing": "publish_every storage_version",
    "Lookups": "watchlist lookups_per_day check_pages",
    "Dagster": "ui_hosts on_failure",
    "Addresses of another service": "auth_url base_url realtime_url allow_http",
}
#: Example of each setting; none for a password and for addresses of the real service.
EXAMPLES = {
    "username": "you",
    "projects": "enwiki,frwiki",
    "namespaces": "0",
    "wikidata": "1",
    "bodies": "html,wikitext",
    "data": "data",
    "contact": "ops@example.org",
    "anonymous": "1",
    "sandbox": "1",
    "min_free_gb": "1",
    "max_record_mb": "64",
    "engine": "dask://127.0.0.1:8786",
    "workers": "4",
    "threads": "2",
    "memory_mb": "2048",
    "first_hour": "2026-11-20T05",
    "grace_hours": "24",
    "requests_per_second": "10",
    "watchlist": "watchlist.txt",
    "lookups_per_day": "100",
    "check_pages": "10",
    "publish_every": "run",
    "storage_version": "v1.5.0",
    "ui_hosts": "mirror.example.org",
    "on_failure": "https://ops.example.org/hooks/mirror",
    "allow_http": "1",
}


def render() -> str:
    """Return the page (Markdown); a `KeyError` names a setting that belongs to no group."""
    fields = dict(Settings.model_fields)
    parts = [_HEAD]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n\n| variable | meaning | default | example |\n|---|---|---|---|")
        for name in names.split():
            field = fields.pop(name)
            meaning, _, default = (field.description or "").partition(" Default: ")
            example = f"`{EXAMPLES[name]}`" if name in EXAMPLES else ""
            parts.append(
                f"| `{field.validation_alias}` | {meaning.rstrip('.')} | {default.rstrip('.') or 'none'} | {example} |"
            )
        parts.append("")
    if fields:
        raise KeyError(", ".join(fields))
    return "\n".join(parts).rstrip() + "\n"


_EXAMPLE_HEAD = """\
# Copy this file to .env in the same folder, or set the variables in the environment. Git ignores .env. All settings
# are optional. Without an account, the built-in sandbox is used.
"""


def render_example() -> str:
    """Return the text of `.env.example`: each setting with its description."""
    entries = [
        f"# {(field.description or '').replace('`', '')}\n#{field.validation_alias}={EXAMPLES.get(name, '')}\n"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join([_EXAMPLE_HEAD, *entries])
