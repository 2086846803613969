"""Does a real cluster give what planish gives, to the last byte, also when it loses an executor?"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import made
import pytest
from conftest import JAVA, SOURCE, Fleet, Planish

from planish_spark import sources, weight
from planish_spark.errors import FleetError
from planish_spark.plan import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from planish_spark.choice import Merged

#: A short half-life, and counts of different sources.
OPTIONS = Options(decay=40, mixing=sources.EXECUTIONS, by_source={"software-branches": weight.ONE // 2})
LINE = ("--decay", "40s", "--executions", "--source-weight", "software-branches=0.5")


def by_spark(spark: SparkSession, fleet: Fleet, output: Path, **more: Any) -> Merged:
    from planish_spark import merge

    options = replace(OPTIONS, now=fleet.now, partitions=more.pop("partitions", 1))
    weights = [weight.read(own) or 0 for own in fleet.weights]
    return merge(spark, [str(one) for one in fleet.inputs], str(output), options, weights=weights, **more)


def by_planish(planish: Planish, fleet: Fleet, output: Path, *more: object) -> bytes:
    weights = [part for own in fleet.weights for part in ("--weight", own)]
    # Some files are cut off.
    return planish.merged(output, *fleet.inputs, *weights, *LINE, "--now", fleet.now, *more, code=1)


def told(planish: Planish, fleet: Fleet, output: Path) -> Any:
    weights = [part for own in fleet.weights for part in ("--weight", own)]
    line = ("fleet", "merge", *fleet.inputs, *weights, *LINE, "--now", fleet.now, "-o", output)
    return json.loads(planish.run(*line, "--format", "json", code=1).stdout)


def test_a_fleet_with_faults_gives_the_bytes_of_planish(
    spark: SparkSession, planish: Planish, fleet: Fleet, tmp_path: Path
) -> None:
    from planish_spark import merge, report

    expected = by_planish(planish, fleet, tmp_path / "expected")
    merged = by_spark(spark, fleet, tmp_path / "one.counts")
    assert planish.merged(tmp_path / "read", tmp_path / "one.counts") == expected
    # So is what it tells, other than where it wrote.
    own, theirs = report.json_value(merged), told(planish, fleet, tmp_path / "again")
    assert own.pop("outputs") == [f"file:{tmp_path}/one.counts"]
    for spe in (own["ledger"].pop("spe"), theirs["ledger"].pop("spe", {})):
        assert not any(spe.values())
    for books in (own["ledger"], theirs["ledger"]):
        books.pop("paths", None)
    # How it was done is not what was done.
    assert own.pop("intermediate_files") == 0 < theirs.pop("intermediate_files")
    for key in ("duplicates", "left_out", "rejected"):
        ours, other = ({aside["path"]: aside["reason"] for aside in side.pop(key)} for side in (own, theirs))
        assert ours == other, key
    assert own == theirs
    assert merged.rejected and len(merged.plan.chosen) > 90
    assert {"hardware-branches", "software-branches"} == set(own["sources"])
    assert len({chosen.weight for chosen in merged.plan.chosen}) > 10
    # Nobody adds counts of two sources by accident.
    with pytest.raises(FleetError, match=r"--executions weighs each by what its samples stand for"):
        merge(spark, [str(one) for one in fleet.inputs], str(tmp_path / "none.counts"))
    # Nothing is left beside the result.
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again", "expected", "one.counts", "read"]


def test_salts_and_parts_give_the_same(
    spark: SparkSession, planish: Planish, fleet: Fleet, tmp_path: Path
) -> None:
    expected = by_planish(planish, fleet, tmp_path / "expected")
    merged = by_spark(spark, fleet, tmp_path / "parts", salts=7, partitions=3)
    names = sorted(file.name for file in (tmp_path / "parts").iterdir())
    assert names == [f"part-000{part}-of-0003.counts" for part in (1, 2, 3)]
    for part, name in enumerate(names, start=1):
        own = by_planish(planish, fleet, tmp_path / "part", "--partition", f"{part}/3")
        assert planish.merged(tmp_path / "read", tmp_path / "parts" / name) == own
    assert planish.merged(tmp_path / "read", tmp_path / "parts") == expected
    assert merged.rows_written == sum(one.rows for one in merged.written) > 0
    # Parts of another number must not lie beside them.
    with pytest.raises(FleetError, match="expected an empty directory"):
        by_spark(spark, fleet, tmp_path / "parts", partitions=2)


@pytest.mark.parametrize("number", [2, 8])
def test_parts_of_planish_make_the_same_whole(
    planish: Planish, fleet: Fleet, tmp_path: Path, number: int
) -> None:
    (tmp_path / "parts").mkdir()
    for part in range(1, number + 1):
        by_planish(planish, fleet, tmp_path / "parts" / f"{part}.counts", "--partition", f"{part}/{number}")
    assert planish.merged(tmp_path / "whole", tmp_path / "parts") == by_planish(planish, fleet, tmp_path / "expected")


def test_a_killed_executor_changes_nothing(
    spark: SparkSession, planish: Planish, fleet: Fleet, tmp_path: Path
) -> None:
    expected = by_planish(planish, fleet, tmp_path / "expected")
    done: list[Merged] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            done.append(by_spark(spark, fleet, tmp_path / "one.counts", salts=5))
        except BaseException as error:  # to be told where it is looked for
            errors.append(error)

    before = executors(spark)
    assert len(before) == 2
    worker = threading.Thread(target=work)
    # The look at the files is one stage; the sums are the others, which exchange rows.
    seen: set[int] = set()
    worker.start()
    while worker.is_alive() and len(seen) < 2:
        seen |= stages(spark)
        time.sleep(0.01)
    os.kill(before[0], signal.SIGKILL)
    assert worker.is_alive(), "the job was over before its executor was killed"
    worker.join()
    assert not errors, errors
    assert before[0] not in executors(spark)
    assert dead(spark) >= 1
    assert planish.merged(tmp_path / "read", tmp_path / "one.counts") == expected
    # A worker has begun another executor in its place.
    deadline = time.monotonic() + 30
    while len(executors(spark)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(executors(spark)) == 2


def executors(spark: SparkSession) -> list[int]:
    """The processes of this cluster's executors."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            words = (process / "cmdline").read_bytes().decode().split("\0") if process.name.isdecimal() else []
        except OSError:
            continue
        backend = any(word.endswith(".CoarseGrainedExecutorBackend") for word in words)
        if backend and spark.sparkContext.applicationId in words:
            found.append(int(process.name))
    return sorted(found)


