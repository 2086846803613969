"""Which shards of this machine count? The same choice without Spark, for engines that run here alone."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from planish_spark.choice import MOST_BYTES, Choice, Found, Given, Rejected, expanded
from planish_spark.errors import BadShard, FleetError
from planish_spark.look import Shard, look
from planish_spark.plan import Options


def choose(
    inputs: Sequence[str],
    options: Options = Options(),
    *,
    weights: Sequence[int] = (),
    most_bytes: int = MOST_BYTES,
    strict: bool = False,
) -> Choice:
    """Says which shards count, and how much. Arguments as for ``planish_spark.choose``; inputs are paths."""
    found = expanded(expand, inputs, weights)
    shards: dict[str, Shard] = {}
    rejected: list[Rejected] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (file, _), seen in zip(found, pool.map(lambda one: _look(one[0], most_bytes), found)):
            if isinstance(seen, Shard):
                shards[file.name] = seen
            else:
                rejected.append((file.name, seen))
    return Given.of(found, shards, rejected, strict).choose(options)


def expand(path: str) -> list[Found]:
    """The files that an input names, sorted: a file, all ``*.counts`` in and below a directory, or what fits a
    pattern with ``*`` and ``?``.

    Raises ``FleetError`` where there are none.
    """
    given = Path(path)
    if given.is_dir():
        names = list(_below(given))
        why = "a directory without a file *.counts in or below it"
    elif not given.exists() and any(sign in path for sign in "*?"):
        fitting = [Path(name) for name in glob.glob(path.replace("[", "[[]"))]
        names = [name for one in fitting for name in (_below(one) if one.is_dir() else [str(one)])]
        why = "no file fits this pattern"
    else:
        names, why = [path], ""
    if not names:
        raise FleetError(f"{path}: {why}")
    return [Found(name, name, os.path.getsize(name) if os.path.exists(name) else None) for name in sorted(names)]


def _below(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        # What begins with a point is not whole yet, or whoever's that works there.
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (
            os.path.join(place, name) for name in names if name.endswith(".counts") and not name.startswith(".")
        )


def _look(file: Found, most_bytes: int) -> Shard | str:
    """The shard, or why it is none."""
    why = file.unreadable(most_bytes)
    if why is not None:
        return why
    try:
        return look(file.name, Path(file.name).read_bytes())
    except BadShard as bad:
        return str(bad)
    except OSError as error:
        return f"{file.name}: {error.strerror}"
