"""A Spark session that starts quietly, works offline and stays out of the way."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cepviz.errors import SetupError
from cepviz.spark.java import java_home

#: What pandas 3 says about pyspark's own code, in the driver and in the workers.
NOISE = "ignore::FutureWarning"

#: Where the session that was started last writes what Java and the workers say.
LOG = "spark.log"


def session(master: str | SparkSession | None = None, **config: Any) -> SparkSession:
    """A Spark session: the one that runs, or a new one on this machine's cores.

    `master` is where to run (`"local[2]"`, `"spark://host:7077"`), or a session you have, which
    comes back as it is. Under spark-submit, what that was told holds. Further settings go by their
    name with `_` for `.`: `session(spark_driver_memory="8g")`. What Java prints goes to a log file
    (`spark.conf.get("spark.cepviz.log")`), not into the notebook.
    """
    if isinstance(master, SparkSession):
        return master
    running = SparkSession.getActiveSession()
    if running is not None and (master is None or running.sparkContext.master == master):
        for name, value in config.items():
            running.conf.set(name.replace("_", "."), value)
        return running
    if running is not None:
        raise SetupError(
            f"a Spark session runs already, on {running.sparkContext.master}: "
            "stop it first with spark.stop(), or use it as it is"
        )
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit has started Java already
    folder = Path(tempfile.mkdtemp(prefix="cepviz-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    master = master or "local[*]"
    builder: Any = SparkSession.builder.appName("cepviz")
    given = {name.replace("_", "."): str(value) for name, value in config.items()}
    if submitted:
        settings = _of_every_session()
    else:
        builder = builder.master(master)
        settings = {**_of_every_session(), **_of_our_own(folder, master)}
    for name, value in {**settings, **given}.items():
        builder = builder.config(name, value)
    with _environment(folder, master, submitted), _quiet(folder / LOG):
        try:
            spark: SparkSession = builder.getOrCreate()
        except Exception as error:
            log = (folder / LOG).read_text(errors="replace").strip().splitlines()
            said = "\n".join(log[-12:])
            raise SetupError(f"Spark did not start: {error}\n{said}") from error
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _of_every_session() -> dict[str, str]:
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def _of_our_own(folder: Path, master: str) -> dict[str, str]:
    """Settings for a session that only this process uses."""
    cores = str(os.cpu_count() or 1)
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if os.name == "posix" else 0
    memory = min(max(pages // 4 >> 20, 1024), 4096)
    settings = {
        "spark.cepviz.log": str(folder / LOG),
        "spark.driver.memory": f"{memory}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # Workers live on between jobs, and load cepviz once.
        "spark.python.worker.reuse": "true",
        "spark.executorEnv.PYTHONWARNINGS": NOISE,
        "spark.executorEnv.PYTHONPATH": _python_path(),
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    return settings


def _python_path() -> str:
    """Where workers find this very cepviz, installed or not."""
    here = str(Path(__file__).parents[2])
    return os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))


@contextlib.contextmanager
def _environment(folder: Path, master: str, submitted: bool) -> Iterator[None]:
    """What Java inherits when it starts, and nobody else."""
    values = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if not submitted:
        values |= {
            "JAVA_HOME": str(java_home()),
            "PYTHONPATH": _python_path(),
            "PYTHONWARNINGS": NOISE,
        }
    if master.startswith("local"):
        values["SPARK_LOCAL_IP"] = "127.0.0.1"
    if master.startswith("local-cluster"):
        values["SPARK_HOME"] = _spark_home(folder)
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if name == "PYSPARK_PYTHON":
                continue  # read again for each job
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _spark_home(folder: Path) -> str:
    """Spark's own folder by links: a local cluster writes its `work` beside them, not there."""
    import pyspark

    home = folder / "home"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    return str(home)


@contextlib.contextmanager
def _quiet(log: Path) -> Iterator[None]:
    """Sends file descriptor 2 to a file while Java starts: it keeps that one for good."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(log, "ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
