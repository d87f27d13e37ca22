"""Skip indexes: what is kept of runs of granules, so that a query passes over those that cannot match.

``index_file`` is the file of a part; ``build`` makes it of the rows as they are written; ``extremes`` (minmax),
``value_sets`` (set) and ``filters`` (bloom_filter, ngrambf_v1, tokenbf_v1) say what is kept; ``hashing`` makes numbers
of values and of pieces of texts. What a condition asks of them stands in ``sql.pruning``.
"""