def stages(spark: SparkSession) -> set[int]:
    """The stages that run."""
    return set(spark.sparkContext.statusTracker().getActiveStageIds())


def dead(spark: SparkSession) -> int:
    context: Any = spark.sparkContext
    listed = context._jsc.sc().statusStore().executorList(False)
    return sum(not listed.apply(place).isActive() for place in range(listed.size()))


def test_columns_that_files_lack_are_filled_in_and_addresses_have_no_sign(
    spark: SparkSession, planish: Planish, tmp_path: Path
) -> None:
    from planish_spark import merge

    # Signs that have a meaning in patterns and URLs.
    spool = tmp_path / "spool é [x] {y} %20"
    (spool / "below").mkdir(parents=True)
    kernel = ("", "/boot/vmlinux")
    made.shard(spool / "a.counts", made.program(1, 900, "ab12", "/usr/bin/x"), version=4)
    one = [made.recording("b", architecture="x86_64", end=1000)]
    made.shard(spool / "b.counts", made.program(1, 900, "ab12", "/usr/bin/x"), recordings=one, version=4)
    made.shard(spool / "below" / "c.counts", made.program(2, 900, *kernel, 9), columns=9, version=4)
    made.shard(spool / "d.counts", made.program(3, 900, *kernel, 10), columns=10, version=5)
    (spool / "notes.txt").write_text("not looked at")
    (spool / "empty.counts").write_text("")
    merged = merge(spark, [str(spool), str(tmp_path / "absent.counts")], str(tmp_path / "one.counts"))
    assert [path for path, _ in merged.rejected] == [str(tmp_path / "absent.counts"), str(spool / "empty.counts")]
    expected = planish.merged(tmp_path / "expected", spool, tmp_path / "absent.counts", code=1)
    assert planish.merged(tmp_path / "read", tmp_path / "one.counts") == expected
    # A shard without halves takes those of the others with it; a part without rows is a shard, too.
    few = tmp_path / "few"
    few.mkdir()
    made.shard(few / "a.counts", made.program(4, 40, "ab12", "/x"), recordings=[made.recording("a")], version=3)
    made.shard(few / "b.counts", [], recordings=[made.recording("b")], halves=False)
    merged = merge(spark, [f"file://{few}/[ab].counts"], str(tmp_path / "parts"), Options(partitions=40), salts=2)
    assert any(part.rows == 0 for part in merged.written)
    expected = planish.merged(tmp_path / "expected", few)
    assert planish.merged(tmp_path / "read", tmp_path / "parts") == expected


