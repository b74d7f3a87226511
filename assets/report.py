"""The report: a page for people, of what is published."""

from collections.abc import Callable
from typing import Any

import dagster as dg

from assets import published
from assets.describe import OWNERS, sized
from assets.failures import as_failure
from resources.data_folder import REPORT_PATH
from resources.formatting import markdown_text, size_text

KEY = dg.AssetKey(["published", "report"])


def report(write: Callable[[], Any]) -> dg.AssetsDefinition:
    """The asset of the page, behind the published file; `write` is `pipelines.report.page.write` with the settings."""

    @dg.asset(
        key=KEY,
        deps=[published.KEY],
        group_name="published",
        kinds={"html"},
        owners=list(OWNERS),
        description="One HTML page that needs no network, made of the published file: what needs attention, coverage, "
        "lag, changes by project, most edited pages, deletions and moves, rejects, throughput, quota and storage. The "
        "web server of `wme ui` shows it at [/report](/report); `wme report` writes the same file.",
    )
    def page(context: dg.AssetExecutionContext) -> dg.MaterializeResult:  # type: ignore[type-arg]
        """Write the page; an open browser shows it after a reload."""
        with as_failure():
            made = write()
        context.log.info("%s, %s, is written.", made.path, size_text(made.size_bytes))
        attention = "\n".join(f"- {markdown_text(text)}" for text in made.attention) or "Nothing needs attention."
        # of the web server of `wme ui`, whatever its name behind a proxy is: browsers open no file from a page
        link = {"page": dg.MetadataValue.url(REPORT_PATH)} if context.asset_key == KEY else {}
        metadata = {
            "attention": dg.MetadataValue.md(attention),
            "attention_count": made.attention_count,
            **link,
            "dagster/uri": str(made.path),
            "bytes": made.size_bytes,
            "pictures": made.picture_count,
            "seconds": round(made.seconds, 3),
        }
        return dg.MaterializeResult(metadata=sized(metadata))

    return page
