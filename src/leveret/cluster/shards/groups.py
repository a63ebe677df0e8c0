"""The groups of a cluster: databases that have shards, and which of them has which.

    leveret_group       | id | url |                             in the catalog database; without passwords, or retired
    leveret_home        | shard | epoch | group_id | origin |    in the catalog database; no row: group 0
    leveret_group_of    | cluster | number |                     in every group: whose it is, and which one

Group 0 is the store that a cluster begins with, and the catalog database until that is moved (see
leveret.cluster.catalog.database). A shard is moved by its owner: the owner copies its log to another group, and then
changes the row here, which is the only truth about where a shard is.

The node that takes a shard over claims its row first, at its epoch, and gets the group. A move changes the row only
while it has the epoch of the mover. So a claim either comes first, and the move comes to nothing, or it comes later,
and is told the new group: there is never an owner in each. `origin` is where the tables of before the move still lie;
the next owner removes them after it has opened the new ones, and no other move begins before.

A group that has neither shards nor the catalog database can be retired. Its row stays, so that no other one gets its
number.
"""

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple, TypeVar

from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8

from leveret.cluster.catalog.database import CatalogSession, catalog_database_of, move_catalog_database
from leveret.cluster.catalog.log import CREATE as CATALOG
from leveret.core.errors import InvalidArgument, NotFound, PreconditionFailed, StoreUnreachable, TooMany
from leveret.storage.journal.postgres.session import PostgresSession, Run
from leveret.storage.journal.postgres.table import Unknown
from leveret.storage.options import is_url

TIMEOUT_MS = 10_000
URL_CHARACTERS_MAX = 2_000
GROUPS_MAX = 1_000  # nodes are told all of them, and hold them in memory
RETIRED = "retired:"  # and the number, in place of the URL
PASSWORDS = ("password", "sslpassword")
SCHEMA_LOCK = 0x6C657667
"""Of those who create the tables, or add a group, at the same time."""
LOCK = f"select pg_advisory_xact_lock({SCHEMA_LOCK})"
CREATE_MARK = (
    "create table if not exists leveret_group_of (id int primary key, cluster text not null, number int not null)"
)
CREATE = (
    "create table if not exists leveret_group (id int primary key, url text not null unique)",
    """create table if not exists leveret_home (
        shard int primary key, epoch bigint not null, group_id int not null, origin int)""",
    CREATE_MARK,
)
MARK = "insert into leveret_group_of values (0, %(cluster)s, %(number)s) on conflict (id) do nothing"
MARKED = "select cluster, number from leveret_group_of where id = 0"
CLAIM = """
    insert into leveret_home as home values (%(shard)s, %(epoch)s, 0, null)
    on conflict (shard) do update set epoch = excluded.epoch where home.epoch <= excluded.epoch
    returning group_id, origin"""
SWITCH = """
    update leveret_home set group_id = %(target)s, origin = group_id
    where shard = %(shard)s and epoch = %(epoch)s and origin is null and group_id <> %(target)s
        and not exists (select from leveret_group where id = %(target)s and starts_with(url, 'retired:'))"""
SWEPT = "update leveret_home set origin = null where shard = %(shard)s and epoch = %(epoch)s"
ALL = "select id, url from leveret_group order by id"
ADD = "insert into leveret_group values (%(id)s, %(url)s)"
HALT = "lock table leveret_home in share row exclusive mode"  # no node claims or moves a shard meanwhile
USED = "select shard from leveret_home where group_id = %(id)s or origin = %(id)s order by shard"
PLACED = "select count(*) from leveret_home where shard < %(shards)s"
PLACES = "select shard, group_id from leveret_home where shard >= %(id)s"
RETIRE = "update leveret_group set url = %(url)s where id = %(id)s"
FACTS = """
    select current_setting('server_version_num')::int / 10000, current_setting('synchronous_standby_names'),
        to_regclass(quote_ident(current_schema()) || '.leveret_group_of') is not null,
        to_regclass(quote_ident(current_schema()) || '.leveret_shard') is not null"""
HAS = "select to_regclass('leveret_home') is not null, to_regclass('leveret_shard') is not null"

Answer = TypeVar("Answer")


class ShardGroup(NamedTuple):
    """A database that has shards."""

    number: int
    url: str


class ShardLocation(NamedTuple):
    """Where a shard is, and where else tables of it lie that are not needed."""

    group: ShardGroup
    origin: ShardGroup | None


class GroupFacts(NamedTuple):
    """What a database says of itself."""

    version: int
    standbys: str
    """Those that a commit waits for; empty: none."""
    cluster: str | None
    """Whose group it is; None: no cluster's."""
    number: int
    shards: int
    """How many it has rows of."""


