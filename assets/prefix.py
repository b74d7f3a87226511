"""A prefix for every name that a Dagster project may have only once, so that the definitions fit into another project.

Asset keys and groups, steps, jobs, schedules, sensors, resource keys, pools and dynamic partitions take it. Steps know their assets by the
keys without a prefix (`unprefixed`).
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import dagster as dg

from resources.adapters import KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Called = TypeVar("_Called", bound="Callable[..., Any]")
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Prefix:
    """A prefix; the empty one leaves every name as it is.

    Raises:
        ValueError: The text cannot begin the name of a parameter.
    """

    text: str = ""

    def __post_init__(self) -> None:
        if self.text and not (self.text.isascii() and self.text.isidentifier()):
            raise ValueError(
                f"The prefix {self.text!r} cannot begin names of Dagster; write letters, digits and underscores, a letter first."
            )

    def name(self, name: str) -> str:
        """A name with the prefix."""
        return f"{self.text}_{name}" if self.text else name

    def key(self, key: dg.AssetKey) -> dg.AssetKey:
        """An asset key with the prefix, which is its first part."""
        return key.with_prefix(self.text) if self.text else key

    def covers(self, key: dg.AssetKey) -> bool:
        """Whether an asset of a project is one of those with the prefix."""
        return not self.text or key.path[0] == self.text

    def runs(self, run: dg.DagsterRun) -> bool:
        """Whether a run of a project is one of our jobs, or over one of our assets."""
        if run.asset_selection:
            return any(map(self.covers, run.asset_selection))
        return run.job_name.startswith(self.name(""))

    def specs(self, specs: Iterable[dg.AssetSpec]) -> list[dg.AssetSpec]:
        """Assets with the prefix, and what they depend on."""
        return [
            spec.replace_attributes(
                key=self.key(spec.key),
                deps=[self.key(dep.asset_key) for dep in spec.deps],
                group_name=self.name(spec.group_name or ""),
            )
            if self.text
            else spec
            for spec in specs
        ]

    def check_specs(self, specs: Iterable[dg.AssetCheckSpec]) -> list[dg.AssetCheckSpec]:
        """Checks of assets with the prefix."""
        return [spec.replace_key(dg.AssetCheckKey(self.key(spec.asset_key), spec.name)) for spec in specs]

    def adapted(self, function: _Called) -> _Called:
        """The function as Dagster calls it: with resources of prefixed keys, and this prefix where it has the parameter `prefix`."""
        declared = inspect.signature(function, eval_str=True)
        given = {"prefix": self} if "prefix" in declared.parameters else {}
        if not (self.text or given):
            return function
        names = {name: self.name(name) if name in KEYS else name for name in declared.parameters if name not in given}
        original = {shown: name for name, shown in names.items()}

        @functools.wraps(function)
        def call(*positional: Any, **keywords: Any) -> Any:
            return function(*positional, **given, **{original[name]: value for name, value in keywords.items()})

        @functools.wraps(function)
        def generate(*positional: Any, **keywords: Any) -> Any:
            yield from call(*positional, **keywords)

        parameters = [declared.parameters[name].replace(name=shown) for name, shown in names.items()]
        # Dagster asks a function whether it is a generator, for its signature, and for its annotations
        adapted: Any = generate if inspect.isgeneratorfunction(function) else call
        adapted.__signature__ = declared.replace(parameters=parameters)
        adapted.__annotations__ = {one.name: one.annotation for one in parameters}
        if declared.return_annotation is not inspect.Signature.empty:
            adapted.__annotations__["return"] = declared.return_annotation
        return adapted  # type: ignore[no-any-return]


#: No prefix: the project alone.
ALONE: Final = Prefix()


def deferred(
    decorator: Callable[[Prefix], Callable[[Callable[..., Any]], _Made]],
) -> Callable[[Callable[..., Any]], Callable[[Prefix], _Made]]:
    """Apply one of Dagster's decorators when the prefix is known: the name of the function becomes that of a factory.

    Args:
        decorator: Makes Dagster's decorator for a prefix.
    """

    def declare(function: Callable[..., Any]) -> Callable[[Prefix], _Made]:
        return lambda prefix: decorator(prefix)(prefix.adapted(function))

    return declare


def unprefixed(key: dg.AssetKey) -> dg.AssetKey:
    """The key of one of our assets without its prefix: they all have two parts."""
    return dg.AssetKey(key.path[-2:])


def own(keys: Iterable[dg.AssetKey]) -> dict[dg.AssetKey, dg.AssetKey]:
    """Keys of our assets in a run, by those without a prefix."""
    return {unprefixed(key): key for key in keys}


def prefix_of(keys: Iterable[dg.AssetKey]) -> Prefix:
    """The prefix of some of our assets, which is the same for all."""
    return Prefix("".join(next(iter(keys)).path[:-2]))
