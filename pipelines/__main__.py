"""`wme`, and `python -m pipelines`: the entry point, which minds Ctrl-C before the second of imports begins."""

from pipelines.process import interrupts


def main() -> None:
    interrupts.watch()
    from pipelines import cli  # noqa: PLC0415 - behind the line before

    cli.main()


if __name__ == "__main__":
    main()
