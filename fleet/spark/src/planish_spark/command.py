"""The command: arguments, messages and exit codes.

0: all is well. 1: some files could not be merged, and the others are. 2: wrong usage, or nothing could be merged.
3: this machine lacks Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from planish_spark import local, report, sources, times, weight
from planish_spark.choice import Choice, Merged
from planish_spark.errors import FleetError
from planish_spark.plan import Options
from planish_spark.recording import MOST_PARTS

FINE, NEGATIVE, BAD, LACKING = range(4)

#: What a URL begins with.
_URL = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")


def run() -> NoReturn:
    """Runs the command with the arguments of the process, and ends the process."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Runs the command; its exit code."""
    given = _parser().parse_args(arguments)
    try:
        if given.verb == "choose" and not any(_URL.match(own) for own in given.inputs):
            # Files of this machine need no Spark.
            return _chosen(given, local.choose(given.inputs, _options(given, 1), **_terms(given)))
        return _with_spark(given)
    except FleetError as error:
        _say(f"error: {error}")
        return BAD


def _with_spark(given: argparse.Namespace) -> int:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        _say("error: there is no Spark here; run this with spark-submit, or pip install pyspark")
        return LACKING
    from planish_spark import job

    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        # Not by spark-submit, which knows: then Spark's workers need this Python, not just any.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName(f"planish fleet {given.verb}").getOrCreate()
    options = _options(given, given.partitions if given.verb == "merge" else 1)
    try:
        if given.verb == "choose":
            return _chosen(given, job.choose(spark, given.inputs, options, **_terms(given)))
        merged = job.merge(spark, given.inputs, given.output, options, salts=given.salts, **_terms(given))
        return _merged(given, merged)
    finally:
        spark.stop()


def _terms(given: argparse.Namespace) -> dict[str, Any]:
    return {"weights": given.weight, "most_bytes": given.max_shard << 20, "strict": given.strict}


def _merged(given: argparse.Namespace, merged: Merged) -> int:
    if given.format == "json":
        # Nothing else, since spark-submit puts both streams into one.
        print(json.dumps(report.json_value(merged), indent=2, ensure_ascii=False))
    else:
        _say(*report.lines(merged, given.verbose))
    return NEGATIVE if merged.rejected else FINE


def _chosen(given: argparse.Namespace, choice: Choice) -> int:
    try:
        Path(given.output).write_text(report.table(choice), "utf-8")
    except OSError as error:
        raise FleetError(f"{given.output}: {error.strerror}") from error
    _say(*report.lines(choice, given.verbose))
    return NEGATIVE if choice.rejected else FINE


def _say(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr)


def _options(given: argparse.Namespace, partitions: int) -> Options:
    now = int(time.time()) if given.now is None else given.now
    since: int | None = None
    if given.since is not None:
        second, ago = given.since
        since = max(0, now - ago) if second is None else second
    return Options(
        since=since,
        decay=given.decay,
        now=now,
        max_per_host=given.max_per_host,
        host_class=given.host_class,
        mixing=given.mixing,
        by_source=dict(given.source_weight),
        partitions=partitions,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="planish-spark",
        description="Adds up counts files of many machines on Apache Spark, as planish fleet merge does.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    merge = verbs.add_parser("merge", help="add up shards into one, each recording once")
    _choice(merge)
    merge.add_argument(
        "-o", "--output", required=True, metavar="URL", help="where to write: a file, or a directory for parts"
    )
    merge.add_argument(
        "--partitions",
        type=_number(1, MOST_PARTS),
        default=1,
        metavar="N",
        help="write N parts into a directory, which planish fleet merge joins (default: one file)",
    )
    merge.add_argument(
        "--salts",
        type=_number(1, 4096),
        metavar="N",
        help="add up each count in N groups of shards first, so that no task sees a frequent one of all shards "
        "(default: one group for each 1024 shards, 64 at most)",
    )
    merge.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="how to say what was merged: as text, on standard error, or as JSON",
    )
    choose = verbs.add_parser("choose", help="only say which shards count, and how much, as CSV for other engines")
    _choice(choose)
    choose.add_argument("-o", "--output", required=True, metavar="FILE", help="the local file to write")
    return parser


