"""``python -m tests.cluster.chaos_links``: three linked clusters of two replicas, harmed while they change.

``--work shared``: tables that several clusters write, or copy (:mod:`tests.cluster.link_shared_work`).
``--work switches``: tables whose source moves by SWITCH and PROMOTE … FORCE: of a link, of a transactional group that
is read by SELECT and by Spark, and of synchronous links (:mod:`tests.cluster.link_switching`). ``--work all``: both.

Processes are killed and paused, networks between clusters are cut and slow, disks are full, replicas are wiped
(:mod:`tests.cluster.link_faults`). At the end every replica of every cluster must have exactly what clients were told:
no row lost, none doubled, none different.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.cluster.link_faults import ClusterFaults, NetworkFaults
from tests.cluster.link_shared_work import SharedWork
from tests.cluster.link_sites import LinkedSites, Step, Work
from tests.cluster.link_switching import SwitchedWork

WORKS = ("shared", "switches", "all")


def make_works(sites: LinkedSites, work: str, *, with_spark: bool) -> list[Work]:
    """Returns the work of a name, with its tables and links."""
    works: list[Work] = []
    if work in ("shared", "all"):
        works.append(SharedWork(sites))
    if work in ("switches", "all"):
        works.append(SwitchedWork(sites, with_spark=with_spark))
    for each in works:
        each.create()
    return works


def run(sites: LinkedSites, works: Sequence[Work], seconds: float) -> list[str]:
    """Works and harms for so long; returns what is wrong at the end: nothing, if all promises held."""
    tables = [table for work in works for table in work.tables]
    harmed = [
        *(
            ClusterFaults(
                cluster, sites.clients[name], sites.statements[name], tables, sites.another_random(), sites.wait,
                sites.count_fault, min(work.wipeable for work in works),
            )
            for name, cluster in sites.clusters.items()
        ),
        NetworkFaults(sites.network, sites.another_random(), sites.wait, sites.count_fault),
    ]  # fmt: skip
    steps = [step for work in works for step in work.steps()] + [faults.next for faults in harmed]
    threads = [threading.Thread(target=_repeat, args=(sites, step)) for step in steps]
    for thread in threads:
        thread.start()
    sites.end.wait(seconds)
    sites.end.set()
    for thread in threads:
        thread.join()
    sites.network.mend()
    return sites.problems or [problem for work in works for problem in work.check()]


def _repeat(sites: LinkedSites, step: Step) -> None:
    try:
        while not sites.end.is_set():
            step()
    except Exception as error:
        sites.fail(f"{type(error).__name__}: {error}")


def main() -> int:
    """Runs chaos; the exit code is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, help="a new directory for the servers' files and logs, kept at the end")
    parser.add_argument("--work", choices=WORKS, default="shared")
    parser.add_argument("--without-spark", action="store_true", help="no queries of Spark among the reads of the group")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with ExitStack() as stack:
        directory = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pando-chaos-")))
        sites = LinkedSites(directory, options.seed)
        stack.callback(sites.close)
        works = make_works(sites, options.work, with_spark=not options.without_spark)
        wrong = run(sites, works, options.seconds)
        for counts in (sites.faults, sites.counts):
            for what, count in sorted(counts.items()):
                print(f"{count:>7,} {what}")
        print(f"{sites.faults.total():,} faults, acknowledged {sites.acknowledged:,} statements")
        for text in (*wrong, *(sites.describe() if wrong else ())):
            print(f"WRONG: {text}", file=sys.stderr)
        if not wrong:
            print("lost 0, doubled 0, different 0 on every replica of every cluster")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