class ShardGroups:
    """The groups of one cluster. Every method may raise StoreUnreachable; it may have been done then, or not."""

    def __init__(self, store: str, cluster: str) -> None:
        """Those whose group 0 is a store; connections are made when they are needed."""
        self._first = ShardGroup(0, store)
        self._cluster = cluster
        self._session = CatalogSession(store, TIMEOUT_MS)
        self._created = False

    def close(self) -> None:
        self._session.end()

    def claim(self, shard: int, epoch: int) -> ShardLocation | None:
        """Where a shard is for its owner at an epoch; None: another node has claimed it at a higher one."""
        values = {"shard": Int8(shard), "epoch": Int8(epoch)}

        def claim(run: Run) -> ShardLocation | None:
            rows = run(CLAIM, values)[1]
            groups = {group.number: group for group in self._rows(run)}
            return ShardLocation(groups[rows[0][0]], groups.get(rows[0][1])) if rows else None

        return self._done(claim)

    def switch(self, shard: int, epoch: int, target: int) -> bool:
        """Let a shard be in another group, where a copy of it is; False: its owner has another epoch by now."""
        values = {"shard": Int8(shard), "epoch": Int8(epoch), "target": Int8(target)}
        return self._done(lambda run: run(SWITCH, values)[0] == 1)

    def swept(self, shard: int, epoch: int) -> None:
        self._done(lambda run: run(SWEPT, {"shard": Int8(shard), "epoch": Int8(epoch)}))

    def all(self) -> list[ShardGroup]:
        return self._done(self._all)

    def _all(self, run: Run) -> list[ShardGroup]:
        return [group for group in self._rows(run) if not group.url.startswith(RETIRED)]

    def _rows(self, run: Run) -> list[ShardGroup]:
        """All that there ever were."""
        found = [ShardGroup(*row) for row in run(ALL, {})[1]]
        return found if found and not found[0].number else [self._first, *found]

    def places(self) -> dict[int, int]:
        """The group of each shard that was ever taken over."""
        return self._done(lambda run: dict(run(PLACES, {"id": Int8(0)})[1]))

    def catalog_database(self) -> int:
        """The number of the group that has the definitions, and what is said here."""

        def catalog_database(run: Run) -> int:
            self._all(run)  # which is only there
            number: int = run(MARKED, {})[1][0][1]
            return number

        return self._done(catalog_database)

    def move_catalog_database(self, number: int) -> None:
        """Let another group have the definitions, and what is said here."""
        groups = {group.number: group for group in self.all()}
        if number not in groups:
            raise NotFound(f"there is no group {number}: see `leveret cluster status`, or add it")
        if number == self.catalog_database():
            raise PreconditionFailed(f"group {number} has the definitions already")
        first = groups.get(0, ShardGroup(0, f"{RETIRED}0")).url
        if 0 in groups:
            check_url(first)  # so that it can be recorded
        _check_free(facts_of(groups[number].url), self._cluster, number)
        try:
            lock, *creates = CATALOG
            move_catalog_database(self._session, groups[number].url, first, (lock, LOCK), (*creates, *CREATE))
        except Unknown as unknown:
            raise StoreUnreachable(
                f"PostgreSQL does not answer: {unknown}; see `leveret cluster status`, then try again"
            ) from unknown

    def add(self, url: str) -> ShardGroup:
        """Record a group, and mark its database as one; once more is no error."""
        check_url(url)
        facts = facts_of(url)

        def add(run: Run) -> ShardGroup:
            run(LOCK, None)
            known = self._rows(run)
            found = next((group for group in known if group.number and group.url == url), None)
            _check_free(facts, self._cluster, -1 if found is None else found.number)
            if found is None:
                if len(known) >= GROUPS_MAX:
                    raise TooMany(f"a cluster has at most {GROUPS_MAX} groups")
                found = ShardGroup(known[-1].number + 1, url)
                run(ADD, {"id": Int8(found.number), "url": url})
            return found

        group = self._done(add)
        mark(group.url, self._cluster, group.number)
        return group

    def retire(self, number: int, shards: int) -> None:
        """Take a group off the list, if nothing is in it; the cluster has so many shards."""

        def retire(run: Run) -> None:
            run(LOCK, None)
            run(HALT, None)
            if number not in {group.number for group in self._all(run)}:
                raise NotFound(f"there is no group {number}: see `leveret cluster status`")
            if run(MARKED, {"id": Int8(0)})[1][0][1] == number:
                raise PreconditionFailed(f"group {number} has the definitions: `leveret cluster move-catalog` first")
            used = [str(row[0]) for row in run(USED, {"id": Int8(number)})[1]]
            if used:
                raise PreconditionFailed(
                    f"group {number} has tables of shards {', '.join(used)}: `leveret cluster move-shard` for each of "
                    "them first; what one leaves is removed a moment after it has moved"
                )
            if number == 0 and run(PLACED, {"shards": Int8(shards)})[1][0][0] < shards:
                raise PreconditionFailed("some shards were never taken over, and are in group 0: wait for their owners")
            run(RETIRE, {"id": Int8(number), "url": f"{RETIRED}{number}"})

        self._done(retire)

    def _done(self, work: Callable[[Run], Answer]) -> Answer:
        """Do something in one transaction, and first of all create the tables."""
        try:
            if not self._created:
                self._session.prepare((LOCK, *CREATE))
                self._session.run(MARK, {"cluster": self._cluster, "number": Int8(0)})
                self._created = True
            return self._session.transact(work)
        except Unknown as unknown:
            raise StoreUnreachable(f"group 0 in PostgreSQL does not answer: {unknown}; try again later") from unknown


