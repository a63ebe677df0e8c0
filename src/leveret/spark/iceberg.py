"""The tables of an archive as Apache Iceberg tables: their catalog is the directory or the object store itself.

    archive/events/metadata/v7.metadata.json     the highest number counts; version-hint.text says it to other readers
    archive/events/metadata/*.avro               which files are in which snapshot
    archive/events/data/at_day=2026-01-31/*.parquet
    archive/messages/..., archive/records/...    those of streams
    archive/names/*.json                         names of queues and consumers, for segments to come

A commit creates the metadata of the next version, which succeeds for one writer only; a job that was killed before has
changed nothing. Files that no snapshot has are swept a day later, as are snapshots: a reader may still be at them.
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyiceberg import expressions
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, ValidationError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import assign_fresh_schema_ids
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.transforms import DayTransform, IdentityTransform

from leveret.core.errors import DamagedJournal, NotFound, PreconditionFailed
from leveret.spark.archive_files import ArchiveFiles, archive_files
from leveret.spark.archive_state import ARCHIVED, NAMES, NOTES, PROPERTY, REMEDY, ArchiveState, names_file, state_of
from leveret.spark.columns import NAME_COLUMNS, NUMBER_COLUMNS, TIME_COLUMNS
from leveret.spark.columns import Table as Columns

SNAPSHOT_MS = 86_400_000
"""For so long a reader may be at what is replaced, and a job at what it has not committed."""
_VERSION = re.compile(r"metadata/v(\d+)\.metadata\.json$")
_HINT = "version-hint.text"
_SETTINGS = {
    # A job that finds that another one was faster begins anew: it may have taken in the same segments.
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    # Statistics are for what queries look for: the beginnings of bodies stay out of them.
    "write.metadata.metrics.default": "counts",
    "write.format.default": "parquet",
}


class IcebergFiles(FileIO):
    """The files of an archive as pyiceberg wants them: by their whole location."""

    def __init__(self, files: ArchiveFiles) -> None:
        super().__init__()
        self.files = files
        self.base = files.root if "://" in files.root else f"file://{files.root}"

    def name(self, location: str) -> str:
        """The name of a file in this archive."""
        if not location.startswith(f"{self.base}/"):
            raise NotFound(
                f"{location} is not below {self.base}: tables of Iceberg name their files by whole paths, so move the "
                "archive back to where it was written"
            )
        return location[len(self.base) + 1 :]

    def new_input(self, location: str) -> "IcebergFile":
        return IcebergFile(self, location)

    def new_output(self, location: str) -> "IcebergFile":
        return IcebergFile(self, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.files.delete(self.name(location if isinstance(location, str) else location.location))


class IcebergFile(InputFile, OutputFile):
    """One file, to be read or to be written."""

    def __init__(self, files: IcebergFiles, location: str) -> None:
        super().__init__(location)
        self._files = files.files
        self._name = files.name(location)

    def __len__(self) -> int:
        with self.open() as file:
            return file.seek(0, io.SEEK_END)

    def exists(self) -> bool:
        try:
            self.open().close()
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:
        return self._files.open(self._name)

    def to_input_file(self) -> InputFile:
        return self

    def create(self, overwrite: bool = False) -> OutputStream:
        return UploadedFile(lambda data: (self._files.replace if overwrite else self._files.create)(self._name, data))


class UploadedFile(io.BytesIO):
    """A file that is written when it is closed."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        super().__init__()
        self._write = write

    def close(self) -> None:
        if not self.closed:
            self._write(self.getvalue())
        super().close()


class DirectoryCatalog(NoopCatalog):
    """A catalog without a server: a table is what the folder of its name has."""

    def __init__(self, root: str) -> None:
        super().__init__("leveret")
        self.io = IcebergFiles(archive_files(root))

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        name = self.identifier_to_tuple(identifier)[-1]
        found = [
            int(match[1]) for file in self.io.files.listed(f"{name}/metadata") if (match := _VERSION.search(file.name))
        ]
        if not found:
            raise NotFound(f"{self.io.files.root} is no archive: `leveret pipeline archive` makes one")
        location = f"{self.io.base}/{name}/metadata/v{max(found)}.metadata.json"
        try:
            metadata = FromInputFile.table_metadata(self.io.new_input(location))
        except (ValueError, ValidationError) as error:
            raise DamagedJournal(f"{location} is damaged ({str(error).partition(chr(10))[0]}): {REMEDY}") from error
        return Table((name,), metadata, location, self.io, self)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        name, location = table.name(), table.metadata_location
        if self.load_table(name).metadata_location != location:
            raise CommitFailedException(f"{location} is not the newest any more")
        for requirement in requirements:
            requirement.validate(table.metadata)
        metadata = update_table_metadata(table.metadata, updates, metadata_location=location)
        facts = {"metadata": metadata, "metadata_location": self.write(name[-1], version_of(table) + 1, metadata)}
        return CommitTableResponse.model_validate(facts)

    def write(self, name: str, version: int, metadata: TableMetadata) -> str:
        """Make a version of a table the newest one, unless another writer has done so."""
        file = f"{name}/metadata/v{version}.metadata.json"
        try:
            self.io.files.create(file, metadata.model_dump_json().encode())
        except FileExistsError as error:
            raise CommitFailedException(f"{file} is there") from error
        self.io.files.replace(f"{name}/metadata/{_HINT}", str(version).encode())
        return f"{self.io.base}/{file}"


