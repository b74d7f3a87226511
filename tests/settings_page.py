"""The page of all settings and `.env.example`, rendered from the settings model. The introductions remain."""

from resources.settings import Settings
from tests.documents import DOCS, ROOT

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
    parts = [(DOCS / "settings.md").read_text().partition("\n## ")[0]]
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


def render_example() -> str:
    """Return the text of `.env.example`: each setting with its description."""
    entries = [
        f"# {(field.description or '').replace('`', '')}\n#{field.validation_alias}={EXAMPLES.get(name, '')}\n"
        for name, field in Settings.model_fields.items()
    ]
    introduction = (ROOT / ".env.example").read_text().partition("\n\n")[0]
    return "\n".join([f"{introduction}\n", *entries])
