"""The command line: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import cepviz as cep
from cepviz import cli

PAIR = "PATTERN SEQ(A a, B b) WITHIN 10"
KLEENE = "PATTERN SEQ(A+ a[], B b) WITHIN 10"
ROWS = [
    {"type": "A", "time": 1, "x": 1, "name": "one"},
    {"type": "A", "time": 2, "x": 2, "name": None},
    {"type": "B", "time": 3, "x": 3, "name": "three"},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    pd.DataFrame(ROWS).to_csv(path, index=False)
    return path


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


# ---- match ----


def test_match_prints_a_table_and_a_summary(data, capsys):
    assert run("match", PAIR, data, "--engine", "eager") == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["match", "a", "b", "first", "last", "events"],
        ["0", "0", "2", "1", "3", "2"],
        ["1", "1", "2", "2", "3", "2"],
    ]
    assert lines[-1].startswith("2 matches in 3 events by eager")
    assert err == ""


def test_match_without_a_match_says_so(data, capsys):
    assert run("match", "PATTERN SEQ(B b, A a) WITHIN 10", data) == 0
    assert capsys.readouterr().out.startswith("0 matches in 3 events")


def test_limit_shortens_the_table_only(data, tmp_path, capsys):
    out = tmp_path / "found.csv"
    assert run("match", PAIR, data, "--limit", 1, "--out", out) == 0
    assert "and 1 more" in capsys.readouterr().out
    assert len(pd.read_csv(out)) == 2


def test_the_pattern_may_be_a_file(data, tmp_path, capsys):
    query = tmp_path / "query.sase"
    query.write_text(f"-- two events\n{PAIR}\n")
    assert run("match", query, data) == 0
    assert "2 matches" in capsys.readouterr().out


def test_the_engine_can_be_chosen(data, capsys):
    assert run("match", PAIR, data, "--engine", "naive") == 0
    assert "by naive" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".json"])
def test_data_is_read_by_its_extension(tmp_path, capsys, suffix):
    path, frame = tmp_path / f"data{suffix}", pd.DataFrame(ROWS)
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)
    assert run("match", PAIR, path) == 0
    assert "2 matches" in capsys.readouterr().out


def test_columns_are_named_by_options(tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_text("kind,when,key\nB,3,third\nA,1,first\n")
    options = ["--type", "kind", "--time", "when", "--id", "key", "--sort", "--unit", "min"]
    assert run("match", "PATTERN SEQ(A a, B b) WITHIN 1 hour", path, *options) == 0
    assert ["0", "first", "third", "1", "3", "2"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]


def test_one_type_for_every_row_and_intervals(tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_text("time,end\n1,2\n3,5\n")
    pattern, options = "PATTERN SEQ(S a, S b) WITHIN 9", ["--every", "S", "--end", "end"]
    assert run("match", pattern, path, *options, "--engine", "eager") == 1
    assert "'naive'" in capsys.readouterr().err
    assert run("match", pattern, path, *options, "--engine", "naive") == 0
    assert "1 match in" in capsys.readouterr().out


def test_rows_that_came_too_late_are_told_of(tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_text("type,time\nA,1\nA,9\nB,8\nB,2\n")
    assert run("match", PAIR, path, "--lateness", 2) == 0
    out, err = capsys.readouterr()
    assert "1 match " in out
    assert err == "cepviz: warning: 1 rows came later than --lateness and are left out\n"


def test_parameters_are_given_by_name(data, capsys):
    pattern = "PATTERN SEQ(A a, B b) WHERE a.x > T and b.name IN S WITHIN h"
    given = ["--given", "T=1", "--given", 'S=["three"]', "--given", "h=1 minute"]
    assert run("match", pattern, data, *given) == 0
    assert "1 match " in capsys.readouterr().out


# ---- what it writes ----


def ids(value):
    return json.loads(value) if isinstance(value, str) else list(value)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json", ".jsonl"])
def test_matches_read_back_as_they_are(data, tmp_path, suffix):
    out = tmp_path / f"found{suffix}"
    assert run("match", KLEENE, data, "--engine", "naive", "--out", out) == 0
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet}.get(suffix)
    frame = read(out) if read else pd.read_json(out, lines=suffix == ".jsonl")
    assert [ids(row) for row in frame["a"]] == [[0], [1], [0, 1]]
    assert list(frame["b"]) == [2, 2, 2]
    assert list(frame.columns) == ["match", "a", "b", "first", "last", "events"]


def test_events_are_written_with_their_values(data, tmp_path):
    out = tmp_path / "found.parquet"
    assert run("match", KLEENE, data, "--engine", "naive", "--events", "--out", out) == 0
    frame = pd.read_parquet(out)
    last = frame[frame["match"] == 2]
    assert list(last["variable"]) == ["a", "a", "b"]
    assert list(last["x"]) == [1, 2, 3]


def test_ids_stay_whole_numbers_where_a_branch_lacks_the_variable(data, tmp_path):
    out = tmp_path / "found.csv"
    assert run("match", "PATTERN OR(SEQ(A a), SEQ(B b)) WITHIN 9", data, "--out", out) == 0
    assert [line.split(",")[1:3] for line in out.read_text().splitlines()[1:]] == [
        ["0", ""],
        ["1", ""],
        ["", "2"],
    ]


def test_a_variable_may_be_called_like_a_column(data, tmp_path):
    out = tmp_path / "found.csv"
    assert run("match", "PATTERN SEQ(A match, B first) WITHIN 9", data, "--out", out) == 0
    frame = pd.read_csv(out)
    assert list(frame.columns) == ["match_", "match", "first", "first_", "last", "events"]
    assert list(frame["first"]) == [2, 2]


def test_what_parquet_cannot_hold_is_an_error(tmp_path, capsys):
    path, out = tmp_path / "data.jsonl", tmp_path / "found.parquet"
    path.write_text('{"type":"A","time":1,"x":"s"}\n{"type":"B","time":2,"x":1}\n')
    assert run("match", PAIR, path, "--events", "--out", out) == 1
    assert "write .csv or .json" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["data.jsonl"]


# ---- warnings and errors ----


def test_warnings_are_one_line_each_on_stderr(data, capsys):
    assert run("match", "PATTERN SEQ(A a, C c)", data) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("cepviz: warning: ") for line in lines)
    assert "no WITHIN" in lines[0]
    assert "no event of type 'C'" in lines[1]


def test_predicates_that_could_not_be_computed_are_told_of(data, capsys):
    assert run("match", "PATTERN SEQ(A a, B b) WHERE a.x / 0 > 1 WITHIN 9", data) == 0
    assert "2 predicates could not be computed, the first: a.x / 0 > 1" in capsys.readouterr().err


def test_a_wrong_pattern_is_shown_with_a_caret(data, capsys):
    assert run("match", "PATTERN SEQ(A a, B b) WERE a.x = 1", data) == 1
    out, err = capsys.readouterr()
    assert out == ""
    said, text, caret, _ = err.splitlines()
    assert said.startswith("cepviz: error: line 1, column 23: 'WERE'")
    assert text[caret.index("^") :].startswith("WERE")
    assert caret.count("^") == 4


def test_an_unknown_column_is_shown_with_a_caret(data, capsys):
    assert run("match", "PATTERN SEQ(A a) WHERE a.y = 1 WITHIN 9", data) == 1
    assert "  PATTERN SEQ(A a) WHERE a.y = 1 WITHIN 9\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["match", PAIR, "nowhere.csv"], "there is no file 'nowhere.csv'"),
        (["match", PAIR, "data.xls"], "must end in .csv"),
        (["match", "query.sase", "data.csv"], "neither a file nor a pattern"),
        (["match", "PATTERN SEQ(A+ a[])", "DATA", "--engine", "eager"], "no Kleene"),
        (["match", PAIR, "DATA", "--time", "when"], "there is no time column 'when'"),
        (["match", PAIR, "DATA", "--given", "T=1"], "no parameter 'T'"),
    ],
)
def test_wrong_input_exits_with_1(data, capsys, arguments, said):
    assert run(*[data if argument == "DATA" else argument for argument in arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.startswith("cepviz: error: ")


def test_a_pattern_file_that_is_no_text_exits_with_1(data, tmp_path, capsys):
    query = tmp_path / "query.sase"
    query.write_bytes(b"\xff\xfe\x00")
    assert run("match", query, data) == 1
    assert "is not a text file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["mtch"],
        ["match", PAIR],
        ["match", PAIR, "data.csv", "--engine", "eagr"],
        ["match", PAIR, "data.csv", "--out", "found.xls"],
        ["match", PAIR, "data.csv", "--out", "no/such/folder/found.csv"],
        ["match", PAIR, "data.csv", "--limit", "-1"],
        ["match", PAIR, "data.csv", "--budget", "runs=0"],
        ["match", PAIR, "data.csv", "--budget", "time=9"],
        ["match", PAIR, "data.csv", "--given", "T"],
        ["trace", PAIR, "data.csv", "--out", "trace.csv"],
    ],
)
def test_a_wrong_command_exits_with_2(capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("usage: ")


def test_a_reached_budget_exits_with_3_and_writes_what_was_found(data, tmp_path, capsys):
    out = tmp_path / "found.csv"
    assert run("match", PAIR, data, "--engine", "eager", "--budget", "matches=1", "--out", out) == 3
    assert len(pd.read_csv(out)) == 1
    printed, err = capsys.readouterr()
    assert "1 match in 3 events" in printed
    assert "stopped at e2: 1 matches" in err


def test_an_interrupt_exits_with_130(data, tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "match", interrupted)
    assert run("match", PAIR, data, "--out", tmp_path / "found.csv") == 130
    assert capsys.readouterr().err == "cepviz: interrupted\n"
    assert os.listdir(tmp_path) == ["data.csv"]


def test_an_interrupt_while_writing_leaves_the_old_file_and_nothing_else(
    data, tmp_path, monkeypatch
):
    def interrupted(frame, path, **_):
        Path(path).write_text("half")
        raise KeyboardInterrupt

    out = tmp_path / "found.csv"
    out.write_text("old")
    monkeypatch.setattr(pd.DataFrame, "to_csv", interrupted)
    assert run("match", PAIR, data, "--out", out) == 130
    assert out.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "found.csv"]


def test_a_value_cannot_command_the_terminal(tmp_path, capsys):
    path = tmp_path / "data.jsonl"
    rows = [{"type": "A", "time": 1, "x": "\x1b[31mred\n"}, {"type": "B", "time": 2, "x": "\u202e"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert run("match", PAIR, path, "--events") == 0
    assert run("trace", PAIR, path) == 0
    out = capsys.readouterr().out
    assert "red" in out
    assert "\x1b" not in out
    assert "\u202e" not in out


# ---- the other commands ----


def test_check_prints_the_canonical_text_the_warnings_and_the_engines(capsys):
    assert run("check", "pattern seq(A+ a[], B b) where a.x==T") == 0
    out = capsys.readouterr().out
    assert out.startswith("PATTERN SEQ(A+ a[], B b)\nWHERE a[i].x = T\n\n")
    assert "warning: T is read as the string 'T'" in out
    assert "warning: no WITHIN" in out
    assert "eager: no, it has no Kleene closure\n" in out
    assert out.count("yes, the default") == 1
    assert "\nnaive: yes" in out


def test_check_of_a_wrong_pattern_exits_with_1(capsys):
    assert run("check", "PATTERN SEQ(A a) WHERE c.x = 1") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "^^^" in err


def test_check_with_data_knows_the_columns(data, capsys):
    assert run("check", "PATTERN SEQ(A a, C c) WITHIN 9", data) == 0
    assert "warning: the stream has no event of type 'C'" in capsys.readouterr().out
    assert run("check", "PATTERN SEQ(A a) WHERE a.nme = 'one' WITHIN 9", data) == 1
    assert "did you mean 'name'?" in capsys.readouterr().err


def test_a_context_query_is_checked_and_run(data, capsys):
    query = "CONTEXT CPC SELECT <name> FROM <A> SEQUENCE <B> PUBLISH <Out>"
    assert run("check", query) == 0
    assert "contexts: yes, the default" in capsys.readouterr().out
    assert run("match", query, data) == 0
    assert "by contexts" in capsys.readouterr().out


def test_engines_are_listed(capsys):
    assert run("engines") == 0
    named = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert named == list(cep.engines())


def test_trace_prints_its_sentences(data, capsys):
    assert run("trace", PAIR, data, "--engine", "eager") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == " 0  e0 A x 1 name one arrives at 1."
    assert any("Match #2: a = e1, b = e2" in line for line in lines)


def test_trace_is_saved_and_loads(data, tmp_path, capsys):
    out = tmp_path / "trace.json"
    assert run("trace", PAIR, data, "--out", out) == 0
    assert f"steps written to {out}" in capsys.readouterr().out
    assert cep.Trace.load(out) == cep.trace(PAIR, cep.Stream.read_csv(data))
    assert run("trace", PAIR, data, "--out", out, "--say") == 0
    assert "Match #2" in capsys.readouterr().out


def test_trace_with_a_reached_budget_exits_with_3(data, tmp_path, capsys):
    out = tmp_path / "trace.json"
    assert run("trace", PAIR, data, "--budget", "matches=1", "--out", out) == 3
    assert len(cep.Trace.load(out).matches) == 1
    assert "stopped at e2" in capsys.readouterr().err


# ---- as a program ----


def program(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cepviz", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def test_it_runs_as_a_module_and_reads_stdin(data):
    with open(data) as file:
        done = program("match", PAIR, "-", stdin=file)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 matches in 3 events" in done.stdout


def test_version_and_help(capsys):
    for option, said in [("--version", f"cepviz {cep.__version__}"), ("--help", "examples:")]:
        with pytest.raises(SystemExit) as stopped:
            run(option)
        assert stopped.value.code == 0
        assert said in capsys.readouterr().out


def test_a_reader_that_goes_away_is_no_error(data):
    command = [sys.executable, "-m", "cepviz", "trace", "PATTERN SEQ(A a, A b) WITHIN 9999"]
    rows = "\n".join(["type,time", *(f"A,{time}" for time in range(100))])
    done = subprocess.Popen(
        [*command, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    done.stdin.write(rows)
    done.stdin.close()
    done.stdout.readline()
    done.stdout.close()
    assert (done.wait(60), done.stderr.read()) == (0, "")
    done.stderr.close()


def test_letters_that_the_terminal_lacks_do_not_stop_it(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("type,time,x\nA,1,→\nB,2,é\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = program("match", PAIR, path, "--events", env=environment)
    assert (done.returncode, done.stderr) == (0, "")
