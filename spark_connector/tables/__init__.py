"""Creates tables of Pando from Spark, and views of them in a Spark session."""
