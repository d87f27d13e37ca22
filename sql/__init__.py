"""ClickHouse SQL: from text to statements and query plans, and SELECT over Arrow."""
