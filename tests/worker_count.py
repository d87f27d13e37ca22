"""How many workers the servers of the tests have: PANDO_TEST_WORKERS. 0, the default, is all in one process."""

import os

WORKERS = int(os.environ.get("PANDO_TEST_WORKERS", "0"))
