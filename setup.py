"""The compiled kernel: built where there is a C compiler. Without one pylog is installed all the same, with a pure one.

Everything else is in pyproject.toml. PYLOG_CFLAGS adds flags of the compiler and the linker: `make sanitize` does.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

KERNEL = Path("src/pylog/kernel/compiled")
FLAGS = os.environ.get("PYLOG_CFLAGS", "").split()

extensions = cythonize(
    [
        Extension(
            f"pylog.kernel.compiled.{source.stem}",
            [str(source)],
            depends=[str(header) for header in sorted([*KERNEL.glob("*.pxd"), *KERNEL.glob("*.h")])],
            extra_compile_args=["-O3", "-fwrapv", "-g0", *FLAGS],
            extra_link_args=FLAGS,
        )
        for source in sorted(KERNEL.glob("*.pyx"))
    ],
    include_path=["src"],
    language_level=3,
)
for extension in extensions:
    extension.optional = True  # cythonize does not hand it on

setup(ext_modules=extensions)
