"""The nodes of links: a link comes and goes whole, whatever request is the last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordination.keeper.interface import Keeper
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.links.link_names import (
    DatabaseLink,
    TableLinkName,
    check_link_name,
    find_link_name,
    list_link_names,
    name_path,
    parse_link_name,
)
from coordination.links.link_nodes import (
    StoredLink,
    change_link,
    create_link,
    drop_link,
    find_link,
    require_link,
)
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import FEATURE_LINKS, FEATURES
from parts.common.errors import CorruptionError, PandoError, UserError
from tests.links.link_tables import NORTH, WEST, make_definition, make_ensemble, make_table, read_gate

TWO_WAY = {"two_way": True}


def is_whole(keeper: Keeper, table: TablePaths, name: str = "orders") -> bool:
    """Whether the link is there; it must not be there in part."""
    places = {
        keeper.exists(table.linked.incoming_link(name)) is not None,
        read_gate(keeper, table).find_link(name) is not None,
        find_link_name(keeper, name) is not None,
    }
    assert len(places) == 1, places
    return places.pop()


def test_a_link_is_made_and_found() -> None:
    keeper = make_ensemble().connect()
    table, definition = make_table(keeper), make_definition()
    create_link(keeper, table, definition, WEST)
    assert is_whole(keeper, table)
    found = find_link(keeper, "orders")
    assert isinstance(found, StoredLink)
    assert (found.definition, found.table) == (definition, table)
    (link,) = read_gate(keeper, table).links
    assert (link.direction, link.peer, link.peer_name, link.is_two_way) == (LinkDirection.IN, WEST, "west", False)
    create_link(keeper, table, definition, WEST)  # of the same UUID: it is there


@pytest.mark.parametrize("change", [{"settings": TWO_WAY}, {"settings": {"preserve_timestamps": False}}])
def test_the_gate_says_who_may_write(change: dict[str, object]) -> None:
    keeper = make_ensemble().connect()
    table = make_table(keeper)
    create_link(keeper, table, make_definition(**change), WEST)
    assert read_gate(keeper, table).links[0].is_two_way


def test_a_name_is_taken_once_in_the_cluster() -> None:
    keeper = make_ensemble().connect()
    table, other = make_table(keeper), make_table(keeper, "/t/other")
    create_link(keeper, table, make_definition(), WEST)
    assert "link 'orders' already" in fails(lambda: create_link(keeper, table, make_definition(uuid="u2"), WEST))
    assert "link 'orders' already" in fails(lambda: create_link(keeper, other, make_definition(uuid="u2"), WEST))
    assert not read_gate(keeper, other).links
    assert keeper.exists(other.linked.incoming_link("orders")) is None


def test_a_source_is_linked_to_a_table_once() -> None:
    keeper = make_ensemble().connect()
    table = make_table(keeper)
    create_link(keeper, table, make_definition(settings=TWO_WAY), WEST)
    again = make_definition("again", "u2", settings=TWO_WAY)
    assert "Link 'orders' brings the changes of db.orders of cluster west" in fails(
        lambda: create_link(keeper, table, again, WEST)
    )
    create_link(keeper, table, again, NORTH)


@pytest.mark.parametrize(
    ("first", "second", "closed"), [({}, TWO_WAY, "orders"), (TWO_WAY, {}, "second"), ({}, {}, "orders")]
)
def test_a_second_source_needs_links_that_let_others_write(
    first: dict[str, object], second: dict[str, object], closed: str
) -> None:
    keeper = make_ensemble().connect()
    table = make_table(keeper)
    create_link(keeper, table, make_definition(settings=first), WEST)
    message = fails(lambda: create_link(keeper, table, make_definition("second", "u2", settings=second), NORTH))
    assert f"link '{closed}' lets nobody else write" in message
    assert not [name for name in list_link_names(keeper) if name.name == "second"]


def test_a_replica_that_does_not_know_links_refuses_them() -> None:
    keeper = make_ensemble().connect()
    table = make_table(keeper, features=tuple(name for name in FEATURES if name != FEATURE_LINKS))
    assert "replica 'r1' runs a version that does not know it" in fails(
        lambda: create_link(keeper, table, make_definition(), WEST), 48
    )
    assert not is_whole(keeper, table)


def test_a_table_that_was_made_anew_leaves_its_name() -> None:
    keeper = make_ensemble().connect()
    table = make_table(keeper)
    create_link(keeper, table, make_definition(), WEST)
    keeper.delete_tree(table.root)
    assert find_link(keeper, "orders") is None
    table = make_table(keeper)
    create_link(keeper, table, make_definition(uuid="u2"), WEST)
    assert is_whole(keeper, table)
    keeper.delete_tree(table.root)
    assert drop_link(keeper, "orders") is not None
    assert list_link_names(keeper) == []


def test_a_link_changes() -> None:
    keeper = make_ensemble().connect()
    table = make_table(keeper)
    create_link(keeper, table, make_definition(), WEST)
    before, after = change_link(keeper, "orders", lambda link: link.with_settings({"link_quorum": 3}))
    assert (before.settings, after.settings) == ({}, {"link_quorum": 3})
    gate = read_gate(keeper, table)
    change_link(keeper, "orders", lambda link: link.with_settings({"upstream_replica_id": "0"}))
    assert not gate.links[0].is_two_way
    assert read_gate(keeper, table).links[0].is_two_way
    change_link(keeper, "orders", lambda link: link.with_settings({"upstream_replica_id": ""}))
    assert read_gate(keeper, table).links == gate.links
    assert "there is no link 'other'" in fails(lambda: change_link(keeper, "other", lambda link: link)).lower()


def test_one_of_several_links_cannot_be_closed_to_others() -> None:
    keeper = make_ensemble().connect()
    table, open_link = make_table(keeper), {"upstream_replica_id": "0"}
    create_link(keeper, table, make_definition(settings=open_link), WEST)
    create_link(keeper, table, make_definition("second", "u2", settings=open_link), NORTH)
    message = fails(lambda: change_link(keeper, "orders", lambda link: link.with_settings({"upstream_replica_id": ""})))
    assert "'second'" in message
    found = require_link(keeper, "orders")
    assert isinstance(found, StoredLink)
    assert found.definition.settings == open_link


def test_a_drop_takes_what_the_server_of_the_link_wrote() -> None:
    keeper = make_ensemble().connect()
    table = make_table(keeper)
    create_link(keeper, table, make_definition(), WEST)
    keeper.create(table.linked.status("orders"), b"{}")
    keeper.create(table.linked.leader("orders"), b"r1", ephemeral=True)
    dropped = drop_link(keeper, "orders")
    assert dropped == TableLinkName("orders", "u1", table.root, "west", "db", "orders")
    assert not is_whole(keeper, table)
    assert drop_link(keeper, "orders") is None


@pytest.mark.parametrize("fault", [*Fault, None])
@pytest.mark.parametrize("number", range(18))
@pytest.mark.parametrize("work", ["create", "change", "drop"])
def test_a_link_is_there_whole_or_not_at_all(work: str, number: int, fault: Fault | None) -> None:
    """``None``: the server ends before the request. What is repeated then ends as if nothing had happened."""
    zookeeper = make_ensemble()
    keeper = zookeeper.connect()
    table = make_table(keeper)
    if work != "create":
        create_link(keeper, table, make_definition(), WEST)
    does: dict[str, Callable[[Keeper], object]] = {
        "create": lambda keeper: create_link(keeper, table, make_definition(settings=TWO_WAY), WEST),
        "change": lambda keeper: change_link(keeper, "orders", lambda link: link.with_settings(TWO_WAY)),
        "drop": lambda keeper: drop_link(keeper, "orders"),
    }
    break_at(zookeeper, number, fault)
    with suppress(PandoError, Ended):
        does[work](keeper)
    zookeeper.faults = None
    other = zookeeper.connect()
    is_whole(other, table)
    does[work](other)
    assert is_whole(other, table) == (work != "drop")
    assert [link.is_two_way for link in read_gate(other, table).links] == ([] if work == "drop" else [True])


class Ended(BaseException):
    """The end of a server in the middle of something."""


def break_at(zookeeper: MemoryEnsemble, number: int, fault: Fault | None) -> None:
    left = [number]

    def faults(session: int, kind: str, path: str) -> Fault | None:
        left[0] -= 1
        if left[0] == -1 and fault is None:
            raise Ended
        return fault if left[0] == -1 else None

    zookeeper.faults = faults


@pytest.mark.parametrize("number", range(12))
def test_of_two_that_take_a_name_one_gets_it(number: int) -> None:
    zookeeper = make_ensemble()
    keeper, rival = zookeeper.connect(), zookeeper.connect()
    table, other = make_table(keeper), make_table(keeper, "/t/other")
    left = [number]

    def come(session: int, kind: str, path: str) -> None:
        left[0] -= session == keeper.session_id
        if left[0] == -1:
            left[0] = -2
            create_link(rival, other, make_definition(uuid="u2", target_table="other"), WEST)

    zookeeper.faults = come
    try:
        create_link(keeper, table, make_definition(), WEST)
    except UserError as error:
        assert "already" in error.message  # noqa: PT017
    zookeeper.faults = None
    holders = [root for root in (table, other) if read_gate(keeper, root).links]
    assert len(holders) == 1
    assert is_whole(keeper, holders[0])
    assert keeper.exists(({table, other} - set(holders)).pop().linked.incoming_link("orders")) is None


def test_names() -> None:
    for name in ("orders", "a.b", "_x", "7", "a%20b", "x" * 200):
        assert check_link_name(name) == name
    for name in ("", ".", "..", ".a", "a/b", "a b", "é", "x" * 201, "a\n", "-a"):
        assert "No link can be named" in fails(lambda name=name: check_link_name(name))  # type: ignore[misc]


@given(st.dictionaries(st.sampled_from(["link_quorum", "mode"]), st.text(max_size=5)), st.booleans())
def test_names_keep_what_they_do_not_know(settings: dict[str, object], is_enabled: bool) -> None:
    extra = (("later", [1]),)
    for link in (
        DatabaseLink("d", "u", "west", "s", "t", settings, is_enabled, extra),
        TableLinkName("d", "u", "/t", "west", "s", "t", "", extra),
    ):
        found = parse_link_name("d", link.to_bytes())
        assert found == link
        assert found.extra == extra


@pytest.mark.parametrize("data", [b"", b"[]", b'{"version":2,"kind":"table"}', b'{"version":1,"kind":"view"}'])
def test_a_damaged_name_is_an_error_that_names_the_node(data: bytes) -> None:
    with pytest.raises(CorruptionError, match=name_path("d")):
        parse_link_name("d", data)


def fails(action: Callable[[], object], code: int = 36) -> str:
    with pytest.raises(UserError) as error:
        action()
    assert error.value.code == code
    return error.value.message
