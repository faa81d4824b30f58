"""The command `cepviz`: match, trace and check patterns from a terminal."""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cepviz import __version__
from cepviz.engines.base import Budget
from cepviz.engines.registry import CONTEXT_ENGINES, ENGINES, engine_class
from cepviz.errors import BudgetError, CepError, CepWarning, PatternError
from cepviz.events import Stream
from cepviz.language.contexts import ContextQuery
from cepviz.language.parser import parse
from cepviz.language.resolve import resolve
from cepviz.matching import Result, engines, match, trace

OK, WRONG, USAGE, STOPPED, INTERRUPTED = 0, 1, 2, 3, 130

READERS: dict[str, Callable[..., Stream]] = {
    ".csv": Stream.read_csv,
    ".parquet": Stream.read_parquet,
    ".pq": Stream.read_parquet,
    ".json": Stream.read_json,
    ".jsonl": Stream.read_json,
    ".ndjson": Stream.read_json,
}
WRITERS = (".csv", ".parquet", ".json", ".jsonl")
SPARK_WRITERS = (".parquet", ".json", ".csv")
WIDEST_CELL = 48

EXAMPLES = """examples:
  cepviz match "PATTERN SEQ(Login a, Login b) WHERE [user] WITHIN 5 minutes" log.csv
  cepviz match query.sase stocks.parquet --every Stock --out matches.json
  cepviz check "PATTERN SEQ(A a, B b) WHERE a.x > T" --given T=3
  cepviz trace query.sase stocks.csv

exit codes:
  0 done   1 the pattern or the data is wrong   2 the command is wrong
  3 a limit of the budget was reached: what was found until then is written   130 interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; a wrong command line exits with 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without our letters shows ? for them
            stream.reconfigure(errors="replace")
    parser = _parser()
    given = parser.parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("always", CepWarning)
        warnings.showwarning = _warn
        try:
            code: int = given.command(given)
            sys.stdout.flush()
            return code
        except (CepError, OSError) as error:
            if isinstance(error, BrokenPipeError):  # the reader, `head` say, has seen enough
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return OK
            _say(f"error: {error}")
            return STOPPED if isinstance(error, BudgetError) else WRONG
        except KeyboardInterrupt:
            _say("interrupted")
            return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cepviz",
        description="Find patterns in streams of events, and see how.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cepviz {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, run: Callable[[argparse.Namespace], int], about: str) -> Any:
        made = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        made.set_defaults(command=run)
        return made

    matching = command("match", _match, "print the matches of a pattern in a stream of events")
    _add_inputs(matching)
    _add_engine(matching)
    out = "write all matches to this file: " + ", ".join(WRITERS)
    matching.add_argument("--out", metavar="FILE", type=_out, help=out)
    matching.add_argument(
        "--limit", metavar="N", type=_count, default=10, help="rows to print (default 10)"
    )
    matching.add_argument(
        "--events", action="store_true", help="a row for each event of each match, with its values"
    )

    tracing = command("trace", _trace, "run a pattern and keep every step")
    _add_inputs(tracing)
    _add_engine(tracing)
    tracing.add_argument(
        "--out", metavar="FILE", type=_trace_out, help="save the trace: .json or .json.gz"
    )
    tracing.add_argument(
        "--say",
        action="store_true",
        help="print each step as a sentence; the default without --out",
    )

    sparking = command(
        "spark-match", _spark_match, "find the matches of a pattern in data of any size, on Spark"
    )
    _add_inputs(sparking, spark=True)
    _add_engine(sparking)
    sparking.add_argument(
        "--out",
        metavar="FOLDER",
        type=_spark_out,
        help=f"write all matches there, as Spark does: {_either(SPARK_WRITERS)}",
    )
    sparking.add_argument(
        "--limit", metavar="N", type=_count, default=10, help="rows to print (default 10)"
    )
    sparking.add_argument("--master", metavar="URL", help="where to run (local[*])")
    sparking.add_argument("--slice", metavar="L", type=_number_or_text, help="cut time so finely")

    checking = command("check", _check, "parse a pattern and say what is doubtful about it")
    _add_inputs(checking, data="?")

    command("engines", _engines, "list the engines")
    return parser


def _add_inputs(parser: Any, data: str | None = None, spark: bool = False) -> None:
    parser.add_argument("pattern", metavar="PATTERN", help="the text of a pattern, or a file of it")
    kinds = "a file: .csv, .parquet or .json with one object a line; "
    kinds += "or a folder of such" if spark else "- reads CSV from stdin"
    extra = "; its columns are then checked too" if data else ""
    parser.add_argument("data", metavar="DATA", nargs=data, help=kinds + extra)
    parser.add_argument(
        "--given",
        metavar="NAME=VALUE",
        action="append",
        type=_pair,
        default=[],
        help='a value for a bare name of the pattern: T=3, h="2 hours", \'S=["X", "Y"]\'',
    )
    columns = parser.add_argument_group("reading the data")
    columns.add_argument("--type", metavar="COLUMN", help="the column of event types (type)")
    columns.add_argument("--every", metavar="TYPE", help="one type for all rows instead")
    columns.add_argument("--time", metavar="COLUMN", help="the column of times (time)")
    columns.add_argument("--end", metavar="COLUMN", help="the column of ends, for intervals")
    columns.add_argument("--id", metavar="COLUMN", help="the column of ids (else numbered from 0)")
    if spark:
        columns.add_argument("--order", metavar="COLUMN", help="what orders rows of the same time")
        columns.add_argument("--format", choices=("csv", "json", "parquet"), help="of a folder")
    else:
        columns.add_argument("--sort", action="store_true", default=None, help="sort rows by time")
        columns.add_argument(
            "--lateness", metavar="L", type=_number_or_text, help="how late a row may be: '5 min'"
        )
    columns.add_argument("--unit", metavar="U", help="what numbers in the time column count (s)")


def _add_engine(parser: Any) -> None:
    parser.add_argument(
        "--engine",
        choices=[*ENGINES, *CONTEXT_ENGINES],
        help="by default the fastest that takes the pattern",
    )
    limits = f"a limit to stop at: {', '.join(Budget.__dataclass_fields__)}"
    parser.add_argument(
        "--budget", metavar="LIMIT=N", action="append", type=_limit, default=[], help=limits
    )


# The commands


def _match(given: argparse.Namespace) -> int:
    pattern, stream = _pattern(given), _stream(given)
    stopped = None
    try:
        result = match(pattern, stream, given.engine, budget=dict(given.budget))
    except BudgetError as error:
        result, stopped = error.result, error
    frame = result.to_frame("events") if given.events else result.to_frame().reset_index()
    if given.out:
        _write(frame, given.out)
    table = _table(frame, given.limit)
    if table:
        print(table, end="\n\n")
    print(_summary(result, given))
    if result.failures:
        failed, first = result.counters["failed_predicates"], result.failures[0]
        _say(f"warning: {failed} predicates could not be computed, the first: {first}")
    if stopped is not None:
        raise stopped
    return OK


def _spark_match(given: argparse.Namespace) -> int:
    from cepviz import spark

    names = ("type", "every", "time", "end", "id", "order", "format", "unit")
    options = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    pattern = _pattern(given)
    events = spark.read(given.data, spark=spark.session(given.master), **options)
    stopped = None
    try:
        found = spark.match(
            events, pattern, given.engine, budget=dict(given.budget), slice=given.slice
        )
    except BudgetError as error:
        found, stopped = error.result, error
    if given.out:
        found.write(given.out)
    table = _table(found.to_frame(given.limit), given.limit)
    if table:
        print(table, end="\n\n")
    if len(found) > given.limit:
        print(f"and {len(found) - given.limit:,} more")
    where = f"in {events.report.kept:,} events by {found.engine} on Spark"
    text = f"{len(found):,} match{'' if len(found) == 1 else 'es'} {where}, {found.seconds:.2f} s"
    print(f"{text}; written to {given.out}" if given.out else text)
    if events.report.bad:
        told = ", ".join(f"{reason} {count:,}" for reason, count in events.report.bad.items())
        _say(f"warning: {sum(events.report.bad.values()):,} rows are no events: {told}")
    if stopped is not None:
        raise stopped
    return OK


def _trace(given: argparse.Namespace) -> int:
    recorded = trace(_pattern(given), _stream(given), given.engine, budget=dict(given.budget))
    if given.out:
        recorded.save(given.out)
    if given.say or not given.out:
        print(recorded.text())
    else:
        print(f"{len(recorded):,} steps written to {given.out}")
    if recorded.note:
        raise BudgetError(recorded.note)
    return OK


def _check(given: argparse.Namespace) -> int:
    pattern = _pattern(given)
    said = pattern.warnings()
    if given.data is not None:
        schema = _stream(given).schema
        resolve(pattern, schema)
        missing = {v.type for v in pattern.variables.values()} - set(schema.types)
        said += [f"the stream has no event of type {name!r}" for name in sorted(missing)]
    print(pattern, end="\n\n")
    for text in said:
        print(f"warning: {text}")
    chosen = engine_class(None, pattern).name
    context = isinstance(pattern, ContextQuery)
    for name, engine in (CONTEXT_ENGINES if context else ENGINES).items():
        reason = engine.refuses(pattern)
        verdict = "yes, the default" if name == chosen else f"no, {reason}" if reason else "yes"
        print(f"{name}: {verdict}")
    return OK


def _engines(given: argparse.Namespace) -> int:
    listed = engines()
    wide = max(map(len, listed))
    for name, about in listed.items():
        print(f"{name:{wide}}  {about}")
    return OK


# Reading


def _pattern(given: argparse.Namespace) -> Any:
    """The pattern, or the CONTEXT query, that is given as text or as a file."""
    text: str = given.pattern
    if _is_file(text):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise PatternError(f"{given.pattern!r} is not a text file: {error}") from None
    elif len(text.split()) == 1 and "(" not in text:
        raise PatternError(f"{text!r} is neither a file nor a pattern, like PATTERN SEQ(A a, B b)")
    return parse(text, **dict(given.given))


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # a text too long or too odd for a file name
        return False


def _stream(given: argparse.Namespace) -> Stream:
    names = ("type", "every", "time", "end", "id", "sort", "lateness", "unit")
    options = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    if given.data == "-":
        return Stream.read_csv(sys.stdin, **options)
    suffix = Path(given.data).suffix.lower()
    if suffix not in READERS:
        raise CepError(f"cannot tell what {given.data!r} holds: it must end in {_either(READERS)}")
    stream = READERS[suffix](given.data, **options)
    if len(stream.late):
        _say(f"warning: {len(stream.late)} rows came later than --lateness and are left out")
    return stream


# Writing


def _summary(result: Result, given: argparse.Namespace) -> str:
    found = f"{len(result):,} match{'' if len(result) == 1 else 'es'}"
    where = f"in {result.counters['events']:,} events by {result.engine}"
    text = f"{found} {where}, {result.seconds:.2f} s"
    return f"{text}; written to {given.out}" if given.out else text


def _table(frame: Any, limit: int) -> str:
    """The first rows as aligned columns of text; empty where there is none."""
    shown = frame.head(limit).astype(object)
    if shown.empty:
        return ""
    values = shown.where(shown.notna(), None).to_numpy()
    rows = [list(frame.columns), *([_cell(value) for value in row] for row in values)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    if len(frame) > limit:
        lines.append(f"and {len(frame) - limit:,} more")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    """A value in a few characters, without any that a terminal would obey."""
    if value is None:
        return ""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    if len(text) > WIDEST_CELL:
        half = WIDEST_CELL // 2
        text = f"{text[:half]}…{text[-half + 1 :]}"
    return "".join(c if c.isprintable() else "?" for c in text)


def _write(frame: Any, path: Path) -> None:
    """Writes a file whole or not at all: under another name first, then renamed."""
    path = path.resolve()  # a link stays a link
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.suffix == ".parquet":
            _write_parquet(frame, part, path)
        elif path.suffix == ".csv":
            lists = frame.map(lambda v: json.dumps(v) if isinstance(v, list) else v)
            lists.to_csv(part, index=False)
        else:
            lines = path.suffix == ".jsonl"
            text = frame.to_json(orient="records", lines=lines, date_format="iso", date_unit="ns")
            part.write_text(f"{text.rstrip()}\n", encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _write_parquet(frame: Any, part: Path, path: Path) -> None:
    try:
        frame.to_parquet(part, index=False)
    except (ValueError, TypeError) as error:  # arrow's errors are these, too
        fix = "a Parquet column holds one type of value; write .csv or .json"
        raise CepError(f"cannot write {str(path)!r}: {error}: {fix}") from None


# What the arguments mean


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _limit(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if name not in Budget.__dataclass_fields__ or not value.isdecimal() or not int(value):
        known = _either(Budget.__dataclass_fields__)
        raise argparse.ArgumentTypeError(f"{text!r} is not LIMIT=N with {known} and N from 1")
    return name, int(value)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows")
    return int(text)


def _number_or_text(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _out(text: str) -> Path:
    path = Path(text)
    if path.suffix not in WRITERS:
        raise argparse.ArgumentTypeError(f"{text!r} must end in {_either(WRITERS)}")
    return _writable(text, path)


def _spark_out(text: str) -> str:
    if Path(text).suffix not in SPARK_WRITERS:
        raise argparse.ArgumentTypeError(f"{text!r} must end in {_either(SPARK_WRITERS)}")
    return text


def _trace_out(text: str) -> Path:
    path = Path(text)
    if not path.name.endswith((".json", ".json.gz")):
        raise argparse.ArgumentTypeError(f"{text!r} must end in .json or .json.gz")
    return _writable(text, path)


def _writable(text: str, path: Path) -> Path:
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder for {text!r}")
    return path


def _either(names: Any) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}"


# Speaking


def _say(text: str) -> None:
    print(f"cepviz: {text}", file=sys.stderr)


def _warn(message: Warning | str, *where: Any, **more: Any) -> None:
    _say(f"warning: {' '.join(str(message).split())}")


if __name__ == "__main__":
    sys.exit(main())
