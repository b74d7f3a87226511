"""The report: a page for people, of what is published."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import dagster as dg

from assets import published
from assets.describe import OWNERS, sized
from assets.failures import as_failure
from resources.data_folder import REPORT_PATH
from resources.formatting import markdown_text, size_text

KEY = dg.AssetKey(["published", "report"])


class Report(Protocol):
    """A written page and its figures."""

    @property
    def path(self) -> Path:
        """The path of the page."""

    @property
    def size_bytes(self) -> int:
        """Its size."""

    @property
    def attention(self) -> Sequence[str]:
        """Sentences about what needs attention, as the page shows them."""

    @property
    def attention_count(self) -> int:
        """The number of all these sentences, also those that the page omits."""

    @property
    def picture_count(self) -> int:
        """Pictures in it."""

    @property
    def seconds(self) -> float:
        """The seconds that writing took."""


Writer = Callable[[], Report]


def report(write: Writer) -> dg.AssetsDefinition:
    """The asset of the page, behind the published file; what is in it is collected above the assets."""

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
        return dg.MaterializeResult(
            metadata=sized(
                {
                    "attention": dg.MetadataValue.md(
                        "\n".join(f"- {markdown_text(text)}" for text in made.attention) or "Nothing needs attention."
                    ),
                    "attention_count": made.attention_count,
                    # of the web server of `wme ui`, whatever its name behind a proxy is: browsers open no file from a
                    # page
                    **({} if context.asset_key != KEY else {"page": dg.MetadataValue.url(REPORT_PATH)}),
                    "dagster/uri": str(made.path),
                    "bytes": made.size_bytes,
                    "pictures": made.picture_count,
                    "seconds": round(made.seconds, 3),
                }
            )
        )

    return page
