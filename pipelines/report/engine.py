"""The engine as `wme status` shows it: threads of this machine, or a scheduler and its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.errors import MirrorError
from resources.formatting import counted
from resources.lake import Converter, Layout
from resources.remote import SCHEME, RemoteConverter

if TYPE_CHECKING:
    from resources.settings import Settings

#: Name of the fact, one for each worker of a cluster.
WORKER = "worker"
#: Seconds that the scheduler has to answer.
_PATIENCE = 3.0


def engine_facts(settings: Settings) -> tuple[list[tuple[str, str]], list[str]]:
    """Facts of the engine, and what needs attention, in sentences. A scheduler has seconds to respond."""
    memory_bytes = None if settings.memory_mb is None else settings.memory_mb << 20
    if not settings.engine.startswith(SCHEME):
        try:
            with Converter(memory_bytes=memory_bytes) as converter:
                text = f"threads: {counted(converter.workers, 'worker')} within {converter.memory_bytes >> 20:,} MiB"
        except MirrorError as error:
            return [("engine", "threads")], [str(error)]
        return [("engine", text)], []
    return _cluster_facts(settings)


def _cluster_facts(settings: Settings) -> tuple[list[tuple[str, str]], list[str]]:
    facts, troubles = [], []
    layout, longest = Layout(settings.data), settings.max_record_mb << 20
    with RemoteConverter(settings.engine, layout, record_bytes_max=longest, answer_seconds=_PATIENCE) as converter:
        try:
            members = converter.cluster.members()
        except MirrorError as error:
            return [("engine", f"{settings.engine} (not reached)")], [str(error)]
        facts.append(("engine", f"{settings.engine}: {counted(len(members), 'worker')}"))
        if not members:
            troubles.append(f"The scheduler at {settings.engine} has no worker. Start workers with `wme worker`.")
        for member in members:
            versions = ", ".join(f"{name} {value}" for name, value in member.versions.items())
            at_once = counted(member.threads, "archive")
            facts.append((WORKER, f"{member.name} on {member.host}: {at_once} at a time; {versions or 'no versions'}"))
            if differences := converter.cluster.differences(member):
                troubles.append(
                    f"The worker {member.name} on {member.host} gets no work: {differences}. Install the same version "
                    "there and start it again."
                )
    return facts, troubles
