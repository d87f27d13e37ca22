"""``docs/formats.md``: what lies on disk and in ZooKeeper, from the docstrings of the modules that write it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.documents.blocks import ROOT
from tests.documents.markdown import GENERATED, convert_docstring, read_docstring, table

_PATHS = ("coordination/nodes/paths.py", "coordination/nodes/link_paths.py")
_INTRODUCTION = """# Formats on disk and in ZooKeeper

Written from the docstrings of the modules named in each heading, which make and read these bytes. Formats of data
that clients send and get stand in [Clients and formats](clients.md#formats).

"""
_DISK = {
    "The directory of a server": ("engine/catalog/definition_files.py", "engine/server/durable_texts.py"),
    "The files of a part": ("parts/format/file_names.py", "parts/common/part_name.py"),
    "Versions of parts": ("parts/format/part_files.py",),
    "Inside the files of a part": (
        "parts/format/frames.py", "parts/format/flat_arrays.py", "parts/format/codecs", "parts/format/marks.py",
        "parts/format/array_file.py", "parts/format/primary_index.py", "parts/format/columns_file.py",
        "parts/format/checksums.py", "parts/format/content_hash.py", "parts/format/packed_metadata.py",
        "parts/skip_indexes/skip_index_file.py", "parts/table/schema_history.py",
    ),
    "Beside the parts of a table": (
        "parts/store/drop_markers.py", "parts/store/detached_parts.py", "parts/store/attaching_parts.py",
        "parts/store/staged_parts.py", "parts/store/exchange_record.py", "parts/store/frozen_parts.py",
        "engine/tables/merge_tree/kept_mutations.py", "engine/tables/merge_tree/local_transactions.py",
        "parts/table/row_version.py", "engine/link_store/journal_segment.py", "engine/link_store/outbox.py",
    ),
}  # fmt: skip
_ZOOKEEPER = (
    "coordination/log/log_entry.py", "coordination/log/entry_list.py",
    "coordination/inserts/block_numbers.py", "coordination/inserts/partition_nodes.py",
    "coordination/inserts/block_ids.py", "coordination/inserts/block_views.py", "coordination/inserts/quorum.py",
    "coordination/links/stream/kept_changes.py", "coordination/links/stream/definition_nodes.py",
    "coordination/nodes/part_record.py", "coordination/nodes/replica_activation.py",
    "coordination/merges_mutations/mutation_nodes.py", "coordination/transactions/transaction_nodes.py",
    "coordination/transactions/application_versions.py", "coordination/reads/scan_records.py",
    "coordination/reads/dropped_blocks.py", "coordination/nodes/dropped_nodes.py", "coordination/ddl/ddl_queue.py",
    "coordination/ddl/ddl_entry.py", "coordination/nodes/gate.py", "coordination/nodes/gate_link.py",
    "coordination/links/written_epoch.py", "coordination/links/switching/lineage.py",
    "coordination/links/switching/switching_gate.py",
    "coordination/links/cluster_identity.py", "coordination/links/known_clusters.py",
    "coordination/links/link_names.py", "coordination/links/groups/link_group.py",
    "coordination/links/groups/told_cut.py",
    "coordination/links/groups/cut_mark.py",
    "coordination/links/link_nodes.py", "coordination/links/link_definition.py",
    "coordination/links/positions.py", "coordination/links/version_vector.py",
    "coordination/links/stream/carried_changes.py", "coordination/links/stream/commit_times.py",
    "coordination/links/stream/stable_times.py",
    "coordination/links/tracker/tracker_options.py", "coordination/links/tracker/tracker_nodes.py",
    "coordination/nodes/list_nodes.py", "engine/tables/capabilities/link_status.py",
    "engine/tables/replicated/links/source/outgoing_nodes.py",
)  # fmt: skip


def list_nodes() -> Iterator[tuple[str, str]]:
    """The znodes of a table and of its replicas: path, meaning. As :mod:`coordination.nodes.paths` has them."""
    body = [node for path in _PATHS for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body]
    for owner in (node for node in body if isinstance(node, ast.ClassDef)):
        for method in (node for node in owner.body if isinstance(node, ast.FunctionDef)):
            result = method.body[-1].value if isinstance(method.body[-1], ast.Return) else None
            path = _path_of(result) if not method.name.endswith("_prefix") else ""
            if owner.name == "ReplicaPaths" and method.name != "root":
                path = path.replace("<root>", "<root>/replicas/<replica>", 1)
            if path:
                yield path, ast.get_docstring(method) or ""


def _path_of(node: ast.expr | None) -> str:
    """``…/log/log-N`` of an f-string that begins with a root, else nothing."""
    node = node.left if isinstance(node, ast.BinOp) else node
    if not isinstance(node, ast.JoinedStr) or not ast.unparse(node).startswith(
        ("f'{self.root}", "f'{self.table.root}")
    ):
        return ""
    names = (each.value if isinstance(each, ast.Constant) else f"<{_name_of(each)}>" for each in node.values)
    return "".join(str(name) for name in names)


def _name_of(node: ast.expr) -> str:
    text = ast.unparse(node.value) if isinstance(node, ast.FormattedValue) else ""
    names = {"self.root": "root", "self.table.root": "root", "self.name": "replica", "log_entry_name(index)": "log-N"}
    return names.get(text, text)


def _module(path: str, level: str) -> str:
    return f"{level} `{path}`\n\n{convert_docstring(read_docstring(path))}"


def text() -> str:
    pages = [GENERATED + _INTRODUCTION]
    for title, modules in _DISK.items():
        pages.append(f"## {title}\n")
        pages += [_module(path, "###") for path in modules]
    pages.append("## The znodes of a table\n")
    pages.append(table(("node", "meaning"), [(f"`{path}`", meaning) for path, meaning in list_nodes()]))
    pages.append("## Inside the znodes\n")
    pages += [_module(path, "###") for path in _ZOOKEEPER]
    return "\n".join(pages)
