"""Every command of `wme`, as the tests of the command line and of texts go through them."""

from collections.abc import Iterator

import click

from pipelines import cli


def every(group: click.Group = cli.wme, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield the commands of a group and of the groups in it, each with the words that name it."""
    for name, command in group.commands.items():
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from every(command, (*words, name))
