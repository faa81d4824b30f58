"""Runs a Spark job with a progress bar, and stops it when it is interrupted."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

Found = TypeVar("Found")

#: How often to ask Spark how far it is, in seconds.
EVERY = 0.2


def run(
    spark: SparkSession, about: str, action: Callable[[], Found], progress: bool | None
) -> Found:
    """What `action` returns; Ctrl-C cancels its jobs and leaves the session fit for more.

    The action runs in a thread of its own and in a job group of its own, which the bar watches
    through Spark's status tracker. `progress` is None for a bar after two seconds on a terminal
    or in a notebook, True for always, False for never.
    """
    context = spark.sparkContext
    group = f"cepviz-{uuid.uuid4()}"
    outcome: list[Found] = []
    errors: list[BaseException] = []

    def work() -> None:
        context.setJobGroup(group, about, interruptOnCancel=True)
        try:
            outcome.append(action())
        except BaseException as error:
            errors.append(error)

    thread = InheritableThread(target=work, daemon=True)
    thread.start()
    try:
        _watch(context, group, about, thread, progress)
    except KeyboardInterrupt:
        _cancel(context, group, thread)
        raise
    if errors:
        raise errors[0]
    return outcome[0]


def _cancel(context: Any, group: str, thread: threading.Thread) -> None:
    # A job may be on its way to start: ask until the thread has heard it.
    for _ in range(100):
        context.cancelJobGroup(group)
        thread.join(EVERY)
        if not thread.is_alive():
            return


def _watch(
    context: Any, group: str, about: str, thread: threading.Thread, progress: bool | None
) -> None:
    if progress is False:
        while thread.is_alive():
            thread.join(EVERY)
        return
    from tqdm.auto import tqdm

    tracker = context.statusTracker()
    off = None if progress is None else False
    with tqdm(desc=about, unit=" tasks", delay=2 if progress is None else 0, leave=False,
              disable=off, total=0) as bar:  # fmt: skip
        while thread.is_alive():
            thread.join(EVERY)
            done, total = _tasks(tracker, group)
            bar.total = max(total, bar.total or 0)
            bar.update(max(done - bar.n, 0))


def _tasks(tracker: Any, group: str) -> tuple[int, int]:
    """How many tasks of a group are done, of how many that are known so far."""
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            found = tracker.getStageInfo(stage)
            if found is not None:
                done += found.numCompletedTasks
                total += found.numTasks
    return done, total
