"""The client at the sandbox: lookups at a rate limit, and files and lookups of every dataset, also as typed records."""

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from resources.datasets import ARTICLE_CHANGES, ENTITY_CHANGES, SNAPSHOT_ARTICLES, STRUCTURED_ARTICLES, Family
from resources.enterprise import Query, endpoints, errors, read_archive, record_model
from tests.integration.daemon import QUICK

DATASETS = [ARTICLE_CHANGES, SNAPSHOT_ARTICLES, STRUCTURED_ARTICLES, ENTITY_CHANGES]


@pytest.fixture
def names(sandbox):
    hour = sandbox.clock.now().replace(minute=0) - timedelta(hours=1)
    moment = sandbox.world.export_started_at("enwiki", hour)
    writer = sandbox.world._wiki("enwiki").writer
    return [writer.name(event.title) for event in sandbox.world.pages_at("enwiki", 0, moment)]


@pytest.mark.parametrize(
    ("count", "per_second", "hinder", "least", "most"),
    [
        # requests that were held up arrive together, at most as many as there are threads
        (60, 100.0, lambda sandbox: sandbox.rate.set(100.0, burst=10), 0, 0),
        pytest.param(1000, 100.0, lambda sandbox: sandbox.rate.set(100.0, burst=10), 0, 0, marks=pytest.mark.soak),
        (60, None, lambda sandbox: sandbox.faults.add("/v2/articles/*", kind="status", status=429, count=12), 12, 12),
        pytest.param(1000, None, lambda sandbox: sandbox.rate.set(50.0, burst=2), 1, 1000, marks=pytest.mark.soak),
    ],
    ids=["a known limit", "a thousand at a known limit", "refusals", "a thousand that learn the limit"],
)
def test_many_lookups_keep_to_a_limit_that_is_known_and_recover_from_refusals_where_it_is_not(
    sandbox, make_client, names, count, per_second, hinder, least, most
):
    client = make_client(retry=replace(QUICK, requests_per_second=per_second, retries=8, longest_wait=0.5))
    client.account.login()
    hinder(sandbox)
    sandbox.requests.clear()
    query = Query(fields=("name",), limit=1)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: client.lookups.articles(names[n % len(names)], query), range(count)))
    assert [listing.records[0]["name"] for listing in found] == [names[n % len(names)] for n in range(count)]
    sandbox.rate.set(None)
    refused = sum(seen.status == 429 and seen.path.startswith("/v2/articles/") for seen in sandbox.requests)
    assert least <= refused <= most
    assert client.account.user().quotas["ondemand"].used == count


def without_moments(value):
    if isinstance(value, dict):
        return {name: without_moments(one) for name, one in value.items() if not name.startswith("date_")}
    return [without_moments(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("dataset", DATASETS, ids=lambda one: one.name)
def test_files_of_every_dataset_are_read_in_all_ways_alike(client, sandbox, dataset, tmp_path):
    hour = sandbox.clock.now().replace(minute=0) - timedelta(hours=2)
    hourly = dataset.family is Family.HOURLY
    listing = endpoints.hourly(dataset, hour) if hourly else endpoints.records(dataset)
    place = dataset.places[0] if dataset.places else ("enwiki", 0)
    path = endpoints.record(listing, f"{place[0]}_namespace_{place[1]}")
    target = io.BytesIO()
    record, head = client.files.download(path, target), client.files.head(path)
    assert (head.size_bytes, record.version) == (len(target.getvalue()), hashlib.md5(target.getvalue()).hexdigest())
    assert head.modified_at <= sandbox.clock.now()
    sandbox.requests.clear()
    records = [*client.files.read(path)]
    assert [one.path for one in sandbox.requests if "download" in one.path] == [f"{path}/download"]
    assert records
    local = tmp_path / "file.tar.gz"
    local.write_bytes(target.getvalue())
    assert [*read_archive(local)] == records
    typed = [*client.files.read(local, record_model(dataset))]
    sent = [one.model_dump(mode="json", exclude_unset=True) for one in typed]
    assert list(map(without_moments, sent)) == list(map(without_moments, records))
    assert [one.name for one in typed] == [one["name"] for one in records]


def test_lookups_are_typed_on_request(client, names):
    name = names[0]
    [article, *_] = client.lookups.articles(name).typed(record_model(ARTICLE_CHANGES))
    assert (article.name, article.namespace.identifier) == (name, 0)
    assert article.version.identifier > 0
    [page, *_] = client.lookups.structured(name).typed(record_model(STRUCTURED_ARTICLES))
    assert (page.name, page.sections[0]["name"]) == (name, "Abstract")
    [item] = client.lookups.entity("items", page.main_entity.identifier).typed(record_model(ENTITY_CHANGES))
    assert item.name == page.main_entity.identifier
    with pytest.raises(errors.UnexpectedAnswer, match="records that do not match entity_changes"):
        client.lists.reference("languages").typed(record_model(ENTITY_CHANGES))
