"""One Spark session for all Spark tests, made for a quick start.

With `--dist loadfile` they all go to one process (tests/conftest.py).
Without Java or PySpark every test of this folder is skipped with the reason (`pytest -rs` shows it).
"""

import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pylog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent


def missing() -> str | None:
    """What is not there to run Spark, and how to get it."""
    for module in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(module) is None:
            return f"SPARK TESTS SKIPPED: no {module}; pip install pyspark pandas pyarrow"
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        return "SPARK TESTS SKIPPED: no Java; install a JRE 17 or set JAVA_HOME"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks this folder's tests, and skips them where Spark cannot run."""
    reason = missing()
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # Py4J leaves sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def places() -> Iterator[None]:
    """A worker keeps the logs that it reads. Here one test after the other is the worker."""
    yield
    if missing() is None:
        from pylog.spark import place

        while place._places:
            place._places.popitem()[1].close()


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A local session of two cores. Its Python workers are this interpreter with this pylog."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    source = str(Path(pylog.__file__).parents[1])
    handler, path = signal.getsignal(signal.SIGINT), [*sys.path]
    # The JVM takes the variables when it begins.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")])))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2]").appName("pylog tests")
        for key, value in settings(tmp_path_factory.mktemp("spark")).items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    # Spark's cancels its jobs, and would strike every test that comes after these.
    signal.signal(signal.SIGINT, handler)
    sys.path[:] = path
    session.sparkContext.setLogLevel("FATAL")
    gateway = session.sparkContext._gateway
    yield session
    session.stop()
    # It would end with the process.
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def settings(folder: Path) -> dict[str, str]:
    """A quick start rather than peak speed: the C1 compiler alone, the serial collector, no UI, few partitions."""
    return {
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        # Without it each Python task waits about 40 ms for the loopback socket's delayed acknowledgement.
        "spark.python.unix.domain.socket.enabled": "true",
    }
