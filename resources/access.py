"""How the service is reached: an account at its addresses, or the sandbox in its place, for one data folder.

Belongs here: what commands and Dagster's resource share, without Dagster, which takes a second to import.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from resources import data_folder
from resources.enterprise import EnterpriseClient, Limits, Patience, Service
from resources.errors import MirrorError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resources import sandbox

#: Larger numbers are slips, and far larger ones lead beyond the last date there is.
LARGEST: Final = 1_000_000
#: Requests a second; fewer would look like a client that hangs.
SLOWEST: Final = 0.001


class SandboxError(MirrorError):
    """The sandbox of the data folder could not be started or joined."""

    ends_run = True


@dataclass(frozen=True)
class Access:
    """What has to be known to talk to the service; what each value means is said where it is set (`pipelines.settings`)."""

    data: str
    auth_url: str = Service.auth_url
    base_url: str = Service.base_url
    realtime_url: str = Service.realtime_url
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    contact: str | None = None
    anonymous: bool = False
    allow_http: bool = False
    min_free_gb: float = 0.0
    requests_per_second: float | None = None
    use_sandbox: bool = False

    @property
    def sentence(self) -> str:
        """Which service it is, and where; nothing is started, and nobody is asked."""
        if not self.use_sandbox:
            return f"The Enterprise Content Service at {self.base_url}."
        found = self.found_sandbox()
        where = (
            "It is not running; the first run that needs it starts it on a free port of this machine."
            if found is None
            else f"Its address is {found.url} until it ends; the next start takes another free port."
        )
        return f"The built-in sandbox (synthetic pages) of {self.data}, in place of the service. {where} Reload the definitions to look again."

    def found_sandbox(self) -> sandbox.Record | None:
        """Where the data folder's sandbox is by its own note, which a sandbox that ends takes away; None: it is not running."""
        from resources import sandbox

        return sandbox.find(sandbox_settings(Path(self.data)).state)

    def service(self, *, writes: bool = True) -> Service:
        """The service to talk to; starts the sandbox where that is the service. Binds the data folder to it.

        Args:
            writes: Files will be written into the data folder. Without it the folder may be full or read-only, and is not bound.

        Raises:
            FolderError: Files cannot be written there.
            OriginError: The data folder belongs to another service.
            SandboxError: The sandbox could not be started or joined.
        """
        data = Path(self.data)
        if writes or (self.use_sandbox and self.found_sandbox() is None):
            data_folder.ready(data)
        if not self.use_sandbox:
            # made first: an address that cannot be one binds nothing, and is kept nowhere
            service = Service(
                auth_url=self.auth_url,
                base_url=self.base_url,
                realtime_url=self.realtime_url,
                username=self.username,
                password=self.password,
                contact=self.contact,
                anonymous=self.anonymous,
                allow_http=self.allow_http,
            )
            data_folder.claim(data, service.base_url, writes=writes)
            return service
        from resources import sandbox

        settings = sandbox_settings(data)
        data_folder.claim(data, f"sandbox {settings.identity}", writes=writes)
        try:
            endpoint = sandbox.attach(settings, owner=data_folder.ui_lock(data))
        except (sandbox.SandboxConflictError, sandbox.SandboxStartError, ValueError) as error:
            raise SandboxError(str(error)) from error
        return Service(
            auth_url=endpoint.url,
            base_url=endpoint.url,
            realtime_url=endpoint.realtime_url,
            username=endpoint.username,
            password=endpoint.password,
            contact=self.contact,
        )

    @contextmanager
    def client(self, seconds: float | None = None, *, writes: bool = True) -> Iterator[EnterpriseClient]:
        """A client of the service, closed at the end. Tokens are shared with every process of this data folder.

        Args:
            seconds: For whoever may not wait: what an answer may take, and nothing is tried twice. Default: with patience.
            writes: As for `service`. A token that is stored and valid is used without writing; a new one is stored.
        """
        limits = Limits(keep_free_bytes=int(self.min_free_gb * 1e9))
        patience = Patience(requests_per_second=self.requests_per_second)
        if seconds is not None:
            limits = replace(limits, answer_seconds=seconds)
            patience = replace(patience, retries=0, connect_timeout=seconds / 2, read_timeout=seconds)
        state = Path(self.data) / "state"
        with EnterpriseClient(self.service(writes=writes), state=state, patience=patience, limits=limits) as client:
            yield client


def sandbox_settings(data: Path) -> sandbox.Settings:
    """The settings of a data folder's own sandbox: the default world, kept in `data/sandbox`."""
    from resources import sandbox

    return sandbox.Settings(state=data / "sandbox")
