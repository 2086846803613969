"""What became of each shard? As lines, as the JSON of ``planish fleet merge``, and as a table for other engines."""

from __future__ import annotations

import csv
import io
from collections import Counter
from typing import Any

from planish_spark import weight
from planish_spark.choice import Choice, Merged

#: Most files that are named for one reason.
_MOST_NAMED = 10


def table(choice: Choice) -> str:
    """The shards that count, as CSV: file, weight in 1/65536, architecture of rows that tell none, and whether rows
    of the first half count."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["file", "weight", "architecture", "halves"])
    halves = str(choice.plan.description.halves).lower()
    for chosen in choice.plan.chosen:
        shard = chosen.shard
        writer.writerow([shard.path, chosen.weight, shard.description.architecture, halves])
    return out.getvalue()


def json_value(merged: Merged) -> dict[str, Any]:
    """As one JSON object, of the schema ``planish-fleet-merge``."""
    plan = merged.plan
    recordings = plan.description.recordings

    def told(duplicate: bool) -> list[dict[str, str]]:
        fitting = (one for one in plan.left_out if one.duplicate == duplicate)
        return [{"path": one.shard.path, "reason": one.why} for one in fitting]

    return {
        "schema": "planish-fleet-merge",
        "version": 1,
        "files": merged.files,
        "merged": len(plan.chosen),
        "recordings": len(recordings),
        "hosts": len({one.host for one in recordings if one.host}),
        "host_classes": dict(sorted(Counter(one.host_class for one in recordings).items())),
        "rows_read": merged.rows_read,
        "rows_written": merged.rows_written,
        "intermediate_files": 0,
        "reused_files": 0,
        "objects_fetched": 0,
        "bytes_fetched": 0,
        "duplicates": told(True),
        "left_out": told(False),
        "rejected": [{"path": path, "reason": why} for path, why in merged.rejected],
        "from_the_future": plan.future,
        "part": _part(merged),
        "weighed": any(chosen.weight != weight.ONE for chosen in plan.chosen),
        "executions": plan.description.executions,
        "programs": dict(sorted(Counter(one.program for one in recordings).items())),
        "regions": dict(sorted(Counter(one.region for one in recordings).items())),
        "capped": [shard.path for shard in plan.capped],
        "sources": dict(sorted(Counter(one.source for one in recordings).items())),
        "ledger": plan.ledger,
        "outputs": [one.url for one in merged.written],
    }


def lines(choice: Choice, verbose: bool) -> list[str]:
    """As lines."""
    plan = choice.plan
    recordings = plan.description.recordings
    hosts = len({one.host for one in recordings if one.host})
    head = f"of {choice.files} files: {len(recordings)} recordings of {hosts} named hosts"
    if isinstance(choice, Merged):
        told = [f"merged {len(plan.chosen)} {head}; {choice.rows_read} rows in, {choice.rows_written} out"]
        part = _part(choice)
        if plan.description.executions:
            counted = sorted(Counter(one.source for one in recordings).items())
            named = ", ".join(f"{source or 'unknown'} ({number})" for source, number in counted)
            told.append(f"counts are executions, estimated by what the samples of each source stand for: {named}")
        told += [f"this is part {part}; merge all parts to get the whole"] if part else []
    else:
        told = [f"chose {len(plan.chosen)} {head}"]
    duplicates = [(one.shard.path, one.why) for one in plan.left_out if one.duplicate]
    left_out = [(one.shard.path, one.why) for one in plan.left_out if not one.duplicate]
    for name, asides in (("duplicate", duplicates), ("left out", left_out), ("rejected", [*choice.rejected])):
        most = len(asides) if verbose else _MOST_NAMED
        told += [f"{name}: {why if path in why else f'{path}: {why}'}" for path, why in asides[:most]]
        if len(asides) > most:
            told.append(f"{name}: and {len(asides) - most} more (-v names them)")
    told += [
        f"capped: {shard.path}: says that more passed than its time and CPUs allow"
        for shard in (plan.capped if verbose else plan.capped[:_MOST_NAMED])
    ]
    if plan.future:
        told.append(f"note: {plan.future} recordings end in the future; are their hosts' clocks right? --decay takes them for new")
    return told


def _part(merged: Merged) -> str | None:
    own = merged.plan.description
    if own.of < 2:
        return None
    return f"{', '.join(str(part + 1) for part in own.parts)} of {own.of}"
