"""Client for the Enterprise Content Service.

This package contains all HTTP communication with the service: authentication, lists, downloads, and their errors.
Other packages read downloaded files (`lake`), store their contents (`warehouse`) and schedule runs (`pipelines`).
"""

from resources.enterprise import endpoints, errors, models
from resources.enterprise.account.token_store import TokenStatus
from resources.enterprise.archives import ServiceFiles, read_archive
from resources.enterprise.client import EnterpriseClient, Hours
from resources.enterprise.data_api import Lists
from resources.enterprise.download.archived import Sidecar, is_landed, read_listing, read_set
from resources.enterprise.download.downloader import Download
from resources.enterprise.endpoints import Service
from resources.enterprise.http.bounds import Limits, RetryPolicy
from resources.enterprise.listing import Listing
from resources.enterprise.models import record_model
from resources.enterprise.query import Filter, Query
from resources.enterprise.snapshot.plan import (
    Disk,
    FetchOptions,
    SnapshotOptions,
    SnapshotPlan,
    check_together,
    plan_snapshot,
    superseded,
)
from resources.enterprise.snapshot.planner import Snapshots
from resources.enterprise.stream import StreamOptions

__all__ = [
    "Disk",
    "Download",
    "EnterpriseClient",
    "FetchOptions",
    "Filter",
    "Hours",
    "Limits",
    "Listing",
    "Lists",
    "Query",
    "RetryPolicy",
    "Service",
    "ServiceFiles",
    "Sidecar",
    "SnapshotOptions",
    "SnapshotPlan",
    "Snapshots",
    "StreamOptions",
    "TokenStatus",
    "check_together",
    "endpoints",
    "errors",
    "is_landed",
    "models",
    "plan_snapshot",
    "read_archive",
    "read_listing",
    "read_set",
    "record_model",
    "superseded",
]
