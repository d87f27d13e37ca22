"""Skip indexes: summaries of runs of granules, by which a query skips those that cannot match.

``skip_index_file`` is the file of a part. ``index_builder`` makes it from the rows as they are written.
``minmax_index`` (minmax), ``set_index`` (set), ``bloom_filters`` (bloom_filter, ngrambf_v1, tokenbf_v1) and
``text_index`` (text) define the summaries. ``value_hashes`` hashes values and substrings. ``sql.pruning`` evaluates
conditions on them.
"""
