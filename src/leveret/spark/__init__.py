"""The data pipeline: what the journal and its archive tell, as tables for Spark. Only this package needs pyspark."""
