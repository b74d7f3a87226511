"""Client for the Enterprise Content Service.

This package contains all HTTP communication with the service: authentication, lists, downloads, and their errors.
Other packages read downloaded files (`lake`), store their contents (`warehouse`) and schedule runs (`pipelines`).
"""

from resources.enterprise import endpoints as endpoints
from resources.enterprise import errors as errors
from resources.enterprise import models as models
from resources.enterprise.account.token_store import TokenStatus as TokenStatus
from resources.enterprise.archives import ServiceFiles as ServiceFiles
from resources.enterprise.archives import read_archive as read_archive
from resources.enterprise.client import EnterpriseClient as EnterpriseClient
from resources.enterprise.client import Hours as Hours
from resources.enterprise.data_api import Lists as Lists
from resources.enterprise.download.archived import Sidecar as Sidecar
from resources.enterprise.download.archived import is_landed as is_landed
from resources.enterprise.download.archived import read_listing as read_listing
from resources.enterprise.download.archived import read_set as read_set
from resources.enterprise.download.downloader import Download as Download
from resources.enterprise.endpoints import Service as Service
from resources.enterprise.http.bounds import Limits as Limits
from resources.enterprise.http.bounds import RetryPolicy as RetryPolicy
from resources.enterprise.listing import Listing as Listing
from resources.enterprise.models import record_model as record_model
from resources.enterprise.query import Filter as Filter
from resources.enterprise.query import Query as Query
from resources.enterprise.snapshot.plan import FetchOptions as FetchOptions
from resources.enterprise.snapshot.plan import SnapshotOptions as SnapshotOptions
from resources.enterprise.snapshot.plan import SnapshotPlan as SnapshotPlan
from resources.enterprise.snapshot.plan import check_together as check_together
from resources.enterprise.snapshot.plan import plan_snapshot as plan_snapshot
from resources.enterprise.snapshot.plan import superseded as superseded
from resources.enterprise.snapshot.planner import Snapshots as Snapshots
from resources.enterprise.stream import StreamOptions as StreamOptions
