"""The one thing that pyproject.toml cannot say without experimental settings: a library made of C.

It is no Python module: resources/lake/decode/native.py calls it through ctypes. Optional: without a C compiler the
installation goes on, and the converter reads records with pyarrow, slower and with the same result.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "resources.lake.decode._decode",
            ["resources/lake/decode/decode.c"],
            extra_compile_args=["-std=c11", "-O3", "-fvisibility=hidden"],
            optional=True,
        )
    ]
)
