"""Tables and views of Pando in a Spark session."""
