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


def render() -> str:
    """Return the page (Markdown); a `KeyError` names a setting that belongs to no group."""
    fields = dict(Settings.model_fields)
    parts = [(DOCS / "settings.md").read_text().partition("\n## ")[0]]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n\n| variable | meaning | default | example |\n|---|---|---|---|")
        for name in names.split():
            field = fields.pop(name)
            meaning, _, default = (field.description or "").partition(" Default: ")
            example = f"`{field.examples[0]}`" if field.examples else ""
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
        f"# {(field.description or '').replace('`', '')}\n#{field.validation_alias}={(field.examples or [''])[0]}\n"
        for field in Settings.model_fields.values()
    ]
    introduction = (ROOT / ".env.example").read_text().partition("\n\n")[0]
    return "\n".join([f"{introduction}\n", *entries])
