"""clickhouse-sqlalchemy's HTTP dialect on a server; run by its own Python: ``… script.py port``."""

from __future__ import annotations

import datetime as dt
import decimal
import sys

import sqlalchemy as sa
from clickhouse_sqlalchemy import Table, engines, get_declarative_base, make_session, types

URL = f"clickhouse+http://default:@127.0.0.1:{int(sys.argv[1])}/default"
ENGINE = sa.create_engine(URL)
METADATA = sa.MetaData()
Base = get_declarative_base(metadata=METADATA)
ROWS: list[dict[str, object]] = [
    {"id": 1, "day": dt.date(2026, 11, 20), "name": "it's", "price": decimal.Decimal("1.5"), "note": None, "tags": [1]},
    {"id": 2, "day": dt.date(2026, 11, 21), "name": "Grace", "price": decimal.Decimal("2.25"), "note": "x", "tags": []},
]


class Order(Base):
    __table_args__ = (engines.MergeTree(order_by="id", partition_by=sa.func.toYYYYMM(sa.column("day"))),)
    id = sa.Column(types.UInt32, primary_key=True)
    day = sa.Column(types.Date)
    name = sa.Column(types.String)
    price = sa.Column(types.Decimal(10, 2))
    note = sa.Column(types.Nullable(types.String))
    tags = sa.Column(types.Array(types.UInt8))


def tables() -> None:
    METADATA.create_all(ENGINE)
    METADATA.create_all(ENGINE)  # the one that is there is found
    with ENGINE.begin() as connection:
        connection.execute(sa.insert(Order.__table__), ROWS)


def queries() -> None:
    session = make_session(ENGINE)
    found = session.query(Order).order_by(Order.id).all()
    assert [(order.name, order.price, order.note) for order in found] == [
        ("it's", decimal.Decimal("1.50"), None), ("Grace", decimal.Decimal("2.25"), "x"),
    ]  # fmt: skip
    assert found[0].day == dt.date(2026, 11, 20)
    assert session.query(sa.func.count()).select_from(Order).filter(Order.name == "it's").scalar() == 1
    table = Order.__table__
    days = sa.select(table.c.day, sa.func.max(table.c.id))
    with ENGINE.connect() as connection:
        grouped = connection.execute(days.group_by(table.c.day).order_by(table.c.day)).fetchall()
        assert [tuple(row) for row in grouped] == [(dt.date(2026, 11, 20), 1), (dt.date(2026, 11, 21), 2)]
        assert connection.execute(sa.text("SELECT :a + 1"), {"a": 41}).scalar() == 42
    session.close()


def reflection() -> None:
    inspector = sa.inspect(ENGINE)
    assert "default" in inspector.get_schema_names()
    assert "order" in inspector.get_table_names()
    assert inspector.has_table("order")
    assert not inspector.has_table("nobody")
    assert inspector.get_view_names() == []
    columns = {column["name"]: column["type"] for column in inspector.get_columns("order")}
    assert list(columns) == ["id", "day", "name", "price", "note", "tags"]
    assert isinstance(columns["note"], types.Nullable)
    reflected = Table("order", sa.MetaData(), autoload_with=ENGINE)
    assert [column.name for column in reflected.primary_key] == []
    assert [column.name for column in reflected.columns] == list(columns)
    METADATA.drop_all(ENGINE)
    assert not sa.inspect(ENGINE).has_table("order")


for part in (tables, queries, reflection):
    part()
    print(part.__name__, "ok", flush=True)
