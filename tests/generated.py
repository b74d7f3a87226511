"""Write the generated pages of documentation: `python -m tests.generated`.

The pages repeat declarations of the code. A test compares them with their renderers.
"""

from __future__ import annotations

from pipelines.report import dictionary
from tests import endpoints, settings_page
from tests.documents import DOCS


def pages() -> dict[str, str]:
    """Return the text of each generated page by its path in `docs`."""
    tables = {f"tables/{name}": text for name, text in dictionary.pages().items()}
    return {"endpoints.md": endpoints.render(), "settings.md": settings_page.render(), **tables}


def main() -> None:
    for name, text in pages().items():
        (DOCS / name).write_text(text)


if __name__ == "__main__":
    main()
