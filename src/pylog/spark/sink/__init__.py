"""Writing from Spark: tasks encode and stage batches, the driver appends them in one transaction.

rows            rows of Arrow batches, as Kafka batches of each partition
staging         where these lie until the driver commits them: files of the log directory
staged_topic    the same behind servers: a topic
content         a checksum of rows, by which a batch that is run again is known
plan            how Spark planned a batch, from its checkpoint
ledger          which batch of a stream was committed last
commit          the driver's half: one transaction, and what follows it
writers         what Spark calls

executors   write(rows)  -> rows.RowEncoder -> Stage.put -> Staged, a small message
driver      commit(messages) -> ledger: is the batch there? -> transaction: send_batch of all that was staged, and
            the ledger's record -> what a replaced topic had before is deleted -> staged batches are deleted
"""
