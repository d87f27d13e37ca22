"""The parts of one table on one disk: format, read, write, merge.

It sets an option of Arrow's allocator, which is read when Arrow is imported: huge pages halve a merge's page faults.
"""

import os

os.environ.setdefault("JE_ARROW_MALLOC_CONF", "thp:always")
