"""Hourly files: the batch listing, its records and their downloads, and what it means when one of them is missing.

A missing hour is one of three: not published yet, past the service's retention, or never asked for by a clock that is
right.

Source: the service's reference for realtime batches (a batch listing appears when its exports have ended; 48
hours).
"""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from resources.datasets import ARTICLE_CHANGES, RETENTION
from resources.enterprise import endpoints, errors, models
from resources.enterprise.http.workarounds import guarded
from resources.enterprise.listing import list_of

if TYPE_CHECKING:
    from datetime import datetime

    from resources.datasets import Dataset
    from resources.enterprise.data_api import DataApi
    from resources.enterprise.download.downloader import Download, Downloader
    from resources.enterprise.download.object_reader import Progress, Source
    from resources.enterprise.http.answers import ServiceClock
    from resources.enterprise.listing import Listing
    from resources.files import StrPath

_BATCHES: Final = list_of(models.Batch)
_BATCH: Final = TypeAdapter(models.Batch)


@guarded
class Hours:
    """Hourly batches: the batch listing, its records, its downloads. Costs no quota. Safe for several threads.

    An hour is the aware moment at which it starts.
    """

    def __init__(self, api: DataApi, downloader: Downloader, clock: ServiceClock) -> None:
        self._api = api
        self._downloader = downloader
        self._clock = clock
        self.redactor = api.redactor

    def listing(self, hour: datetime, dataset: Dataset = ARTICLE_CHANGES) -> Listing[models.Batch]:
        """List the files of an hour (`GET /v2/batches/{date}/{hour}`): one per project and namespace that had changes.

        Raises:
            NotPublishedYet: The exports of the hour have not all ended.
            RetentionPassed: The hour is more than two days old.
        """
        path = endpoints.hourly(dataset, hour)
        try:
            return self._api.listing(path, _BATCHES, f"list the {dataset.endpoint} of {spoken(hour)}")
        except errors.NotFound:
            missing = absent(hour, self._clock)
        raise missing

    def record(self, hour: datetime, identifier: str, dataset: Dataset = ARTICLE_CHANGES) -> models.Batch:
        """Read the record of one file of an hour (`GET /v2/batches/{date}/{hour}/{identifier}`).

        Raises:
            NotFound: The hour is published, this file is not in it: no changes, or its export failed.
            NotPublishedYet: The exports of the hour have not all ended.
            RetentionPassed: The hour is more than two days old.
        """
        return self._record(dataset, hour, identifier)[0]

    def download(
        self,
        hour: datetime,
        record: models.Batch,
        target: StrPath,
        progress: Progress | None = None,
        dataset: Dataset = ARTICLE_CHANGES,
    ) -> Download:
        """Download a batch's archive to `target`, verified, with its sidecar `target`.json.

        A file that is there in this version is not fetched again. A partial download beside it (`.part`) is resumed. If
        the service has replaced the file meanwhile, the new version is downloaded, and where the name of `target` holds
        the first eight characters of the old version the new one's take their place: `Download.path` and
        `Download.version` say which.

        Args:
            hour: The hour.
            record: The record of the file.
            target: The file to write; its folder is created.
            progress: Called with the number of bytes that arrived since its last call, from one thread at a time.
            dataset: The dataset of the batch.

        Raises:
            IntegrityError: Wrong bytes twice; nothing was landed.
            DiskFull: No room; what was fetched is kept.
            RetentionPassed: The hour is more than two days old.
        """
        try:
            return self._downloader.fetch(self._source(dataset, hour, record), Path(target), progress)
        except (errors.NotPublishedYet, errors.RetentionPassed):
            raise
        except errors.NotFound as error:
            failure: errors.EnterpriseError = passed(hour, self._clock) or error
        raise failure

    def _record(self, dataset: Dataset, hour: datetime, identifier: str) -> tuple[models.Batch, int]:
        """Return the record and the number of requests it took."""
        path = endpoints.record(endpoints.hourly(dataset, hour), identifier)
        try:
            return self._api.record(path, _BATCH, f"read the record of {identifier} of {spoken(hour)}")
        except errors.NotFound as error:
            missing = error
        self.listing(hour, dataset)  # raises where the whole hour is missing, which is another thing
        raise missing

    def _source(self, dataset: Dataset, hour: datetime, record: models.Batch) -> Source:
        return self._api.source(
            endpoints.record(endpoints.hourly(dataset, hour), record.identifier),
            record,
            dataset.quota,
            lambda: self._record(dataset, hour, record.identifier),
            name=f"{record.identifier} of {spoken(hour)}",
        )


def spoken(hour: datetime) -> str:
    """An hour in words."""
    return f"the hour {hour.astimezone(UTC) if hour.tzinfo else hour:%Y-%m-%d %H}:00 UTC"


def passed(hour: datetime, clock: ServiceClock) -> errors.RetentionPassed | None:
    """The error that the service no longer keeps an hour, None where it does."""
    if clock.now() - hour < RETENTION:
        return None
    return errors.RetentionPassed(
        f"{clock.remark}The service no longer has {spoken(hour)}: it keeps an hour for two days. What was fetched "
        "before is kept. This hour can only be loaded from an archive that has it; later hours are not touched by "
        "this.",
        status=404,
    )


def absent(hour: datetime, clock: ServiceClock) -> errors.EnterpriseError:
    """The error that an hour without a list is."""
    if clock.is_wrong and clock.now() < hour:
        return errors.ClockError(
            f"For the service {spoken(hour)} has not begun: {clock.problem}. Nothing was changed. Set the clock of "
            "this machine right (time synchronization) and run this again.",
            status=404,
        )
    return passed(hour, clock) or errors.NotPublishedYet(
        f"{clock.remark}The service has not published {spoken(hour)} yet: a batch listing appears when all exports of "
        "the hour have ended, some minutes after the hour. Nothing was changed. Run this again later; until two days "
        "after the hour nothing is lost.",
        status=404,
    )
