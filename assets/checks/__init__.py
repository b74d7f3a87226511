"""The checks of assets: what each looks at, and how its findings are reported."""
