#!/usr/bin/env python3
"""Writes docs/schema.md: a picture of the tables, from a scratch PostgreSQL with the migrations applied (dev-db.sh).

    scripts/schema.py            rewrites docs/schema.md
    scripts/schema.py --check    compares instead, and fails when docs/schema.md differs from the migrations

Columns, keys and relations come from the database's catalog, the meaning of a table from the comment above its CREATE TABLE.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIGRATIONS = ROOT / "migrations"
PAGE = ROOT / "docs" / "schema.md"
DATABASE = ROOT / "scripts" / "dev-db.sh"

HEADER = """# The schema

This page is generated: change a migration, then run `scripts/schema.py`. `scripts/schema.py --check` fails when the page is out of
date. The files in [migrations](../migrations) have every column with its reason.

- A picture shows of each table the primary key (`PK`), foreign keys (`FK`), unique columns (`UK`), other references, and the
  columns `kind`, `status` and `state`. Unique indexes may be partial: the migration has the condition.
- A solid line is a foreign key. A dotted line is a reference without one: a column `x_id` that is named after the other table and
  has the type of its key, or `parent_id`. Such rows are written often, or outlive the row that they name. The nil id in `intent_id`
  is the system log, which is no intent.
- A box without columns is a table of another picture.
- `agent_id` and `principal_id` have a line only where they are foreign keys: the name of an agent needs no record.
"""

# Pictures of the page: heading, and the migrations whose tables it shows.
AREAS = [
    ("Kernel: identity and access", "principals keys agent_sessions people provider_accounts identities server_keys intents access access_requests assignments"),
    ("Kernel: spending, stops and quotas", "teams spending stops quotas"),
    ("Kernel: inboxes, loops and notifications", "inboxes loops message_days notifications"),
    ("Kernel: logs, webhooks and servers", "log global_order event_retention order_retention search cursors webhooks idempotency checkpoints nodes schema_floor"),
    ("OpenIntent: channels, agents and work", "channels messages request_waits agents plans tasks leases lease_waits arbitration graphs"),
    ("OpenIntent: costs, failures and governance", "portfolios attachments costs retry_policies failures permits escalations violations coordinators suspensions"),
    ("OpenIntent: memory, triggers, tools and federation", "memory triggers vaults tool_grants tool_invocations federation"),
    ("ARCP", "agent_versions workers jobs job_claims job_limits job_retries budgets sessions credentials"),
    ("ARCP: jobs after their submission", "job_labels job_failures job_reruns job_queues job_signals job_costs lapsed_reservations task_pushes"),
    ("AEE", "envelopes mailboxes buses exchanges envelope_keys policy envelope_logs"),
    ("Binding moments", "moments"),
    ("Bridges", "bridges deadlocks bundles"),
]

# Columns that are shown although they are no keys.
STATUS = {"kind", "status", "state"}

# Columns with names that need no record, and therefore refer to no table by their name alone.
NAMES = {"agent_id", "principal_id"}

TABLES = """
SELECT coalesce(json_agg(t ORDER BY t.name), '[]') FROM (
    SELECT c.relname AS name,
           (SELECT json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, NULL), 'required', a.attnotnull)
                            ORDER BY a.attnum)
            FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
           (SELECT coalesce(json_agg(json_build_object(
                'primary', i.indisprimary, 'whole', i.indpred IS NULL,
                'columns', (SELECT coalesce(json_agg(a.attname), '[]') FROM pg_attribute a
                            WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey)))), '[]')
            FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique) AS uniques,
           (SELECT coalesce(json_agg(json_build_object(
                'to', k.confrelid::regclass::text,
                'columns', (SELECT json_agg(a.attname ORDER BY array_position(k.conkey, a.attnum)) FROM pg_attribute a
                            WHERE a.attrelid = c.oid AND a.attnum = ANY (k.conkey))) ORDER BY k.conname), '[]')
            FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f') AS foreign_keys
    FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r') t
"""


class Fault(Exception):
    """A reason that the page cannot be written."""


def catalog():
    """Returns the tables of a scratch database by name; the database is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="entente-schema-") as place:
        os.chmod(place, 0o755)
        environment = {**os.environ, "ENTENTE_DEV_DB": f"{place}/db"}
        try:
            url = subprocess.run([DATABASE], env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
            found = subprocess.run(["psql", "-XqAt", "-d", url, "-c", TABLES], check=True, stdout=subprocess.PIPE, text=True)
        finally:
            subprocess.run([DATABASE, "stop"], env=environment, check=False)
    return {table["name"]: table for table in json.loads(found.stdout)}


def sentence(comment):
    """Returns the first sentence of a comment's lines."""
    text = " ".join(line.removeprefix("--").strip() for line in comment)
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0].replace("|", "\\|")


