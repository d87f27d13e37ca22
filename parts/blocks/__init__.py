"""Operations on Arrow arrays and blocks in memory, without tables or files."""
