"""Entry point for `wme` and `python -m pipelines`. Ctrl-C is handled even during imports, which take a second."""

import os
import sys

from pipelines.process import interrupts


def open_streams() -> None:
    """Open /dev/null for closed standard streams, so that output is not written into the next file that is opened."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def main() -> None:
    open_streams()
    interrupts.watch()
    from pipelines import cli  # noqa: PLC0415 - import after `watch`

    cli.main()


if __name__ == "__main__":
    main()
