"""Hourly files: the list of an hour, its records and their downloads, and what it means when one of them is missing.

A missing hour is one of three: not published yet, past the service's retention, or never asked for by a clock that is right.

Source: the service's reference for realtime batches (the list of an hour appears when its exports have ended; 48 hours).
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from resources.datasets import RETENTION
from resources.enterprise import errors, models
from resources.enterprise.download.signed_url import Source
from resources.enterprise.http import endpoints
from resources.enterprise.listing import list_of

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from resources.datasets import Dataset
    from resources.enterprise.data_api import DataApi
    from resources.enterprise.download.downloader import Download, Downloader
    from resources.enterprise.download.signed_url import Progress
    from resources.enterprise.http.clock import ServiceClock
    from resources.enterprise.listing import Listing

_BATCHES: Final = list_of(models.Batch)
_BATCH: Final = TypeAdapter(models.Batch)


class Hours:
    """The hourly files of the service's datasets, for one account. Safe for several threads."""

    def __init__(self, api: DataApi, downloader: Downloader, clock: ServiceClock) -> None:
        self._api = api
        self._downloader = downloader
        self._clock = clock

    def listing(self, dataset: Dataset, hour: datetime) -> Listing[models.Batch]:
        """`GET /v2/batches/{date}/{hour}`. See `EnterpriseClient.batches`."""
        path = endpoints.hourly(dataset, hour)
        try:
            return self._api.listing(path, _BATCHES, f"list the {dataset.endpoint} of {spoken(hour)}")
        except errors.NotFound:
            missing = absent(hour, self._clock)
        raise missing

    def record(self, dataset: Dataset, hour: datetime, identifier: str) -> tuple[models.Batch, int]:
        """`GET /v2/batches/{date}/{hour}/{identifier}`, and the requests it took. See `EnterpriseClient.batch`."""
        path = endpoints.record(endpoints.hourly(dataset, hour), identifier)
        try:
            return self._api.record(path, _BATCH, f"read the record of {identifier} of {spoken(hour)}")
        except errors.NotFound as error:
            missing = error
        self.listing(dataset, hour)  # raises where the whole hour is missing, which is another thing
        raise missing

    def download(
        self,
        dataset: Dataset,
        hour: datetime,
        record: models.Batch,
        target: Path,
        progress: Progress | None,
    ) -> Download:
        """Fetch a file. See `EnterpriseClient.download_batch`."""
        try:
            return self._downloader.fetch(self._source(dataset, hour, record), target, progress)
        except (errors.NotPublishedYet, errors.RetentionPassed):
            raise
        except errors.NotFound as error:
            failure: errors.EnterpriseError = passed(hour, self._clock) or error
        raise failure

    def _source(self, dataset: Dataset, hour: datetime, record: models.Batch) -> Source:
        path = endpoints.download(endpoints.record(endpoints.hourly(dataset, hour), record.identifier))
        doing = f"get the address of {record.identifier} of {spoken(hour)}"

        def read_again() -> tuple[Source, int]:
            fresh, count = self.record(dataset, hour, record.identifier)
            return self._source(dataset, hour, fresh), count

        return Source(
            identifier=record.identifier,
            version=record.version,
            size_hint=record.stated_bytes,
            url_path=path,
            resolve=lambda: self._api.address(path, doing, dataset.quota),
            read_again=read_again,
        )


def spoken(hour: datetime) -> str:
    """An hour in words."""
    return f"the hour {hour.astimezone(UTC) if hour.tzinfo else hour:%Y-%m-%d %H}:00 UTC"


def passed(hour: datetime, clock: ServiceClock) -> errors.RetentionPassed | None:
    """The error that the service no longer keeps an hour, None where it does."""
    if clock.now() - hour < RETENTION:
        return None
    return errors.RetentionPassed(
        f"{clock.remark}The service no longer has {spoken(hour)}: it keeps an hour for two days. What was fetched before is "
        "kept. This hour can only be loaded from an archive that has it; later hours are not touched by this.",
        status=404,
    )


def absent(hour: datetime, clock: ServiceClock) -> errors.EnterpriseError:
    """The error that an hour without a list is."""
    if clock.is_wrong and clock.now() < hour:
        return errors.ClockError(
            f"For the service {spoken(hour)} has not begun: {clock.problem}. Nothing was changed. Set the clock of this "
            "machine right (time synchronization) and run this again.",
            status=404,
        )
    return passed(hour, clock) or errors.NotPublishedYet(
        f"{clock.remark}The service has not published {spoken(hour)} yet: a batch listing appears when all exports of the hour "
        "have ended, some minutes after the hour. Nothing was changed. Run this again later; until two days after the hour "
        "nothing is lost.",
        status=404,
    )