def _choice(parser: argparse.ArgumentParser) -> None:
    """What both commands take."""
    add = parser.add_argument
    add("inputs", nargs="+", metavar="INPUT", help="URLs of counts files, of directories with *.counts, or patterns")
    add(
        "--weight",
        action="append",
        default=[],
        type=_read(weight.read, "a number from 0 to 65535, with at most 18 digits behind the point"),
        metavar="NUMBER",
        help="what the counts of an input are multiplied by, in steps of 1/65536; as often as inputs",
    )
    add(
        "--since",
        type=_read(_since, "a time like 2026-11-26T17:40:00, or an age like 7d"),
        metavar="TIME",
        help="leave out recordings that ended before: a time (UTC), or an age like 7d",
    )
    add(
        "--decay",
        type=_read(lambda text: times.seconds(text) or None, "a time of 1s or more, like 12h or 7d"),
        metavar="HALF-LIFE",
        help="count half after each so long a time: 90s, 15m, 12h, 7d, 2w",
    )
    add(
        "--now",
        type=_read(times.second, "a time like 2026-11-26T17:40:00"),
        metavar="TIME",
        help="the time that ages are counted from (default: now)",
    )
    add(
        "--max-per-host",
        type=_number(1, (1 << 32) - 1),
        metavar="N",
        help="take so many recordings of each host at most, the newest ones",
    )
    add("--host-class", metavar="NAME", help="take only recordings of this class of hosts")
    mixing = parser.add_mutually_exclusive_group()
    mixing.add_argument(
        "--executions",
        dest="mixing",
        action="store_const",
        const=sources.EXECUTIONS,
        default=sources.REFUSED,
        help="weigh the counts of each shard by the executions that one of them stands for, so that different sources "
        "add up",
    )
    mixing.add_argument(
        "--raw",
        dest="mixing",
        action="store_const",
        const=sources.RAW,
        default=sources.REFUSED,
        help="add counts of different sources as they are",
    )
    add(
        "--source-weight",
        action="append",
        default=[],
        type=_read(_of_source, "SOURCE=NUMBER, such as clock=0.5"),
        metavar="SOURCE=NUMBER",
        help="what the counts of a source weigh besides, such as clock=0.5; may be given for several",
    )
    add(
        "--max-shard",
        type=_number(1, 2047),
        default=256,
        metavar="MIB",
        help="reject larger files, since a task holds one in memory (default: 256)",
    )
    add("--strict", action="store_true", help="fail if a file cannot be merged, in place of merging the others")
    add("-v", "--verbose", action="store_true", help="name all files that are not merged")


def _of_source(text: str) -> tuple[str, int] | None:
    source, _, number = text.partition("=")
    known = ("hardware-branches", "software-branches", "spe", "clock", "event", "emulated")
    own = weight.read(number)
    is_known = source in known or source.startswith("simulated")
    return (source, own) if own is not None and is_known else None


def _since(text: str) -> tuple[int | None, int] | None:
    second = times.second(text)
    ago = times.seconds(text)
    if second is None and ago is None:
        return None
    return second, ago or 0


def _read(read: Callable[[str], object], expected: str) -> Callable[[str], object]:
    """What argparse reads a value with."""

    def checked(text: str) -> object:
        value = read(text)
        if value is None:
            raise argparse.ArgumentTypeError(f"{text!r}: expected {expected}")
        return value

    return checked


def _number(least: int, most: int) -> Callable[[str], object]:
    def read(text: str) -> int | None:
        fits = text.isascii() and text.isdecimal() and len(text) <= 10 and least <= int(text) <= most
        return int(text) if fits else None

    return _read(read, f"a number from {least} to {most}")
