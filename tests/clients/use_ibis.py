"""ibis table expressions on a server; run by its own Python: ``… script.py port``."""

from __future__ import annotations

import datetime as dt
import sys

import ibis
import pandas as pd
import pyarrow as pa
from ibis import _

PORT = int(sys.argv[1])
FLIGHTS = pd.DataFrame(
    {
        "id": [1, 2, 3, 4, 5, 6],
        "carrier": ["UA", "AA", "UA", "DL", "AA", "UA"],
        "delay": [10.0, -3.5, 60.0, None, 0.0, 25.0],
        "day": [dt.date(2013, 1, day) for day in (1, 1, 2, 2, 3, 3)],
        "miles": [1400, 200, 1400, 760, 733, 200],
    }
)


def tables(con: ibis.BaseBackend) -> None:
    assert "default" in con.list_databases()
    schema = {"id": "!int64", "carrier": "!string", "delay": "float64", "day": "date", "miles": "int64"}
    con.create_table("flights", schema=schema, engine="MergeTree", order_by=["id"], settings={"allow_nullable_key": 1})
    con.insert("flights", FLIGHTS)
    flights = con.table("flights")
    assert con.list_tables() == ["flights"]
    assert flights.count().execute() == 6
    assert flights.schema()["delay"].nullable
    con.create_table("empty", schema={"k": "!int64", "v": "string"}, engine="MergeTree", order_by=["k"])
    con.insert("empty", pd.DataFrame({"k": [1, 2], "v": ["a", "b"]}))
    con.insert("empty", pa.table({"k": pa.array([3], pa.int64()), "v": ["c"]}))
    assert con.table("empty").v.execute().tolist() == ["a", "b", "c"]
    con.truncate_table("empty")
    assert con.table("empty").count().execute() == 0
    con.drop_table("empty")


def expressions(con: ibis.BaseBackend) -> None:
    flights = con.table("flights")
    late = flights.filter(_.delay > 5, _.carrier.isin(["UA", "DL"])).order_by(_.id)
    assert late.id.execute().tolist() == [1, 3, 6]
    by_carrier = (
        flights.group_by("carrier")
        .aggregate(n=_.count(), late=_.delay.mean(), far=_.miles.max(), days=_.day.nunique())
        .order_by(ibis.desc("n"), "carrier")
    )
    frame = by_carrier.execute()
    assert frame["carrier"].tolist() == ["UA", "AA", "DL"]
    assert frame["n"].tolist() == [3, 2, 1]
    assert frame["far"].tolist() == [1400, 733, 760]
    changed = flights.mutate(
        hours=_.delay / 60,
        slow=ibis.cases((_.delay > 30, "very"), (_.delay > 0, "little"), else_="no"),
        name=_.carrier.lower().concat("-", _.id.cast("string")),
        month=_.day.month(),
        week=_.day.truncate("W"),
    ).order_by("id")
    frame = changed.execute()
    assert frame["slow"].tolist() == ["little", "no", "very", "no", "no", "little"]
    assert frame["name"].tolist()[:2] == ["ua-1", "aa-2"]
    assert frame["month"].tolist() == [1] * 6
    assert flights.delay.sum().execute() == 91.5
    assert flights.distinct().count().execute() == 6
    assert flights.limit(2, offset=1).order_by("id").count().execute() == 2
    assert flights.carrier.value_counts().order_by("carrier").execute().iloc[:, 1].tolist() == [2, 1, 3]


def joins(con: ibis.BaseBackend) -> None:
    flights = con.table("flights")
    con.create_table("carriers", schema={"carrier": "!string", "name": "string"}, order_by=["carrier"])
    con.insert("carriers", pd.DataFrame({"carrier": ["UA", "AA"], "name": ["United", "American"]}))
    carriers = con.table("carriers")
    inner = flights.join(carriers, "carrier").order_by("id")
    assert inner.name.execute().tolist() == ["United", "American", "United", "American", "United"]
    assert flights.left_join(carriers, "carrier").filter(_.name.isnull()).count().execute() == 1
    assert flights.anti_join(carriers, "carrier").id.execute().tolist() == [4]
    assert flights.semi_join(carriers, "carrier").count().execute() == 5
    con.drop_table("carriers")


def windows(con: ibis.BaseBackend) -> None:
    flights = con.table("flights")
    window = ibis.window(group_by="carrier", order_by="id")
    ranked = flights.mutate(
        place=ibis.row_number().over(window), before=_.miles.lag().over(window), total=_.miles.cumsum().over(window)
    ).order_by("id")
    frame = ranked.execute()
    assert frame["place"].tolist() == [0, 0, 1, 0, 1, 2]
    assert frame["total"].tolist() == [1400, 200, 2800, 760, 933, 3000]


def answers(con: ibis.BaseBackend) -> None:
    flights = con.table("flights")
    table = flights.order_by("id").select("id", "day").to_pyarrow()
    assert table.column("day").to_pylist()[0] == dt.date(2013, 1, 1)
    assert sum(batch.num_rows for batch in flights.to_pyarrow_batches(chunk_size=2)) == 6


def memtables(con: ibis.BaseBackend) -> None:
    weights = ibis.memtable({"carrier": ["UA", "AA"], "weight": [2, 3]})
    weighted = con.table("flights").join(weights, "carrier").aggregate(total=(_.miles * _.weight).sum())
    assert weighted.execute()["total"].tolist() == [3000 * 2 + 933 * 3]
    copied = con.create_table("copied", pd.DataFrame({"k": [3, 1, 2]}), engine="MergeTree", order_by=[])
    assert sorted(copied.k.execute()) == [1, 2, 3]


def views(con: ibis.BaseBackend) -> None:
    far = con.create_view("far", con.table("flights").filter(_.miles > 1000))
    assert far.count().execute() == con.table("flights").filter(_.miles > 1000).count().execute() > 0
    assert con.sql("SELECT carrier, count() AS n FROM flights GROUP BY carrier").n.sum().execute() == 6
    con.drop_view("far")
    assert "far" not in con.list_tables()


def main() -> None:
    con = ibis.clickhouse.connect(host="127.0.0.1", port=PORT)
    for part in (tables, expressions, joins, windows, answers, memtables, views):
        part(con)
        print(part.__name__, "ok", flush=True)


main()
