"""A job that cron starts beside a running application: it reports the clicks since its last run.

    5 0 * * *  cd /srv/app && python -m examples.shared.nightly

Where it got to is committed by its group, so a click is reported once. If the application is down, the job owns the log
for as long as it runs.
"""

import os
import sys
from collections import Counter

import pylog

TOPIC = "clicks"


def main(path: str = os.environ.get("SHARED_LOG", "shared-log")) -> None:
    """Report the clicks that are new."""
    users: Counter[str] = Counter()
    with pylog.open(path) as log:
        log.create_topic(TOPIC, 3, exist_ok=True)
        with log.consumer(TOPIC, group_id="nightly", auto_offset_reset="earliest", enable_auto_commit=False) as clicks:
            while records := clicks.poll(timeout_ms=1000, max_records=1000):
                users.update((record.key or b"").decode() for record in records)
            clicks.commit()
        print(f"{users.total()} new clicks, by {len(users)} users; the log was opened in mode '{log.mode}'")


if __name__ == "__main__":
    main(*sys.argv[1:])
