"""A folder of real records from which the world's pages borrow their texts, categories and other details.

Files named `*.ndjson`, `*.jsonl` and `*.json`, each also with `.gz`, are read: one record per line, or one JSON
document that is a record or a list of records. A record without a body is left out. Every page of the world borrows
one record, of its own language if there are any; its revisions differ by a comment at the end of either markup.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import orjson

from resources.sandbox.world.chance import salt
from resources.sandbox.world.text.bodies import Text
from resources.sandbox.world.wire import fragment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from resources.sandbox.world.text.bodies import Setting

_ENDINGS = (".ndjson", ".jsonl", ".json")
#: Records are held in memory; files beyond this are not read.
_MOST_BYTES = 512 * 1024 * 1024
#: What a page borrows beside its text.
_BORROWED = ("protection", "watchers_count", "main_entity", "additional_entities", "categories", "templates", "image")


class Corpus:
    """The records of a folder."""

    def __init__(self, folder: Path) -> None:
        """Read the folder.

        Raises:
            ValueError: It holds no record with a body, or a file in it is not JSON.
        """
        self._records: list[dict[str, Any]] = []
        self._by_language: dict[str, list[dict[str, Any]]] = {}
        held = 0
        for path in sorted(folder.rglob("*")):
            if not path.is_file() or not path.name.removesuffix(".gz").endswith(_ENDINGS) or held > _MOST_BYTES:
                continue
            data = gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
            held += len(data)
            for record in _records(path, data):
                if record.get("article_body", {}).get("html"):
                    self._records.append(record)
                    self._by_language.setdefault(record.get("in_language", {}).get("identifier", ""), []).append(record)
        if not self._records:
            raise ValueError(
                f"The corpus {folder} contains no article record with a body; it needs NDJSON or JSON files "
                "(.ndjson, .jsonl, .json, each also .gz) of records with `article_body`."
            )

    def lent(self, language: str, host: str, page: int, /) -> dict[str, Any]:
        """Return the fields of a page next to its text, by the record that it borrows from."""
        record = self._record(language, host, page)
        return {key: record[key] for key in _BORROWED if record.get(key)}

    def _record(self, language: str, host: str, page: int) -> dict[str, Any]:
        choice = self._by_language.get(language, self._records)
        return choice[salt("corpus", host, page) % len(choice)]

    def characters(self, setting: Setting) -> int:
        """Length of the wikitext of a revision, in characters."""
        return len(
            self._record(setting.language, setting.host, setting.page)["article_body"].get("wikitext", "")
        ) + len(_mark(setting))

    def text(self, setting: Setting) -> Text:
        """The text of a revision."""
        record = self._record(setting.language, setting.host, setting.page)
        document: str = record["article_body"]["html"]
        cut = document.rfind("</body>")
        cut = len(document) if cut < 0 else cut
        wikitext = record["article_body"].get("wikitext", "") + _mark(setting)
        abstract = record.get("abstract", "") if setting.namespace == 0 else ""
        return Text(
            html=fragment(document[:cut] + _mark(setting) + document[cut:]),
            wikitext=fragment(wikitext),
            characters=len(wikitext),
            size=len(wikitext.encode()),
            abstract=abstract,
            needs_citation=0,
        )


def _mark(setting: Setting) -> str:
    return f"\n<!-- revision {setting.revision} of {setting.page} -->"


def _records(path: Path, data: bytes) -> Iterator[dict[str, Any]]:
    try:
        try:
            whole = orjson.loads(data)
        except orjson.JSONDecodeError:
            yield from (orjson.loads(line) for line in data.splitlines() if line.strip())
            return
    except orjson.JSONDecodeError as error:
        raise ValueError(
            f"The corpus file {path.name} is neither JSON nor NDJSON ({error}); remove it from the folder."
        ) from error
    yield from whole if isinstance(whole, list) else [whole]
