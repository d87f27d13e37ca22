"""Forms: parameters and tables that come in the body of a request."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.engine.front.conftest import RunningServer


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http.port}", trust_env=False, timeout=30) as client:
        yield client


def test_parameters_in_a_form(http: httpx.Client) -> None:
    fields = {"query": (None, "SELECT {x:UInt8} + 1, {s:String}"), "param_x": (None, "41"), "param_s": (None, r"a\tb")}
    assert http.post("/", files=fields).text == "42\ta\\tb\n"
    assert http.post("/", params={"param_x": 1, "param_s": ""}, files={"query": fields["query"]}).text == "2\t\n"
    settings = {"query": (None, "SELECT getSetting('max_threads')"), "max_threads": (None, "3")}
    assert http.post("/", files=settings).text == "3\n"
    answer = http.post("/", files={**fields, "query_id": (None, "from-a-form")})
    assert answer.headers["x-clickhouse-query-id"] == "from-a-form"


def test_external_tables(http: httpx.Client) -> None:
    given = {
        "query": "SELECT a, count(), sum(length(b)) FROM ext JOIN numbers(3) AS n ON n.number = a GROUP BY a ORDER BY a"
    }
    files = {"ext": ("ext.tsv", b"1\tx\n1\tyy\n2\tz\n9\t\n")}
    answer = http.post("/", params={**given, "ext_structure": "a UInt64, b String"}, files=files)
    assert answer.text == "1\t2\t3\n2\t1\t1\n"
    answer = http.post(
        "/", params={"query": "SELECT _1, toTypeName(_2) FROM ext", "ext_types": "UInt8,String"}, files=files
    )
    assert answer.text.splitlines()[0] == "1\tString"
    csv = {
        "ext": ("f", b"k,v\n1,a\n"),
        "ext_format": (None, "CSVWithNames"),
        "ext_structure": (None, "k UInt8, v String"),
        "two": ("f", b""),
        "two_structure": (None, "z UInt8"),
        "query": (None, "SELECT *, (SELECT count() FROM two) FROM ext"),
    }
    assert http.post("/", files=csv).text == "1\ta\t0\n"


def test_null_is_the_default_in_an_external_table(http: httpx.Client) -> None:
    given = {
        "query": "SELECT a + 1, isNull(a), b FROM ext ORDER BY b",
        "ext_structure": "a UInt8, b String, c Array(Int8)",
    }
    for format, data in (("TSV", b"\\N\tx\t[]\n"), ("JSONEachRow", b'{"b": "x"}\n{"a": null, "b": "y"}')):
        answer = http.post("/", params={**given, "ext_format": format}, files={"ext": ("f", data)})
        assert answer.text.splitlines()[0] == "1\t0\tx"


def test_an_external_table_is_gone_with_its_request(http: httpx.Client) -> None:
    session = {"session_id": "with-a-table", "query": "SELECT sum(a) FROM ext"}
    for data, expected in ((b"1\n2\n", "3\n"), (b"5\n", "5\n")):
        files = {"ext": ("f", data)}
        assert http.post("/", params={**session, "ext_structure": "a UInt8"}, files=files).text == expected
    assert (
        http.post("/", params={**session, "ext_structure": "a String"}, files={"ext": ("f", b"x\n")}).status_code == 400
    )
    assert http.post("/", params=session).headers["x-clickhouse-exception-code"] == "60"


def test_a_form_does_not_say_who_asks(http: httpx.Client) -> None:
    fields = {"query": (None, "SELECT currentUser()"), "user": (None, "bob"), "password": (None, "x")}
    assert http.post("/", files=fields).text == "default\n"
    lifting = {"query": (None, "CREATE DATABASE x"), "readonly": (None, "0")}
    assert http.post("/", params={"user": "reader"}, files=lifting).headers["x-clickhouse-exception-code"] == "164"


@pytest.mark.parametrize(
    ("content_type", "body", "code"),
    [
        ("multipart/form-data", b"--b--\r\n", 36),
        ("multipart/form-data; boundary=b", b"", 36),
        ("multipart/form-data; boundary=b", b"--b\r\n\r\nx\r\n--b--", 36),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="query"\r\n\r\nSELECT 1', 36),
        ("multipart/form-data; boundary=b", b"--b--", 62),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: x; name="query"\r\n\r\n\xff\r\n--b--', 36),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: x; name="e"; filename=""\r\n\r\n--b--', 36),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: x; name="nope"\r\n\r\n1\r\n--b--', 115),
    ],
    ids=range(8),
)  # fmt: skip
def test_forms_that_are_none(http: httpx.Client, content_type: str, body: bytes, code: int) -> None:
    answer = http.post("/", headers={"Content-Type": content_type}, content=body)
    assert answer.headers["x-clickhouse-exception-code"] == str(code), answer.text