def meanings():
    """Returns (file, whether it is a view, first sentence) of every table and view, by name, in the order of the migrations."""
    found = {}
    for file in sorted(MIGRATIONS.glob("*.sql")):
        comment = []
        for line in file.read_text().splitlines():
            made = re.match(r"CREATE (TABLE|VIEW) (\w+)", line)
            if made and not comment:
                raise Fault(f"{file.name}: `{made[2]}` has no comment directly above it")
            if made:
                found[made[2]] = (file, made[1] == "VIEW", sentence(comment))
            comment = [*comment, line] if line.startswith("--") else []
    return found


def plural(noun):
    return re.sub("[^aeiou]y$", lambda end: end[0][0] + "ie", noun) + "s"


def referred(table, column, tables, files):
    """Returns the table that a column refers to by its name alone: a table with this whole name, or one that ends with it."""
    if not column["name"].endswith("_id") or column["name"] in NAMES:
        return None
    if column["name"] == "parent_id":
        return table["name"]
    noun = plural(column["name"].removesuffix("_id"))

    def fits(name):
        keys = primary(tables[name])
        types = [one["type"] for one in tables[name]["columns"] if one["name"] in keys]
        return name != table["name"] and types == [column["type"]]

    if noun in tables:
        return noun if fits(noun) else None
    ending = [name for name in tables if name.endswith(f"_{noun}") and fits(name)]
    near = [name for name in ending if files[name] == files[table["name"]]]
    candidates = near or ending
    return candidates[0] if len(candidates) == 1 else None


def primary(table):
    return next((unique["columns"] for unique in table["uniques"] if unique["primary"]), [])


def is_single(table, columns):
    """Whether at most one row has the same values in these columns."""
    return any(unique["whole"] and unique["columns"] and set(unique["columns"]) <= set(columns) for unique in table["uniques"])


def line(table, parent, columns, dots):
    """Returns the relation between a table and the parent that its columns refer to."""
    required = all(column["required"] for column in table["columns"] if column["name"] in columns)
    left = "||" if required else "|o"
    right = "o|" if is_single(table, columns) else "o{"
    return f'    {parent} {left}{dots}{right} {table["name"]} : "{", ".join(columns)}"'


def picture(names, tables, files):
    """Returns the Mermaid diagram of these tables."""
    lines, relations = ["```mermaid", "erDiagram"], []
    for name in names:
        table = tables[name]
        foreign = {column: key["to"] for key in table["foreign_keys"] for column in key["columns"]}
        unique = {column for key in table["uniques"] for column in key["columns"] if not key["primary"]}
        relations += [line(table, key["to"], key["columns"], "--") for key in table["foreign_keys"]]
        lines.append(f"    {name} {{")
        for column in table["columns"]:
            other = None if column["name"] in foreign else referred(table, column, tables, files)
            if other:
                relations.append(line(table, other, [column["name"]], ".."))
            marks = [("PK", column["name"] in primary(table)), ("FK", column["name"] in foreign), ("UK", column["name"] in unique)]
            marks = ", ".join(mark for mark, holds in marks if holds)
            if marks or other or column["name"] in STATUS:
                lines.append(f"        {plain(column['type'])} {column['name']} {marks}".rstrip())
        lines.append("    }")
    return "\n".join([*lines, *relations, "```"])


def plain(type_name):
    """Returns a type as one word, as Mermaid needs it."""
    type_name = {"timestamp with time zone": "timestamptz", "double precision": "float8"}.get(type_name, type_name)
    return type_name.replace("[]", "_array").replace(" ", "_")


def page():
    tables, known = catalog(), meanings()
    files = {name: file for name, (file, _, _) in known.items()}
    if missing := set(tables) - set(known):
        raise Fault(f"no migration creates {sorted(missing)} with a plain CREATE TABLE")
    nouns = {file: file.stem.split("_", 1)[1] for file in files.values()}
    placed = {noun for _, area in AREAS for noun in area.split()}
    if homeless := set(nouns.values()) - placed:
        raise Fault(f"say in AREAS of scripts/schema.py in which picture the tables of {sorted(homeless)} are")
    parts = [HEADER]
    for heading, area in AREAS:
        inside = {name: one for name, one in known.items() if nouns[one[0]] in area.split() and (one[1] or name in tables)}
        parts.append(f"## {heading}\n")
        parts.append(picture([name for name, (_, is_view, _) in inside.items() if not is_view], tables, files) + "\n")
        rows = ["| Table | Meaning |", "|---|---|"]
        for name, (file, is_view, meaning) in inside.items():
            rows.append(f"| [`{name}`](../migrations/{file.name}){' (view)' if is_view else ''} | {meaning} |")
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    try:
        wanted = page()
    except (Fault, subprocess.CalledProcessError) as fault:
        sys.exit(f"scripts/schema.py: {fault}")
    if not check:
        PAGE.write_text(wanted)
    elif not PAGE.exists() or PAGE.read_text() != wanted:
        sys.exit("docs/schema.md is not what the migrations say; run scripts/schema.py and commit it")


if __name__ == "__main__":
    main()
