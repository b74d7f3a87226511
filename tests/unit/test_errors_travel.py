"""Every error of ours says what it ends, and arrives whole in another process: with its words and what it says."""

import importlib
import inspect
import pickle
import pkgutil
from pathlib import Path
from typing import Any

import pytest

import assets
import pipelines
import resources
from assets.describe import failure, sentence
from resources.engine.dask import portable
from resources.engine.mapping import TaskError
from resources.enterprise.errors import AuthenticationError, UnreachableError
from resources.errors import MirrorError, ends_run, unavailable


def every(kind: type[MirrorError]) -> set[type[MirrorError]]:
    return {kind}.union(*(every(child) for child in kind.__subclasses__()))


# import every module, so that no class is missed because nobody asked for it yet
for package in (resources, assets, pipelines):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.endswith(("__main__", "._decode")):  # the latter is a library of C, and no module
            importlib.import_module(found.name)
OURS = sorted(
    (kind for kind in every(MirrorError) if not kind.__module__.startswith("test")),
    key=lambda kind: f"{kind.__module__}.{kind.__name__}",
)
assert len(OURS) > 40, "the modules were not imported"
#: An argument by the name or the type that a constructor gives it.
VALUES: dict[str, Any] = {
    "path": Path("/data/x.tar.gz"), "reasons": {("enwiki", 0): "Said so."}, "int": 7, "str": "Said so.",
    "Path": Path("/y"), "datetime": None,
}  # fmt: skip


def example(kind: type[MirrorError]) -> MirrorError:
    """One of a kind, with something in every parameter that its constructor has."""
    if kind.__init__ is Exception.__init__:
        return kind("What happened. What was kept. What to do.")
    positional, named = [], {}
    for parameter in list(inspect.signature(kind.__init__).parameters.values())[1:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional.append("Said so.")
            continue
        value = VALUES.get(parameter.name, VALUES.get(str(parameter.annotation).partition(" ")[0], "Said so."))
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            positional.append(value)
    return kind(*positional, **named)


#: What every other hour would meet as well.
ENDING = {
    *("AuthenticationError", "NewPasswordRequired", "RefreshRefused", "TokenSpent", "Forbidden", "UnknownNameError"),
    *("QuotaExceeded", "BudgetExceeded", "ClockError", "UnreachableError", "WatchlistError", "SandboxError"),
    *("DiskFullError", "DiskFull", "WarehouseFullError", "BackupDiskFullError"),
    # the folder of the tokens; the warehouse in another process, damaged, or with tables of another version
    *("StateError", "WarehouseBusyError", "WarehouseDamagedError", "WarehouseVersionError", "_UnavailableError"),
    *("OriginError", "FolderError", "InstanceError"),
}


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_error_survives_the_way_and_ends_its_run_or_not(kind):
    sent = example(kind)
    got = pickle.loads(pickle.dumps(sent))
    assert (type(got), str(got), got.__dict__) == (kind, str(sent), sent.__dict__)
    assert (got.retryable, got.ends_run, got.unavailable) == (sent.retryable, sent.ends_run, sent.unavailable)
    assert portable(sent) is sent
    assert ends_run(sent) is (kind.__name__ in ENDING)
    assert (unavailable(sent) == "service") is isinstance(sent, AuthenticationError | UnreachableError)
    assert (failure(sent).allow_retries, sentence(sent)) == (kind.retryable, str(sent))
    assert "Said so." in str(sent) or "What happened." in str(sent)


class NeedsTwoError(Exception):
    """Of the kind that does not come back: its constructor wants more than its words."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def test_an_error_that_cannot_travel_arrives_by_its_words():
    told = portable(NeedsTwoError("one", "two"))
    assert (type(told), str(told), type(portable(KeyError("x")))) == (TaskError, "NeedsTwoError: one two", KeyError)
