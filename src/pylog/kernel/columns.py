"""Records to Arrow columns, by the kernel that runs. Needs numpy and pyarrow."""

from pylog.kernel import NAME
from pylog.kernel.pure.columns import decode_columns

if NAME == "compiled":
    from pylog.kernel.compiled.columns import decode_columns

__all__ = ["decode_columns"]
