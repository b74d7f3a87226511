"""Entry point of `wme` and `python -m pipelines`. Handles Ctrl-C even during imports, which take a second."""

from pipelines.process import interrupts


def main() -> None:
    interrupts.watch()
    from pipelines import cli  # noqa: PLC0415 - import after `watch`

    cli.main()


if __name__ == "__main__":
    main()
