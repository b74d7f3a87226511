"""The client of the Enterprise Content Service.

Belongs here: everything that talks to the service over HTTP: authentication, lists, downloads, their errors.
Does not belong here: reading what was downloaded (`lake`), storing it (`warehouse`), deciding when (`pipelines`).
"""

from resources.enterprise import errors, models
from resources.enterprise.account.authenticator import TokenStatus
from resources.enterprise.client import EnterpriseClient
from resources.enterprise.data_api import Lists
from resources.enterprise.download.archived import Sidecar, is_intact, is_landed, read_listing
from resources.enterprise.download.downloader import Download
from resources.enterprise.download.opening import Ranges
from resources.enterprise.hours import Hours
from resources.enterprise.http import endpoints
from resources.enterprise.http.transport import Patience
from resources.enterprise.http.wire import Limits
from resources.enterprise.listing import Listing
from resources.enterprise.lookups import Lookups
from resources.enterprise.query import Filter, Query
from resources.enterprise.reading import read_archive
from resources.enterprise.record_models import record_model
from resources.enterprise.service import Service
from resources.enterprise.service_files import FileHead, ServiceFiles
from resources.enterprise.snapshot.choice import plan_snapshot
from resources.enterprise.snapshot.manifest import SnapshotSet, read_set, read_sets, superseded
from resources.enterprise.snapshot.plan import Disk, Piece, SnapshotOptions, SnapshotPlan, Wishes, check_together
from resources.enterprise.snapshot.planner import Snapshots
from resources.enterprise.stream.stream import Stream, StreamOptions

__all__ = [
    "Disk",
    "Download",
    "EnterpriseClient",
    "FileHead",
    "Filter",
    "Hours",
    "Limits",
    "Listing",
    "Lists",
    "Lookups",
    "Patience",
    "Piece",
    "Query",
    "Ranges",
    "Service",
    "ServiceFiles",
    "Sidecar",
    "SnapshotOptions",
    "SnapshotPlan",
    "SnapshotSet",
    "Snapshots",
    "Stream",
    "StreamOptions",
    "TokenStatus",
    "Wishes",
    "check_together",
    "endpoints",
    "errors",
    "is_intact",
    "is_landed",
    "models",
    "plan_snapshot",
    "read_archive",
    "read_listing",
    "read_set",
    "read_sets",
    "record_model",
    "superseded",
]
