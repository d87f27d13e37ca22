"""The parts of one table on one disk: format, read, write, merge.

Arrow's allocator reads its options when Arrow is imported: huge pages halve the page faults of a merge.
"""

import os

os.environ.setdefault("JE_ARROW_MALLOC_CONF", "thp:always")
