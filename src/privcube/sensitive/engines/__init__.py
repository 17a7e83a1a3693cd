"""One file, one engine, which counts records where they are; `spark_workers` belongs to Spark's. Zone: SENSITIVE."""
