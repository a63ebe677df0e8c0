"""Groups of a directory as tags and permissions: which groups match, what is allowed, and files that cannot be used."""

import json
from pathlib import Path

import pytest

from leveret.core.errors import AccessRefused, InvalidArgument
from leveret.security.distinguished_names import Parts, escaped, parsed
from leveret.security.identity import Identity
from leveret.security.ldap import backend
from leveret.security.ldap.backend import GroupMapping, NoGroup
from leveret.security.permissions import Access, Permissions, Resource

BASE = parsed("ou=groups,dc=example,dc=org")
NOBODY = Permissions()


def mapped(tmp_path: Path, text: str, *groups: str, user: str = "ann", base: Parts | None = BASE) -> Identity:
    path = tmp_path / "groups.toml"
    path.write_text(text)
    return GroupMapping.read(str(path)).identity(user, frozenset(map(parsed, groups)), base)


def may(who: Identity, access: Access, name: str, vhost: str = "/") -> bool:
    try:
        who.check(NOBODY, vhost, Resource("queue", name), access)
    except AccessRefused:
        return False
    return True


OPS = '[[group]]\ndn = "cn=ops,ou=groups,dc=example,dc=org"\ntags = ["monitoring"]\n'
NAMED = '[[group]]\nname = "Ops"\ntags = ["management"]\n'


@pytest.mark.parametrize(
    "dn",
    [
        "cn=ops,ou=groups,dc=example,dc=org",
        "CN=OPS, OU=Groups , DC=Example,dc=org",
        "cn=\\6fps,ou=groups,dc=example,dc=org",
    ],
)
def test_a_name_is_the_same_however_it_is_written(tmp_path: Path, dn: str) -> None:
    assert mapped(tmp_path, OPS, dn).tags == {"monitoring"}


@pytest.mark.parametrize(
    "dn",
    [
        "cn=ops,ou=groups,dc=example",
        "cn=ops,ou=teams,ou=groups,dc=example,dc=org",
        "cn=ops\\,ou=groups,dc=example,dc=org",
        "cn=ops\\,ou\\=groups,dc=example,dc=org",
        "uid=ops,ou=groups,dc=example,dc=org",
        "cn=ops+uid=x,ou=groups,dc=example,dc=org",
    ],
)
def test_other_names_are_others(tmp_path: Path, dn: str) -> None:
    with pytest.raises(NoGroup, match="user 'ann' is in no group"):
        mapped(tmp_path, OPS, dn)


def test_a_short_name_counts_below_the_base_only(tmp_path: Path) -> None:
    assert mapped(tmp_path, NAMED, "cn=ops,ou=groups,dc=example,dc=org").tags == {"management"}
    assert mapped(tmp_path, NAMED, "cn=ops,ou=teams,ou=groups,dc=example,dc=org").tags == {"management"}
    for other in ("cn=ops,ou=selfmade,dc=example,dc=org", "cn=ops", "cn=ops+uid=x,ou=groups,dc=example,dc=org"):
        with pytest.raises(NoGroup):
            mapped(tmp_path, NAMED, other)
    with pytest.raises(NoGroup):
        mapped(tmp_path, NAMED, "cn=ops,ou=groups,dc=example,dc=org", base=None)


def test_everybody_has_the_group_with_a_star(tmp_path: Path) -> None:
    who = mapped(tmp_path, '[[group]]\nname = "*"\npermissions = [{ vhost = "/", read = "^public$" }]\n')
    assert may(who, "read", "public")
    assert not may(who, "read", "private")


def test_a_user_has_what_all_of_its_groups_have(tmp_path: Path) -> None:
    text = OPS + 'permissions = [{ vhost = "/", write = "^a$" }, { vhost = "shop", configure = ".*" }]\n' + NAMED
    text += 'permissions = [{ vhost = "/", write = "^b$" }, { vhost = "/", write = "^a$" }]\n'
    who = mapped(tmp_path, text, "cn=ops,ou=groups,dc=example,dc=org")
    assert who.tags == {"monitoring", "management"}
    assert len(who.permissions) == 3
    assert [may(who, "write", name) for name in ("a", "b", "c")] == [True, True, False]
    assert not may(who, "read", "a")
    assert may(who, "configure", "x", "shop")
    assert not may(who, "configure", "x", "other")
    assert (who.may_enter(NOBODY, "shop"), who.may_enter(NOBODY, "other")) == (True, False)
    assert (who.may_configure_in(NOBODY, "shop"), who.may_configure_in(NOBODY, "/")) == (True, False)
    who.check_topic(NOBODY, "/", "amq.topic", "any.key", "write")
    with pytest.raises(AccessRefused):
        who.check_topic(NOBODY, "other", "amq.topic", "any.key", "write")