def shards_of(store: str) -> dict[int, str]:
    """The URL of the database that has each shard, for those who only read; one broker alone has one shard."""
    try:
        own, locations = _own_shards(store), _locations(store, catalog_database_of(store, TIMEOUT_MS))
    except Unknown as unknown:
        raise StoreUnreachable(f"PostgreSQL does not answer: {unknown}; try again later") from unknown
    facts = facts_of(store)
    if not locations and facts.number:
        raise PreconditionFailed(
            f"the store is group {facts.number} of the cluster '{facts.cluster}', which knows nothing of the others: "
            "give the store that the nodes are started with"
        )
    if not own and not locations:
        raise NotFound("the database has no journal of a broker: give the store that the servers are started with")
    return own | locations


def _own_shards(store: str) -> dict[int, str]:
    """The shards in one database."""
    with closing(PostgresSession(store, TIMEOUT_MS)) as session:
        has_shards = session.run(HAS)[1][0][1]
        numbers = session.run("select id from leveret_shard order by id")[1] if has_shards else []
        return {number: store for (number,) in numbers}


def _locations(store: str, catalog_database: str) -> dict[int, str]:
    """What the catalog database of a cluster says of its shards; group 0 is at `store` unless it says otherwise."""
    with closing(PostgresSession(catalog_database, TIMEOUT_MS)) as session:
        if not session.run(HAS)[1][0][0]:
            return {}
        urls: dict[int, str] = {0: store, **dict(session.run(ALL, {})[1])}
        return {shard: urls[group] for shard, group in session.run("select shard, group_id from leveret_home")[1]}


def check_url(url: str) -> None:
    """Refuse what is not to be recorded: every user who may look at the cluster sees it."""
    if not is_url(url) or len(url) > URL_CHARACTERS_MAX:
        raise InvalidArgument(
            f"a group is a URL such as postgresql://user@host/database, of {URL_CHARACTERS_MAX} characters at most"
        )
    PostgresSession(url, TIMEOUT_MS)  # raises for what cannot be read
    if any(conninfo_to_dict(url).get(name) for name in PASSWORDS):
        raise InvalidArgument("the URL of a group has no password: give it to every node by PGPASSFILE or PGPASSWORD")


def facts_of(url: str) -> GroupFacts:
    """Ask a database what it is; StoreUnreachable: it cannot be reached from here."""
    session = PostgresSession(url, TIMEOUT_MS)
    try:
        version, standbys, marked, has_shards = session.run(FACTS)[1][0]
        marks = session.run(MARKED, {})[1] if marked else []
        shards = session.run("select count(*) from leveret_shard")[1][0][0] if has_shards else 0
        cluster, number = marks[0] if marks else (None, 0)
        return GroupFacts(version, standbys, cluster, number, shards)
    except Unknown as unknown:
        raise StoreUnreachable(f"the database of the group cannot be reached: {unknown}") from unknown
    finally:
        session.close()


def check_store(url: str, cluster: str) -> None:
    """Refuse a store that is not a cluster's: definitions of others would be removed, with the messages in them."""
    facts = facts_of(url)
    if facts.cluster is None and facts.shards:
        raise InvalidArgument("the store has the messages of a server that is no node: give one that is empty")
    if facts.cluster not in (None, cluster):
        raise InvalidArgument(f"the store belongs to the cluster '{facts.cluster}': give another one, or that name")


def mark(url: str, cluster: str, number: int) -> None:
    """Let a database know which group it is."""
    session = PostgresSession(url, TIMEOUT_MS)
    try:
        session.transact(lambda run: [run(each, None) for each in (LOCK, CREATE_MARK)])
        session.run(MARK, {"cluster": cluster, "number": Int8(number)})
        marked = session.run(MARKED, {})[1][0]
    except Unknown as unknown:
        raise StoreUnreachable(f"the database of the group was not marked: {unknown}; try again") from unknown
    finally:
        session.close()
    if marked != (cluster, number):
        raise PreconditionFailed(f"the database has become group {marked[1]} of '{marked[0]}' meanwhile")


def _check_free(facts: GroupFacts, cluster: str, number: int) -> None:
    """Refuse a database with messages of another owner, or that is another group of this cluster."""
    if facts.cluster is None and facts.shards:
        raise PreconditionFailed("the database has the messages of a broker: give one that is empty")
    if facts.cluster is not None and (facts.cluster, facts.number) != (cluster, number):
        raise PreconditionFailed(f"the database is group {facts.number} of the cluster '{facts.cluster}' already")
