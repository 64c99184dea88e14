"""Spark finds the format `tarantool` here: it looks for a class `DefaultSource` in every installed package whose name
begins with `pyspark_`. What the format does is in `headwater.pipeline`, imported when it is asked for, because
Spark loads this module in several processes only to learn the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Files of Tarantool and Headwater, live spaces, their stream of changes, and a sink.

        spark.read.format("tarantool").load("/var/lib/tarantool")                      # rows of .snap and .xlog files
        spark.read.format("tarantool").option("space", "books").load("…/*.xlog")       # typed rows of one space
        spark.read.format("tarantool").option("hosts", "a:3301,b:3301").option("space", "books").load()
        spark.readStream.format("tarantool").option("hosts", "a:3301,b:3301").load()
        df.write.format("tarantool").option("hosts", "a:3301").option("space", "books").mode("append").save()

    docs/spark.md lists the options.
    """

    @classmethod
    def name(cls) -> str:
        return "tarantool"

    def schema(self) -> StructType:
        if self._reads_files():
            from headwater.pipeline import filesource

            return filesource.schema(self.options)
        from headwater.pipeline import streamsource

        return streamsource.schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        if self._reads_files():
            from headwater.pipeline import filesource

            return filesource.reader(self.options, schema)
        from headwater.pipeline import livesource

        return livesource.reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from headwater.pipeline import streamsource

        return streamsource.reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from headwater.pipeline import sink

        return sink.writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from headwater.pipeline import sink

        return sink.stream_writer(self.options, schema, overwrite)

    def _reads_files(self) -> bool:
        names = {name.lower().removeprefix("tarantool.") for name in self.options}
        return "path" in names or "paths" in names