def test_every_virtual_host(tmp_path: Path) -> None:
    who = mapped(tmp_path, OPS + 'permissions = [{ vhost = "*", read = ".*" }]\n', "cn=ops,ou=groups,dc=example,dc=org")
    assert may(who, "read", "x", "whatever")
    assert who.may_enter(NOBODY, "whatever")


def test_the_name_of_a_user_in_a_pattern_is_no_pattern(tmp_path: Path) -> None:
    text = '[[group]]\nname = "*"\npermissions = [{ vhost = "/", read = "^{username}-" }]\n'
    assert may(mapped(tmp_path, text, user="ann"), "read", "ann-1")
    wild = mapped(tmp_path, text, user=".*")
    assert may(wild, "read", ".*-1")
    assert not may(wild, "read", "ann-1")


def test_nodes_forward_what_groups_allow(tmp_path: Path) -> None:
    text = OPS + 'permissions = [{ vhost = "/", write = "^a$" }]\n'
    who = mapped(tmp_path, text, "cn=ops,ou=groups,dc=example,dc=org")
    again = Identity.from_list(json.loads(json.dumps(who.to_list())))
    assert again == who
    assert may(again, "write", "a")
    assert not may(again, "write", "b")


def test_json_is_taken_too(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    path.write_text(json.dumps({"group": [{"name": "*", "tags": ["management"]}]}))
    assert GroupMapping.read(str(path)).identity("ann", [], None).tags == {"management"}


GROUP = '[[group]]\nname = "x"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a list of tables called group"),
        ("group = 1", "a list of tables called group"),
        ("group = []", "a list of tables called group"),
        (GROUP + "[other]\n", "and nothing else"),
        ("[[group]]\ntags = []\n", "group 1: a group has dn or name"),
        (GROUP + 'dn = "cn=x"\n', "group 1: a group has dn or name"),
        (GROUP + GROUP + "member = 1\n", "group 2: a group has dn or name"),
        ("[[group]]\nname = 1\n", "its dn or name is text"),
        ('[[group]]\nname = " "\n', "its dn or name is text"),
        ('[[group]]\ndn = "ops"\n', "is no distinguished name"),
        (GROUP + 'tags = ["root"]\n', "the tags are .*, not root"),
        (GROUP + "tags = [1]\n", "a list of names"),
        (GROUP + "permissions = 1\n", "permissions are a list"),
        (GROUP + "permissions = [1]\n", "a permission has vhost"),
        (GROUP + 'permissions = [{ read = ".*" }]\n', "a permission has vhost"),
        (GROUP + 'permissions = [{ vhost = "/", reed = ".*" }]\n', "a permission has vhost"),
        (GROUP + 'permissions = [{ vhost = "/", read = 1 }]\n', "texts only"),
        (GROUP + 'permissions = [{ vhost = "/", read = "(" }]\n', "regular expression"),
        ("[[group]", "cannot be used"),
        ("\udcff", "cannot be used"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "groups.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidArgument, match=why):
        GroupMapping.read(str(path))


def test_files_that_are_too_large_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "groups.toml"
    with pytest.raises(InvalidArgument, match="No such file"):
        GroupMapping.read(str(path))
    path.write_text(GROUP * 3)
    monkeypatch.setattr(backend, "GROUPS_MAX", 2)
    with pytest.raises(InvalidArgument, match="it has 3 groups, the limit is 2"):
        GroupMapping.read(str(path))
    monkeypatch.setattr(backend, "FILE_BYTES_MAX", 10)
    with pytest.raises(InvalidArgument, match="is over 10 bytes"):
        GroupMapping.read(str(path))


def test_a_user_with_too_many_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ", ".join(f'{{ vhost = "/", read = "^{number}$" }}' for number in range(3))
    text = f'[[group]]\nname = "*"\npermissions = [{rows}]\n'
    mapped(tmp_path, text)
    monkeypatch.setattr(backend, "PERMISSIONS_MAX", 2)
    with pytest.raises(InvalidArgument, match="permissions are a list of at most 2"):
        mapped(tmp_path, text)


@pytest.mark.parametrize("text", ["", "ops", "cn", "=x", "cn=a,", "cn=a,,dc=b", "cn=a\\", "cn=a+", ",cn=a"])
def test_what_is_no_distinguished_name(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is no distinguished name"):
        parsed(text)


@pytest.mark.parametrize("value", ["ann", "a,b", "a+b", " a ", "#a", 'a"<>;=\\', "a\0b", "ä", "", "a  b"])
def test_an_escaped_value_is_one_value(value: str) -> None:
    ((pair,), *others) = parsed(f"uid={escaped(value)},dc=org")
    assert pair == ("uid", " ".join(value.split()))
    assert others == [frozenset({("dc", "org")})]
