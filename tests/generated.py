"""Write the generated pages of documentation: `python -m tests.generated` (`make docs` also draws the pictures).

The pages repeat declarations of the code. A test compares them with their renderers.
"""

from pipelines.report import dictionary
from tests import endpoints, settings_page
from tests.documents import ROOT


def pages() -> dict[str, str]:
    """Return the text of each generated file by its path."""
    tables = {f"docs/tables/{name}": text for name, text in dictionary.pages().items()}
    return {
        ".env.example": settings_page.render_example(),
        **endpoints.pages(),
        "docs/settings.md": settings_page.render(),
        **tables,
    }


def main() -> None:
    for name, text in pages().items():
        (ROOT / name).write_text(text)


if __name__ == "__main__":
    main()
