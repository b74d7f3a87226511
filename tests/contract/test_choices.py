"""Each declared choice that can be tried, tried: confirmed, refuted, or left because the account cannot tell."""

import hashlib
import io
import re
import tarfile
from collections import Counter

import pytest

from tests.contract.conftest import CHOICES, VERDICTS

#: Such that the real service has them, and the sandbox.
TITLES = ("Earth", "Faichajan shaistum")
STRUCTURED = "/v2/snapshots/structured-contents"


class CannotTellError(Exception):
    """The account, or what is allowed to be spent, does not show it; the message says why."""


def needs_downloads(service):
    if not service.downloads:
        raise CannotTellError("It takes a download: WME_LIVE_DOWNLOADS=1 allows one unit for each.")


def free_account(service):
    if (free := service.of_group("group_1")) is None:
        raise CannotTellError("The account is not of the free group.")
    return free


def article(service, where="articles", **body):
    """The first record that is found under one of the titles."""
    for title in TITLES:
        answer = service.call(f"/v2/{where}/{title}", "POST", json={"limit": 1, **body})
        if answer.status_code == 200:
            return answer.json()[0]
    raise CannotTellError("No article of a known title is there.")


def entity(service):
    """The record of an item."""
    for item in ("Q42", "Q681"):
        answer = service.call(f"/v2/wikidata/items/{item}")
        if answer.status_code == 200:
            found = answer.json()
            return found[0] if isinstance(found, list) else found
    raise CannotTellError("No known item is there.")


def check_nested_fields(service):
    record = service.records("/v2/projects", fields=["in_language.identifier"])[0]
    assert record.keys() <= {"in_language", "in_language__identifier"}
    return "in_language" in record


def check_equal_filters(service):
    found = service.records("/v2/namespaces", filters=[{"field": "identifier", "value": 0}])
    return [record["identifier"] for record in found] == [0]


def check_members_by_hash(service):
    found = article(service, fields=["categories.#.name", "license.#.identifier"])
    return "#" in found.get("license", found.get("categories", {}))


def check_utc_dates(service):
    head = service.call(f"/v2/snapshots/{service.snapshots[0]['identifier']}/download", "HEAD")
    return head.headers["Last-Modified"].endswith(" UTC")


def check_chunk_by_number(service):
    for record in service.snapshots:
        for name in record.get("chunks", ()):
            found = service.call(f"/v2/snapshots/{record['identifier']}/chunks/{name.rpartition('_')[2]}")
            return found.status_code == 200 and found.json()["identifier"] == name
    raise CannotTellError("No snapshot has chunks.")


def check_free_quotas(service):
    user = free_account(service).user()
    return [user[f"{kind}_limit"] for kind in ("ondemand", "snapshot", "chunk")] == [50_000, 30, 1_500]


def check_uncounted_structured_snapshots(service):
    needs_downloads(service)
    if service.call(STRUCTURED).status_code != 200:
        raise CannotTellError("They cannot be listed.")
    record = min(service.records(STRUCTURED), key=lambda one: one["size"]["value"])
    before = service.user()["snapshot_requests_count"]
    assert service.call(f"{STRUCTURED}/{record['identifier']}/download").status_code == 307
    return service.user()["snapshot_requests_count"] == before


def check_structured_snapshots_twice(service):
    days = Counter(record["identifier"] for record in service.records(STRUCTURED))
    return set(days.values()) == {2}


def check_lists_of_structured_contents(service):
    found = article(service, "structured-contents")
    there = [found[name] for name in ("license", "references", "tables") if name in found]
    if not there or "article_body" in found:
        raise CannotTellError("The page has none of them.")
    return all(isinstance(value, list) for value in there)


def check_nine_structured_projects(service):
    found = {record["is_part_of"]["identifier"] for record in service.records(STRUCTURED)}
    return found <= set(re.findall(r"\w+wiki", CHOICES["nine-structured-projects"]["statement"]))


def check_wikidata_batches(service):
    answer = service.call(f"/v2/batches/wikidata/{service.hour():%Y-%m-%d/%H}")
    if answer.status_code == 403:
        raise CannotTellError("The account may not read batches, whatever their path.")
    return answer.status_code == 200


def check_wikidata_identifiers(service):
    answer = service.call("/v2/snapshots/wikidata")
    if answer.status_code != 200:
        raise CannotTellError("Wikidata's snapshots cannot be listed.")
    return {r["identifier"] for r in answer.json()} == {"wikidatawiki_namespace_0", "wikidatawiki_namespace_120"}


def check_arrays_of_one(service):
    name = entity(service)["name"]
    answers = [service.call(f"/v2/wikidata/{kind}/{name}").json() for kind in ("items", "labels")]
    return all(isinstance(found, list) and len(found) == 1 for found in answers)


def check_statements_by_property(service):
    statements = entity(service)["entity"]["statements"]
    return isinstance(statements, dict) and all(isinstance(found, list) for found in statements.values())


def check_sitelinks_by_site(service):
    sitelinks = entity(service)["entity"].get("sitelinks")
    if not sitelinks:
        raise CannotTellError("The item has no sitelinks.")
    return all(isinstance(found, dict) and "title" in found for found in sitelinks.values())


def check_members_of_archives(service):
    needs_downloads(service)
    record = min(service.snapshots, key=lambda one: one["size"]["value"])
    answer = service.call(f"/v2/snapshots/{record['identifier']}/download", allow_redirects=True)
    assert hashlib.md5(answer.content).hexdigest() == record["version"]
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        names = tar.getnames()
    return all(re.fullmatch(rf"{record['identifier']}_\d+\.ndjson", name) for name in names)


#: By the name of a choice: whether it holds.
CHECKS = {name[6:].replace("_", "-"): of for name, of in globals().items() if name.startswith("check_")}
CHECKS |= {
    "everything-by-asterisk": lambda service: "name" in article(service, fields=["*"]),
    "megabytes": lambda service: {record["size"]["unit_text"] for record in service.snapshots} == {"MB"},
    "exponents": lambda service: bool(re.search(r'"value":\s?\d+(\.\d+)?e', service.call("/v2/snapshots").text)),
    "article-namespace": lambda service: (
        {r["identifier"]: r.get("name") for r in service.records("/v2/namespaces")}[0] == "Article"
    ),
    "slash-at-the-end": lambda it: it.call("/v2/namespaces/").content == it.call("/v2/namespaces").content,
    "no-405": lambda service: service.call("/v2/codes", "DELETE").status_code == 404,
    "paid-batches": lambda service: (
        free_account(service).call(f"/v2/batches/{service.hour():%Y-%m-%d/%H}").status_code == 403
    ),
    "open-structured-snapshots": lambda service: service.call(STRUCTURED).status_code == 200,
    "wikidata-snapshots": lambda service: service.call("/v2/snapshots/wikidata").status_code in {200, 403},
}


def test_every_choice_has_a_check_or_a_reason():
    assert {name for name, choice in CHOICES.items() if not choice.get("untried")} == set(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_choice(service, name):
    choice = CHOICES[name]
    try:
        holds = CHECKS[name](service)
    except CannotTellError as reason:
        VERDICTS[name] = f"not tried ({reason})"
        pytest.skip(str(reason))
    VERDICTS[name] = "confirmed" if holds else "refuted"
    assert holds, f"{choice['statement']} This service does it otherwise; perhaps: {choice['instead']}"
