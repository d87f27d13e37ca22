"""Functions whose value may change between calls: keys, indexes and mutations refuse them."""

from __future__ import annotations

from sql.functions.registry import canonical_function_name
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Function, walk

CHANGING = frozenset(
    """now now64 nowInBlock today yesterday rand rand32 rand64 randConstant randUniform randNormal randLogNormal
    randBinomial randNegativeBinomial randPoisson randBernoulli randExponential randChiSquared randStudentT
    randFisherF randCanonical canonicalRand randomString randomFixedString randomPrintableASCII randomStringUTF8
    generateUUIDv4 generateUUIDv7 generateULID generateSnowflakeID fuzzBits hostName hostname FQDN fqdn uptime version
    serverUUID rowNumberInBlock rowNumberInAllBlocks blockNumber blockSize runningDifference runningAccumulate neighbor
    currentUser user queryID query_id initialQueryID connectionId timezone serverTimezone isConstant getSetting
    getServerSetting filesystemAvailable filesystemCapacity currentDatabase database currentPosition
    inSyncClusters lastCut""".lower().split()
)
"""Functions whose value depends on time, server, session or chance, in lower case."""


def is_changing(name: str) -> bool:
    """Tells whether a function's value may differ at another time or on another server."""
    return canonical_function_name(name).lower() in CHANGING or name.lower() in CHANGING


def find_changing_function(expression: str) -> str:
    """Returns the name of the first changing function in an expression, or ``""``."""
    calls = (node.name for node in walk(parse_expression(expression)) if isinstance(node, Function))
    return next(filter(is_changing, calls), "")