def version_of(table: Table) -> int:
    """The number of the newest commit of a table."""
    match = _VERSION.search(table.metadata_location)
    assert match is not None, "the catalog named it"
    return int(match[1])


class IcebergArchive:
    """The tables of one archive."""

    def __init__(self, root: str) -> None:
        self.catalog = DirectoryCatalog(root)
        self.files = self.catalog.io.files

    def table(self, name: str) -> Table:
        """A table as it is now."""
        return self.catalog.load_table((name,))

    def state(self, name: str) -> ArchiveState:
        """How far a table is."""
        return state_of(self.table(name).properties, self.files)

    def made(self, name: str, columns: Columns) -> Table:
        """A table that has these columns at least: made if it is missing, widened if it is of an older version."""
        wanted = pa.schema([(column, told.arrow) for column, told in columns.items()])
        try:
            table = self.table(name)
        except NotFound:
            self.catalog.write(name, 1, self._new(name, wanted))
            return self.table(name)
        if set(wanted.names) - set(table.schema().column_names):
            with table.update_schema() as update:
                update.union_by_name(wanted)
        return table

    def _new(self, name: str, wanted: pa.Schema) -> TableMetadata:
        """A table that nothing is in yet: by day, and in it by queue and time."""
        schema = assign_fresh_schema_ids(Catalog._convert_schema_if_needed(wanted))
        time, queue, number = TIME_COLUMNS[name], NAME_COLUMNS[name], NUMBER_COLUMNS[name]
        ids = {column: schema.find_field(column).field_id for column in (time, queue, number)}
        full = {f"write.metadata.metrics.column.{column}": "full" for column in ids}
        return new_table_metadata(
            schema,
            PartitionSpec(PartitionField(ids[time], 1000, DayTransform(), f"{time}_day")),
            SortOrder(*(SortField(ids[column], IdentityTransform()) for column in (queue, time, number))),
            f"{self.catalog.io.base}/{name}",
            {**_SETTINGS, **full},
        )

    def schema(self, name: str) -> pa.Schema:
        """The columns of a table as its files have them, each with its number."""
        return schema_to_pyarrow(self.table(name).schema())

    def described(self, table: Table, names: Iterable[str]) -> list[DataFile]:
        """Files as the driver sees them, by what their ends say."""
        return [parquet_file_to_data_file(table.io, table.metadata, f"{self.catalog.io.base}/{name}") for name in names]

    def commit(
        self,
        table: Table,
        added: Sequence[DataFile] = (),
        removed: Sequence[DataFile] = (),
        state: ArchiveState | None = None,
    ) -> Table:
        """Add and remove files, and say how far the table is now: all of it, or nothing."""
        try:
            with table.transaction() as change:
                if state is not None:
                    change.set_properties({PROPERTY: state.as_property(self.files)})
                if removed:
                    with change.update_snapshot().overwrite() as overwrite:
                        for file in removed:
                            overwrite.delete_data_file(file)
                        for file in added:
                            overwrite.append_data_file(file)
                elif added:
                    with change.update_snapshot().merge_append() as append:
                        for file in added:
                            append.append_data_file(file)
        except CommitFailedException:
            raise PreconditionFailed(
                f"{table.metadata_location}: another job changed the table meanwhile; this one did not, run it again"
            ) from None
        return table

    def count(self) -> int:
        """All files that count."""
        snapshots = (self.table(name).current_snapshot() for name in ARCHIVED)
        return sum(int(each.summary["total-data-files"] or 0) for each in snapshots if each and each.summary)

    def expire(self, now_ms: int) -> None:
        """Forget snapshots that no reader is at any more, and remove the files that no snapshot has."""
        before, kept = now_ms - SNAPSHOT_MS, set()
        for name in ARCHIVED:
            table = self.table(name)
            old = [each.snapshot_id for each in table.snapshots() if each.timestamp_ms < before]
            if expired := [each for each in old if each != table.metadata.current_snapshot_id]:
                table.maintenance.expire_snapshots().by_ids(expired).commit()
            kept |= set(map(self.catalog.io.name, _files_of(table)))
            kept |= {f"{name}/metadata/{_HINT}", names_file(table.properties)}
        for folder in (*ARCHIVED, NAMES, NOTES):
            for file in list(self.files.listed(folder)):
                if file.name not in kept and file.modified_ms < before:
                    self.files.delete(file.name)


def _files_of(table: Table) -> Iterator[str]:
    """All that any snapshot of a table needs, and what tells of the table."""
    yield table.metadata_location
    yield from (entry.metadata_file for entry in table.metadata.metadata_log)
    seen = set()
    for snapshot in table.snapshots():
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield manifest.manifest_path
                yield from (entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))


def matching(
    name: str, queues: frozenset[str] | None, since_ms: int | None, until_ms: int | None
) -> expressions.BooleanExpression:
    """A condition on queues, besides what is of none, and time."""
    said: Any = expressions  # whose types only the plugin of pydantic tells
    column = NAME_COLUMNS[name]
    found: list[expressions.BooleanExpression] = []
    if queues is not None:
        found.append(said.Or(said.In(column, queues), said.IsNull(column)))
    if since_ms is not None:
        found.append(said.GreaterThanOrEqual(TIME_COLUMNS[name], _text(since_ms)))
    if until_ms is not None:
        found.append(said.LessThan(TIME_COLUMNS[name], _text(until_ms)))
    always = expressions.AlwaysTrue()
    return expressions.And(always, always, *found)


def _text(ms: int) -> str:
    """A time in a condition."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()
