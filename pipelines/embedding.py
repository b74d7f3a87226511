"""The definitions under a prefix, so that they fit into another Dagster project.

Asset keys and groups, steps, jobs, schedules, sensors, resource keys, pools and dynamic partitions take the prefix,
because a Dagster project may have each name only once. Assets and checks are made without a prefix; `Prefix.assets` and
`Prefix.checks` make them again under it, by the same decorators of Dagster. Their functions find the keys of the
project in their context (`assets.layers.own`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import dagster as dg

from resources.adapters import KEYS

_Called = TypeVar("_Called", bound="Callable[..., Any]")
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Prefix:
    """A prefix; the empty one leaves every name as it is. Raises ValueError if it cannot begin a parameter."""

    text: str = ""

    def __post_init__(self) -> None:
        if self.text and not (self.text.isascii() and self.text.isidentifier()):
            raise ValueError(
                f"The prefix {self.text!r} cannot begin names of Dagster; write letters, digits and underscores, a "
                "letter first."
            )

    def name(self, name: str) -> str:
        return f"{self.text}_{name}" if self.text else name

    def key(self, key: dg.AssetKey) -> dg.AssetKey:
        """An asset key with the prefix, which is its first part."""
        return key.with_prefix(self.text) if self.text else key

    def covers(self, key: dg.AssetKey) -> bool:
        """Return True if an asset of a project is one of those with the prefix."""
        return not self.text or key.path[0] == self.text

    def runs(self, run: dg.DagsterRun) -> bool:
        """Return True if a run of a project is one of our jobs, or over one of our assets."""
        if run.asset_selection:
            return any(map(self.covers, run.asset_selection))
        return run.job_name.startswith(self.name(""))

    def assets(self, made: Iterable[dg.AssetsDefinition | dg.AssetSpec]) -> list[dg.AssetsDefinition | dg.AssetSpec]:
        return [self._spec(one) if isinstance(one, dg.AssetSpec) else self._asset(one) for one in made]

    def checks(self, made: Iterable[dg.AssetChecksDefinition]) -> list[dg.AssetChecksDefinition]:
        """Checks, one in each definition, of assets with the prefix."""
        return [self._check(one) for one in made] if self.text else list(made)

    def op(self, made: dg.OpDefinition) -> dg.OpDefinition:
        if not self.text:
            return made
        declare: Any = dg.op(
            name=self.name(made.name),
            out=dg.Out(dg.Nothing),
            pool=self._pool(made),
            config_schema=_fields(made),
            description=made.description,
        )
        return declare(self.adapted(_function(made)))  # type: ignore[no-any-return]

    def _spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        if not self.text:
            return spec
        return spec.replace_attributes(
            key=self.key(spec.key),
            deps=[self.key(dep.asset_key) for dep in spec.deps],
            group_name=self.name(spec.group_name or ""),
            # where the code is, is of no use to another project
            metadata={name: value for name, value in spec.metadata.items() if name != "dagster/code_references"},
            partitions_def=self._partitions(spec.partitions_def),
        )

    def _asset(self, made: dg.AssetsDefinition) -> dg.AssetsDefinition:
        if not self.text:
            return made
        declare = dg.multi_asset(
            name=self.name(made.op.name),
            specs=[self._spec(spec) for spec in made.specs],
            check_specs=[
                spec.replace_key(dg.AssetCheckKey(self.key(spec.asset_key), spec.name)) for spec in made.check_specs
            ],
            partitions_def=self._partitions(made.partitions_def),
            can_subset=made.can_subset,
            backfill_policy=made.backfill_policy,
            pool=self._pool(made.op),
            config_schema=_fields(made.op),
        )
        return declare(self.adapted(_function(made.op)))

    def _check(self, made: dg.AssetChecksDefinition) -> dg.AssetChecksDefinition:
        (spec,) = made.check_specs
        declare = dg.asset_check(asset=self.key(spec.asset_key), name=spec.name, description=spec.description)
        return declare(self.adapted(_function(made.op)))

    def _pool(self, op: dg.OpDefinition) -> str | None:
        return None if op.pool is None else self.name(op.pool)

    def _partitions(self, made: dg.PartitionsDefinition[str] | None) -> dg.PartitionsDefinition[str] | None:
        if isinstance(made, dg.DynamicPartitionsDefinition):
            return dg.DynamicPartitionsDefinition(name=self.name(str(made.name)))
        return made

    def adapted(self, function: _Called) -> _Called:
        """The function as Dagster calls it: prefixed resource keys, and the prefix for its parameter `prefix`."""
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
    """Apply one of Dagster's decorators when the prefix is known: the function becomes a factory."""

    def declare(function: Callable[..., Any]) -> Callable[[Prefix], _Made]:
        return lambda prefix: decorator(prefix)(prefix.adapted(function))

    return declare


def prefix_of(keys: Iterable[dg.AssetKey]) -> Prefix:
    """The prefix of some of our assets, which is the same for all."""
    return Prefix("".join(next(iter(keys)).path[:-2]))


def _function(op: dg.OpDefinition) -> Callable[..., Any]:
    compute: Any = op.compute_fn
    return compute.decorated_fn  # type: ignore[no-any-return]


def _fields(op: dg.OpDefinition) -> dict[str, Any] | None:
    """The fields of a run's configuration; None: it takes any."""
    fields = getattr(op.config_schema.as_field().config_type, "fields", None)
    return None if fields is None else dict(fields)
