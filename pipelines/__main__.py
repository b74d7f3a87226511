"""Entry point for `wme` and `python -m pipelines`. Ctrl-C is handled even during imports, which take a second."""

from pipelines.process import interrupts


def main() -> None:
    interrupts.watch()
    from pipelines import cli  # noqa: PLC0415 - import after `watch`

    cli.main()


if __name__ == "__main__":
    main()
