"""What is compiled: built where there is a C compiler. Without one pylog is installed all the same, in Python only.

Everything else is in pyproject.toml. PYLOG_CFLAGS adds flags of the compiler and the linker: `make sanitize` does.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCE = Path("src")
FLAGS = os.environ.get("PYLOG_CFLAGS", "").split()

extensions = cythonize(
    [
        Extension(
            ".".join(source.relative_to(SOURCE).with_suffix("").parts),
            [str(source)],
            depends=[str(header) for header in sorted([*SOURCE.rglob("*.pxd"), *SOURCE.rglob("*.h")])],
            extra_compile_args=["-O3", "-fwrapv", "-g0", *FLAGS],
            extra_link_args=FLAGS,
        )
        for source in sorted(SOURCE.rglob("*.pyx"))
    ],
    include_path=["src"],
    language_level=3,
)
for extension in extensions:
    extension.optional = True  # cythonize does not hand it on

setup(ext_modules=extensions)
