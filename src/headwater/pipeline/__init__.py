"""Files and live replica sets as Spark rows and a lake, and back. docs/pipeline.md says how its modules fit together,
docs/spark.md how it is used. Nothing is imported here: half of the modules need Java, pyspark or a lake."""