def test_sums_that_are_too_large_are_errors(spark: SparkSession, planish: Planish, tmp_path: Path) -> None:
    from planish_spark import merge

    huge = 6 * 10**36
    for name, number in (("a", 10), ("b", 7)):
        folder = tmp_path / name
        folder.mkdir()
        for host in range(number):
            row: made.Row = ("ab12", "/x", "", "sample", (None, 16, None, None), huge, 0)
            made.shard(folder / f"{host}.counts", [row], recordings=[made.recording(f"{name}{host}")])
    # 6 · 10^37 fit, 10.2 · 10^37 do not.
    merge(spark, [str(tmp_path / "a")], str(tmp_path / "fits.counts"))
    assert planish.merged(tmp_path / "x", tmp_path / "fits.counts") == planish.merged(tmp_path / "y", tmp_path / "a")
    both = [str(tmp_path / "a"), str(tmp_path / "b")]
    planish.run("fleet", "merge", *both, "-o", tmp_path / "none", code=2)
    # The sums of each salt fit.
    with pytest.raises(FleetError, match=r"reaches 10\^38"):
        merge(spark, both, str(tmp_path / "none.counts"), salts=3)
    with pytest.raises(FleetError, match="give a smaller weight"):
        merge(spark, both, str(tmp_path / "none.counts"), weights=[weight.ONE, weight.MOST])
    assert not (tmp_path / "none.counts").exists()


def test_files_that_go_bad_meanwhile_are_named_and_the_rest_is_merged(
    spark: SparkSession, planish: Planish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from planish_spark import merge
    from planish_spark.survey import survey as looked

    spool = tmp_path / "spool [x] %20"
    spool.mkdir()
    shards = []
    for host in range(4):
        said = [made.recording(f"r{host}")]
        shards.append(made.shard(spool / f"{host}.counts", made.program(host, 50, "ab12", "/x"), recordings=said))
    def survey(*arguments: Any) -> Any:
        """Looks, and then one file changes and another goes away."""
        found = looked(*arguments)
        os.utime(shards[1], (1, 1))
        shards[3].unlink()
        return found

    monkeypatch.setattr("planish_spark.job.survey", survey)
    merged = merge(spark, [str(spool)], str(tmp_path / "one.counts"))
    reasons = dict(merged.rejected)
    assert set(reasons) == {str(shards[1]), str(shards[3])}, reasons
    assert "has changed since it was looked at" in reasons[str(shards[1])]
    assert "does not exist" in reasons[str(shards[3])]
    expected = planish.merged(tmp_path / "expected", shards[0], shards[2])
    assert planish.merged(tmp_path / "read", tmp_path / "one.counts") == expected


def test_outputs_that_would_do_harm_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    from planish_spark import merge

    shard = made.shard(tmp_path / "a.counts", made.program(1, 50, "ab12", "/x"), version=4)
    cut = tmp_path / "cut.counts"
    cut.write_bytes(shard.read_bytes()[:900])
    for output, inputs, strict, message in (
        (shard, [shard], False, "is the input"),
        (tmp_path, [shard], False, "is a directory"),
        (tmp_path / "x.counts", [cut], False, "nothing to merge: of 1 files none can be"),
        (tmp_path / "x.counts", [shard, cut], True, "cut.counts: offset"),
        (tmp_path / "x.counts", [tmp_path / "no*"], False, "no file fits"),
        (tmp_path / "x.counts", ["nosuch://bucket/a.counts"], False, "nosuch"),
    ):
        with pytest.raises(FleetError, match=message):
            merge(spark, [str(one) for one in inputs], str(output), strict=strict)
    assert not (tmp_path / "x.counts").exists()
    # Over an older one, whose reader keeps what it has open.
    (tmp_path / "x.counts").write_text("older")
    with open(tmp_path / "x.counts") as older:
        merged = merge(spark, [str(shard)], str(tmp_path / "x.counts"), most_bytes=100 << 20)
        assert older.read() == "older"
    assert merged.rows_written > 0 and (tmp_path / "x.counts").read_bytes().startswith(b"PAR1")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.counts", "cut.counts", "x.counts"]
    with pytest.raises(FleetError, match="give --max-shard 1 if"):
        merge(spark, [str(shard)], str(tmp_path / "y.counts"), most_bytes=1000)


def test_spark_submit_runs_the_package(
    planish: Planish, home: Path, archive: Path, fleet: Fleet, tmp_path: Path
) -> None:
    # Beside nothing of the package, which must come out of the archive.
    program = tmp_path / "submit.py"
    shutil.copy(SOURCE / "planish_spark" / "__main__.py", program)
    submit = home / "bin" / "spark-submit"
    java = ("--driver-java-options", JAVA, "--conf", "spark.ui.enabled=false")
    settings = ("--master", "local[2]", *java, "--py-files", archive, program)
    aged = ("--decay", "40s", "--now", fleet.now, "--weight", "0.3")
    arguments = (fleet.inputs[1], *aged, "-o", tmp_path / "one.counts")
    command = [submit, *settings, "merge", *arguments, "--format", "json"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True, env=environment, check=False)
    # Some files are cut off.
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert told["schema"] == "planish-fleet-merge" and told["rejected"]
    expected = planish.merged(tmp_path / "expected", fleet.inputs[1], *aged, code=1)
    assert planish.merged(tmp_path / "read", tmp_path / "one.counts") == expected
