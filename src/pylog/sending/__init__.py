"""What sending does for each record: it joins the open batch of its partition, and gets a future.

    Sender                     `send`; a producer adds what needs a decision: `_send_any`
    OpenBatches, Route         the open batches by topic and partition, and how many bytes wait
    ProducerBatch              an open batch of the kernel and the delivery that will answer for it
    Delivery, RecordFuture     one answer for a batch; a future is no more than (delivery, index, timestamp)
    StickyPartitioner          as in `partitioner`
"""

from pylog.sending.pure import Delivery, OpenBatches, ProducerBatch, RecordFuture, Route, Sender, StickyPartitioner

__all__ = ["Delivery", "OpenBatches", "ProducerBatch", "RecordFuture", "Route", "Sender", "StickyPartitioner"]
