"""Where the service's texts are silent or disagree: what the sandbox answers, one statement each.

`make test-live` tries each statement that can be tried with the configured account's service and prints which of them
hold; `docs/endpoints.md` lists them. A choice that changes is changed here and where `decided` says.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """One statement about the service.

    Attributes:
        name: What its check is called.
        statement: What was chosen.
        instead: What else texts or code suggest.
        decided: Where the choice is made or explained.
        untried: Why no check can try it; empty: one does.
    """

    name: str
    statement: str
    instead: str
    decided: str
    untried: str = ""


_SELECTION = "`resources/sandbox/api/selection.py`"
_LOOKUPS = "decision 28"
_WIKIDATA = "decision 31"
_STREAMS = "`resources/sandbox/api/endpoints/streams.py`"
_DESCRIPTION = "decision 32"
_STRUCTURED = "decision 30"

CHOICES: tuple[Choice, ...] = (
    Choice(
        "nested-fields",
        "`fields` with dots on lists come back nested.",
        "Flattened, `is_part_of__identifier` (source of 2025).",
        _SELECTION,
    ),
    Choice(
        "equal-filters",
        "A filter by a number on a list selects what equals it.",
        "What is greater (source of 2025).",
        _SELECTION,
    ),
    Choice(
        "everything-by-asterisk", "`*` in `fields` of a lookup means everything.", "A name that is not there.", _LOOKUPS
    ),
    Choice(
        "members-by-hash",
        "Members of arrays are asked for with `#` in lookups and come back in an object.",
        "Plain paths, as on streams.",
        _LOOKUPS,
    ),
    Choice("megabytes", "Sizes of files are in `MB`.", "In `B` (the description's example).", "recorded answers"),
    Choice("exponents", "Fractions in lists have an exponent (`126211.488e0`).", "Plain decimals.", "recorded answers"),
    Choice("article-namespace", "Namespace 0 is called `Article`.", "`Articles` (2023), or empty.", "recorded answers"),
    Choice("utc-dates", "`Last-Modified` of a HEAD ends in `UTC`.", "`GMT`, as HTTP has it.", "recorded answers"),
    Choice("slash-at-the-end", "A slash at the end of a path makes no difference.", "A redirect or 404.", _DESCRIPTION),
    Choice("no-405", "A method that a path has not is answered with 404.", "405.", _DESCRIPTION),
    Choice("chunk-by-number", "A chunk is found by its number alone.", "By its identifier only.", "decision 14"),
    Choice(
        "free-quotas",
        "Free accounts have 50,000 lookups, 30 snapshots and 1,500 chunks a month.",
        "5,000, 15 and 15 (source of 2025).",
        "`resources/sandbox/accounts/quotas.py`",
    ),
    Choice(
        "paid-batches",
        "Free accounts may not read batches: 403.",
        "401, or an empty list.",
        "`resources/sandbox/api/operations.py`",
    ),
    Choice(
        "open-structured-snapshots",
        "Every account may list structured contents snapshots.",
        "Paid accounts alone (source of 2025).",
        _STRUCTURED,
    ),
    Choice(
        "uncounted-structured-snapshots",
        "Downloads of structured contents snapshots are not counted.",
        "Counted as snapshots (the vendor's texts).",
        _STRUCTURED,
    ),
    Choice(
        "structured-snapshots-twice",
        "The list of structured contents snapshots has each identifier twice, a day apart.",
        "Once.",
        _STRUCTURED,
    ),
    Choice(
        "lists-of-structured-contents",
        "`license`, `references` and `tables` of structured contents are lists.",
        "Single objects (the vendor's description).",
        _STRUCTURED,
    ),
    Choice(
        "nine-structured-projects",
        "Structured contents snapshots are of nine projects: cywiki, dewiki, enwiki, eswiki, frwiki, idwiki, itwiki, nlwiki, ptwiki.",
        "Six or seven (the Python client's texts, source of 2025).",
        "`resources/sandbox/world/structured.py`",
    ),
    Choice("wikidata-snapshots", "Wikidata's snapshots are at `/v2/snapshots/wikidata`.", "Elsewhere.", _WIKIDATA),
    Choice(
        "wikidata-batches",
        "Wikidata's hours are at `/v2/batches/wikidata/{date}/{hour}`.",
        "`/v2/wikidata/batches` ...",
        _WIKIDATA,
    ),
    Choice(
        "wikidata-identifiers",
        "Wikidata's snapshots are `wikidatawiki_namespace_0` and `wikidatawiki_namespace_120`.",
        "One for everything.",
        _WIKIDATA,
    ),
    Choice("arrays-of-one", "Lookups of items, properties and labels answer an array of one.", "An object.", _WIKIDATA),
    Choice("statements-by-property", "`statements` is an object from property to an array.", "An array.", _WIKIDATA),
    Choice("sitelinks-by-site", "`sitelinks` is an object from site to a sitelink.", "A single sitelink.", _WIKIDATA),
    Choice(
        "wikidata-stream",
        "Wikidata's stream is at `/v2/wikidata` of the streams' host.",
        "Elsewhere; only that there is one is public.",
        _STREAMS,
        untried="A stream may stay silent for any time.",
    ),
    Choice(
        "offsets-past-the-end",
        "An offset that a partition has not reached begins at its end, one that is no longer kept at the oldest message.",
        "An error, or the other way round.",
        _STREAMS,
        untried="It takes a stream of a known end.",
    ),
    Choice(
        "positions-in-a-query",
        "`offsets` and `since_per_partition` in a query or a form are JSON objects.",
        "`offsets[3]=1`, as the description has it.",
        "`resources/sandbox/api/stream/parameters.py`",
        untried="A stream may stay silent for any time.",
    ),
    Choice(
        "members-of-archives",
        "A snapshot's archive has members called `<identifier>_<n>.ndjson`.",
        "A single member (documentation of 2026).",
        "`resources/sandbox/store/snapshot_store.py`",
    ),
    Choice(
        "session-in-answer",
        "`new-password-required` answers with the session again.",
        "Tokens alone (source of 2025).",
        "`resources/sandbox/api/endpoints/authentication.py`",
        untried="It takes an account with a temporary password.",
    ),
    Choice(
        "six-errors",
        "The six errors listed for `login` are 400, 401, 403, 422, 429 and 500.",
        "Others; their number alone is public.",
        _DESCRIPTION,
        untried="Errors cannot be caused at will.",
    ),
    Choice(
        "login-without-credentials",
        "A login without user name or password is answered with 400 `missing username or password`.",
        "422, as other bodies that do not bind (source of 2025).",
        "observed in 2026",
        untried="A refused login may count against the account.",
    ),
    Choice(
        "expired-token",
        "An expired access token is refused with 401 and the bare text `Jwt is expired`.",
        "The error body, with `token is expired by ...` (source of 2025).",
        "observed in 2026",
        untried="It takes a day until a token has expired.",
    ),
    Choice(
        "token-of-get-user",
        "`get-user` reads the access token in the header or, without one, in the body.",
        "In the header alone (source of 2025).",
        "clients of 2026",
        untried="Our client sends both.",
    ),
    Choice(
        "password-policy",
        "A password has 8 characters, of four kinds.",
        "No text says it.",
        "`resources/sandbox/accounts/passwords.py`",
        untried="It would change the account's password.",
    ),
    Choice(
        "free-copies",
        "Free accounts see the copies of the first day of the month.",
        "Of the 2nd and 21st (source of 2025).",
        "`resources/sandbox/store/snapshot_store.py`",
        untried="It takes a month of watching.",
    ),
)
