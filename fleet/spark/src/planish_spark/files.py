"""Which files does an input name, and how is one put in its place? By Hadoop's file systems, whatever the URL.

Hadoop's classes run in the driver's JVM. Only names, sizes and finished files go through here, never rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from planish_spark.choice import Found
from planish_spark.errors import FleetError

#: How counts files are called in a directory.
ENDING = ".counts"
#: Most files of one input, and most directories that lie in one another.
_MOST_FILES = 1 << 20
_MOST_DEEP = 32
_PATTERN = frozenset("*?[{")


class Files:
    """The file systems that a Spark session reaches."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self.jvm: Any = context._jvm
        self._gateway: Any = context._gateway
        self.configuration: Any = context._jsc.hadoopConfiguration()

    def path(self, url: str) -> Any:
        """Hadoop's ``Path`` of a URL or path."""
        try:
            return self.jvm.org.apache.hadoop.fs.Path(url)
        except Py4JJavaError as error:
            raise FleetError(f"{url}: {reason(error)}") from None

    def system(self, path: Any) -> Any:
        """The file system of a ``Path``."""
        try:
            return path.getFileSystem(self.configuration)
        except Py4JJavaError as error:
            raise FleetError(f"{path.toString()}: {reason(error)}") from None

    def qualified(self, url: str) -> str:
        """The whole URL of one that may lack scheme and authority."""
        path = self.path(url)
        return str(self.system(path).makeQualified(path).toString())

    def expand(self, url: str) -> list[Found]:
        """The files that an input names, sorted: a file, all ``*.counts`` in and below a directory, or what fits a
        pattern.

        Raises ``FleetError`` where there are none, or a directory cannot be read.
        """
        path = self.path(url)
        system = self.system(path)
        try:
            found = list(self._expanded(system, path, url))
        except Py4JJavaError as error:
            raise FleetError(f"{url}: {reason(error)}") from None
        return sorted(found, key=lambda one: one.name)

    def _expanded(self, system: Any, path: Any, url: str) -> Iterator[Found]:
        if system.exists(path):
            status = system.getFileStatus(path)
            if not status.isDirectory():
                yield _found(status)
                return
            found = list(self._below(system, path, 0))
            if not found:
                raise FleetError(f"{url}: a directory without a file *{ENDING} in or below it")
            yield from found
        elif _PATTERN.isdisjoint(url):
            qualified = str(system.makeQualified(path).toString())
            yield Found(plain(qualified), qualified, None)
        else:
            fitting = system.globStatus(path)
            if not fitting:
                raise FleetError(f"{url}: no file fits this pattern")
            for status in fitting:
                if status.isDirectory():
                    yield from self._below(system, status.getPath(), 0)
                else:
                    yield _found(status)

    def _below(self, system: Any, directory: Any, depth: int) -> Iterator[Found]:
        number = 0
        for status in system.listStatus(directory):
            # Not whole yet, or whoever's that works there.
            if str(status.getPath().getName()).startswith("."):
                continue
            if status.isDirectory():
                if depth < _MOST_DEEP:
                    yield from self._below(system, status.getPath(), depth + 1)
            elif str(status.getPath().getName()).endswith(ENDING):
                number += 1
                if number > _MOST_FILES:
                    name = directory.toString()
                    raise FleetError(f"{name}: more than {_MOST_FILES} files; merge them in parts")
                yield _found(status)

    @contextmanager
    def beside(self, output: str) -> Iterator[str]:
        """A new directory beside a file that is to be made; it is removed in the end."""
        path = self.path(output)
        system = self.system(path)
        parent = path.getParent()
        if parent is None:
            raise FleetError(f"{output}: expected a file, found the root of a file system")
        # Names that begin so are hidden from whoever reads the directory meanwhile.
        place = self.jvm.org.apache.hadoop.fs.Path(parent, f"_planish-{uuid.uuid4().hex}")
        try:
            # Local files would get companions with check sums, which outlive what they belong to.
            system.setWriteChecksum(False)
            system.mkdirs(place)
            # Whatever ends the driver.
            system.deleteOnExit(place)
        except Py4JJavaError as error:
            raise FleetError(f"{output}: {reason(error)}") from None
        try:
            yield str(place.toString())
        finally:
            system.delete(place, True)

    def move(self, made: str, output: str) -> None:
        """Puts a finished file in its place, over what is there."""
        source, target = self.path(made), self.path(output)
        system = self.system(target)
        try:
            is_there = bool(system.exists(target))
            if is_there and system.getFileStatus(target).isDirectory():
                raise FleetError(f"{output}: is a directory")
            if is_there and self._over(source, target):
                return
            if is_there:
                system.delete(target, False)
            if not system.rename(source, target):
                raise FleetError(f"{output}: cannot be written; is its directory there?")
        except Py4JJavaError as error:
            raise FleetError(f"{output}: {reason(error)}") from None

    def _over(self, source: Any, target: Any) -> bool:
        """Renames over a file in one step; whether this file system can."""
        hadoop = "org.apache.hadoop.fs"
        rename = getattr(self.jvm, f"{hadoop}.Options$Rename")
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        try:
            context = self.jvm.org.apache.hadoop.fs.FileContext.getFileContext(target.toUri(), self.configuration)
            context.rename(source, target, options)
        except Py4JJavaError as error:
            # Not all connectors have such a context.
            if "UnsupportedFileSystemException" in str(error) or "UnsupportedOperationException" in str(error):
                return False
            raise
        return True


def _found(status: Any) -> Found:
    url = str(status.getPath().toString())
    return Found(plain(url), url, int(status.getLen()))


def plain(url: str) -> str:
    """A local file's path, without ``file:``; any other URL as it is."""
    if not url.startswith("file:"):
        return url
    path = url.removeprefix("file:")
    return "/" + path.lstrip("/")


def escaped(url: str) -> str:
    """A URL for readers that take signs of patterns as such."""
    return "".join(f"\\{sign}" if sign in "*?[]{}\\" else sign for sign in url)


def reason(error: Py4JJavaError) -> str:
    """What Java says went wrong, in one line."""
    thrown: Any = error.java_exception
    text = str(thrown.getMessage() or thrown.toString())
    return text.splitlines()[0] if text else "failed"
