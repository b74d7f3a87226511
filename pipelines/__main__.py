"""Entry point of `wme` and `python -m pipelines`; handles Ctrl-C before imports, which take a second, begin."""

from pipelines.process import interrupts


def main() -> None:
    interrupts.watch()
    from pipelines import cli  # noqa: PLC0415 - behind the line before

    cli.main()


if __name__ == "__main__":
    main()
