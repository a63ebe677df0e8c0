"""Archives of the layout before Iceberg, which had a list of their own and a folder for each queue, become tables.

    archive/manifest-00000000000000000007.json      the highest number counts
    archive/events/generation=7/date=2026-01-31/folder=orders/part-00000-...parquet

No row is written anew: the tables take the files as they are, whose columns are found by name. Compaction puts the
small ones together afterwards. The old list goes last, so a conversion that was killed is simply done again.
"""

import json
import os
from glob import escape, glob

from pyiceberg.table.name_mapping import create_mapping_from_schema

from leveret.core.errors import DamagedJournal, UnknownFormat
from leveret.spark.archive_state import ARCHIVED, REMEDY, parsed
from leveret.spark.iceberg import IcebergArchive
from leveret.spark.scan import ARCHIVED_TABLES

FORMAT = 2
NAME_MAPPING = "schema.name-mapping.default"


def converted(tables: IcebergArchive) -> None:
    """Turn an archive of the former layout into tables, if it is one."""
    lists = sorted(glob(f"{escape(tables.files.root)}/manifest-*.json"))
    if not lists:
        return
    try:
        with open(lists[-1], "rb") as file:
            facts = json.loads(file.read())
        if facts["format"] != FORMAT:
            raise UnknownFormat(f"{lists[-1]} has format {facts['format']}, this version converts {FORMAT}")
        state = parsed(facts, facts["names"])
        paths = {name: [file["path"] for file in facts["files"] if file["table"] == name] for name in ARCHIVED}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedJournal(f"{lists[-1]} is damaged: {REMEDY}") from error
    for name in ARCHIVED:
        table = tables.made(name, ARCHIVED_TABLES[name])
        if NAME_MAPPING not in table.properties:
            with table.transaction() as change:
                change.set_properties({NAME_MAPPING: create_mapping_from_schema(table.schema()).model_dump_json()})
        there = {task.file.file_path for task in table.scan().plan_files()}
        if not there:
            tables.commit(table, tables.described(table, paths[name]), state=state)
    for path in lists:
        os.unlink(path)
