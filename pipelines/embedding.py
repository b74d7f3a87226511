"""Name prefix for definitions that are part of another Dagster project.

The prefix applies to asset keys, groups, steps, jobs, schedules, sensors, resource keys, pools and dynamic partitions,
because names must be unique within a Dagster project. Assets and checks are first built without a prefix.
`Prefix.asset` and `Prefix.check` rebuild the assets and checks with the prefix and the same Dagster decorators. The
asset functions find the project's keys in their context (see `assets.layers.own`).
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import dagster as dg

from resources.adapters import KEYS

_Called = TypeVar("_Called", bound="Callable[..., Any]")


@dataclass(frozen=True)
class Prefix:
    """Name prefix. An empty prefix changes nothing. Raises ValueError if a parameter name cannot begin with `text`."""

    text: str = ""

    def __post_init__(self) -> None:
        if self.text and not (self.text.isascii() and self.text.isidentifier()):
            raise ValueError(
                f"Dagster names cannot begin with the prefix {self.text!r}. Use letters, digits and underscores, and "
                "begin with a letter."
            )

    def name(self, name: str) -> str:
        return f"{self.text}_{name}" if self.text else name

    def key(self, key: dg.AssetKey) -> dg.AssetKey:
        """Return an asset key with the prefix as its first part."""
        return key.with_prefix(self.text) if self.text else key

    def covers(self, key: dg.AssetKey) -> bool:
        """Return True if an asset key has the prefix."""
        return not self.text or key.path[0] == self.text

    def runs(self, run: dg.DagsterRun) -> bool:
        """Return True if a run belongs to a job of this package, or covers an asset of this package."""
        if run.asset_selection:
            return any(map(self.covers, run.asset_selection))
        return run.job_name.startswith(self.name(""))

    def _spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        return spec.replace_attributes(
            key=self.key(spec.key),
            deps=[self.key(dep.asset_key) for dep in spec.deps],
            group_name=self.name(spec.group_name or ""),
            # source locations are not useful to another project
            metadata={name: value for name, value in spec.metadata.items() if name != "dagster/code_references"},
            partitions_def=self._partitions(spec.partitions_def),
        )

    def asset(self, made: dg.AssetsDefinition | dg.AssetSpec) -> dg.AssetsDefinition | dg.AssetSpec:
        if not self.text:
            return made
        if isinstance(made, dg.AssetSpec):
            return self._spec(made)
        # None means that the run configuration allows any field
        fields = getattr(made.op.config_schema.as_field().config_type, "fields", None)
        declare = dg.multi_asset(
            name=self.name(made.op.name),
            specs=[self._spec(spec) for spec in made.specs],
            check_specs=[
                spec.replace_key(dg.AssetCheckKey(self.key(spec.asset_key), spec.name)) for spec in made.check_specs
            ],
            partitions_def=self._partitions(made.partitions_def),
            can_subset=made.can_subset,
            backfill_policy=made.backfill_policy,
            pool=None if made.op.pool is None else self.name(made.op.pool),
            config_schema=None if fields is None else dict(fields),
        )
        return declare(self.adapted(_function(made.op)))

    def check(self, made: dg.AssetChecksDefinition) -> dg.AssetChecksDefinition:
        """Rebuild a definition of one check for the asset with the prefix."""
        if not self.text:
            return made
        (spec,) = made.check_specs
        declare = dg.asset_check(asset=self.key(spec.asset_key), name=spec.name, description=spec.description)
        return declare(self.adapted(_function(made.op)))

    def _partitions(self, made: dg.PartitionsDefinition[str] | None) -> dg.PartitionsDefinition[str] | None:
        if isinstance(made, dg.DynamicPartitionsDefinition):
            return dg.DynamicPartitionsDefinition(name=self.name(str(made.name)))
        return made

    def adapted(self, function: _Called) -> _Called:
        """Wrap a function for Dagster by renaming its resource parameters and passing this prefix as `prefix`."""
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
        # Dagster inspects whether a function is a generator, its signature, and its annotations
        adapted: Any = generate if inspect.isgeneratorfunction(function) else call
        adapted.__signature__ = declared.replace(parameters=parameters)
        adapted.__annotations__ = {one.name: one.annotation for one in parameters}
        if declared.return_annotation is not inspect.Signature.empty:
            adapted.__annotations__["return"] = declared.return_annotation
        return adapted  # type: ignore[no-any-return]


def deferred(decorator: Callable[..., Any], job: str | None = None, **options: Any) -> Callable[..., Any]:
    """Turn a function into a factory that applies a Dagster decorator once the prefix is known.

    The definition is named after the function. The definition's target is the job, or all assets of this package.
    """

    def declare(function: Callable[..., Any]) -> Callable[[Prefix], Any]:
        def build(prefix: Prefix) -> Any:
            assets = dg.AssetSelection.key_prefixes(prefix.text) if prefix.text else dg.AssetSelection.all()
            target = {"asset_selection": assets} if job is None else {"job_name": prefix.name(job)}
            return decorator(name=prefix.name(function.__name__), **target, **options)(prefix.adapted(function))

        return build

    return declare


def prefix_of(keys: Iterable[dg.AssetKey]) -> Prefix:
    """Return the prefix that the given assets share."""
    return Prefix("".join(next(iter(keys)).path[:-2]))


def _function(op: dg.OpDefinition) -> Callable[..., Any]:
    compute: Any = op.compute_fn
    return compute.decorated_fn  # type: ignore[no-any-return]
