"""Writing to a file in Cython. Importing it fails where it was not built.

output      one `pwrite`, where nothing is in the way
"""

from pylog.files.compiled.output import Output

__all__ = ["Output"]
