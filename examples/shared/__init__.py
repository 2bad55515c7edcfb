"""One log for all processes of an application: four web workers, a pool, and a job of cron.

    gunicorn --workers 4 examples.shared.web:app      each worker opens the log: one owns it, three are attached
    python -m examples.shared.pool                    a pool of processes beside them
    python -m examples.shared.nightly                 what cron starts

The directory is in SHARED_LOG, or `shared-log`. Any of the processes may be killed at any moment.
"""
