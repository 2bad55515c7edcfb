"""The path of each record that is sent: it joins the open batch of its partition, and gets a future.

    RecordAppender             `send`; a producer adds what needs a decision: `send_any`
    OpenBatches, Route         the open batches by topic and partition, and how many bytes wait
    ProducerBatch              an open batch of the kernel and the delivery that will answer for it
    Delivery, RecordFuture     one answer for a batch; a future is no more than (delivery, index, timestamp)
    StickyPartitioner          as in `partitioner`

Twice, as the kernel: `pure` in Python, which hands every record to `send_any`, and `compiled` in Cython, whose `send`
itself adds a record of plain types to a batch that is open and has room for it. It does so at once, as no Python
code runs meanwhile, so it needs no lock, while everything else of a producer happens under one. It relies on two rules:

- A batch is in its route as long as records may be added to it. It is taken out under the producer's lock, and only
  then is it closed and sent.
- A thread that finds no open batch, or a full one, takes the lock, and finds everything in its place there.

The compiled one runs where the compiled kernel does. Static types are those of the pure one.
"""

import importlib
import logging

from pylog import kernel
from pylog.client.record_append.pure import (
    Bring,
    Delivery,
    OnDelivery,
    OpenBatches,
    Part,
    ProducerBatch,
    RecordAppender,
    RecordFuture,
    Route,
    StickyPartitioner,
)

__all__ = [
    "Bring",
    "Delivery",
    "OnDelivery",
    "OpenBatches",
    "Part",
    "ProducerBatch",
    "RecordAppender",
    "RecordFuture",
    "Route",
    "StickyPartitioner",
]

if kernel.NAME == "compiled":
    try:
        compiled = importlib.import_module("pylog.client.record_append.compiled")
    except ImportError as error:
        logging.getLogger("pylog.client").info("records are sent in pure Python, many times slower: %s", error)
    else:
        globals().update({name: getattr(compiled, name) for name in compiled.__all__})
