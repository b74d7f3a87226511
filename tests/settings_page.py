"""The page of all settings and `.env.example`, rendered from the settings model."""

from __future__ import annotations

from resources.settings import Settings

_HEAD = """\
# Settings

Every setting is an environment variable. The variable can also be set in a file `.env` in the project's folder, which
contains `workspace.yaml`; the environment takes precedence. [.env.example](../.env.example) has a line for each one.

- A relative path in `.env`, and the default data folder `data`, belong to the folder of `.env`, wherever `wme`, `make`,
  `dg` or a notebook is started. In an [installation from a wheel](install.md#from-a-wheel), `.env` and `data`
  belong to the folder in which a command is started.
- `wme --env-file FILE …` or the variable `WME_ENV_FILE` names another settings file. The project's `.env` is then not
  read. `dagster dev` also reads a `.env` in the folder in which it is started.
- An invalid value ends a command before it starts. An unknown variable that begins with `WME_` has no effect; commands
  warn about it and suggest the nearest setting.
- Every command that writes first prints one line with the service, the data folder and the settings file. `--quiet`
  suppresses the line.

`python -m tests.generated` writes this page from the settings model; a test notices when the two differ.
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


def render() -> str:
    """Return the page (Markdown); a `KeyError` names a setting that belongs to no group."""
    fields = dict(Settings.model_fields)
    parts = [_HEAD]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n\n| variable | meaning | default | example |\n|---|---|---|---|")
        for name in names.split():
            field = fields.pop(name)
            meaning, _, default = (field.description or "").partition(" Default: ")
            example = f"`{field.examples[0]}`" if field.examples and field.examples[0] else ""
            parts.append(
                f"| `{field.validation_alias}` | {meaning.rstrip('.')} | {default.rstrip('.') or 'none'} | {example} |"
            )
        parts.append("")
    if fields:
        raise KeyError(", ".join(fields))
    return "\n".join(parts).rstrip() + "\n"


_EXAMPLE_HEAD = """\
# Copy this file to .env in the same folder, which git ignores, or set the variables in the environment. All are
# optional: without an account, everything runs against the built-in sandbox.
"""


def render_example() -> str:
    """Return the text of `.env.example`: each setting with its description."""
    entries = [
        f"# {(field.description or '').replace('`', '')}\n#{field.validation_alias}={(field.examples or [''])[0]}\n"
        for field in Settings.model_fields.values()
    ]
    return "\n".join([_EXAMPLE_HEAD, *entries])
