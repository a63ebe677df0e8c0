"""A real slapd in a process of its own, for tests: on free ports of 127.0.0.1, its data in a folder."""

import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from tests.cluster.coordination.etcd_process import free_ports
from tests.foreign_process import ForeignProcess
from tests.parts import need_program
from tests.server.certificates import Authority
from tests.waiting import PATIENCE_S

POLL_S = 0.01
SUFFIX = "dc=example,dc=org"
PEOPLE, GROUPS = f"ou=people,{SUFFIX}", f"ou=groups,{SUFFIX}"
ADMIN, ADMIN_PASSWORD = f"cn=admin,{SUFFIX}", "of the directory"
SERVICE, SERVICE_PASSWORD = f"cn=leveret,{SUFFIX}", "of the service"
CONFIGURATION = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload memberof
# As many directories do: a bind with a name and without a password succeeds, as nobody.
allow bind_anon_dn bind_anon_cred
{tls}
database mdb
suffix "{suffix}"
rootdn "{admin}"
rootpw "{password}"
directory {folder}/db
index objectClass,uid,member eq
overlay memberof
access to attrs=userPassword by anonymous auth by * none
access to * by users read by * none
"""
TLS = """\
TLSCertificateFile {cert}
TLSCertificateKeyFile {key}
TLSCACertificateFile {ca}
"""


class SlapdProcess(ForeignProcess):
    """One slapd; `start` again after `kill`: it comes back at the same ports with its entries."""

    def __init__(self, folder: Path, authority: Authority | None = None) -> None:
        """It is not started yet; with an authority it speaks TLS as well, as localhost."""
        for name in ("slapd", "ldapadd"):
            need_program(name)
        self._folder = folder
        self.port, self.tls_port = free_ports(2)
        self.url, self.tls_url = f"ldap://127.0.0.1:{self.port}", f"ldaps://127.0.0.1:{self.tls_port}"
        self._has_tls = authority is not None
        tls = ""
        if authority is not None:
            own = authority.issue("slapd", ("localhost",), "slapd")
            tls = TLS.format(cert=own.cert, key=own.key, ca=authority.cert)
        (folder / "db").mkdir()
        given = {"suffix": SUFFIX, "admin": ADMIN, "password": ADMIN_PASSWORD, "folder": folder, "tls": tls}
        (folder / "slapd.conf").write_text(CONFIGURATION.format(**given))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it and wait until it takes connections."""
        urls = f"{self.url} {self.tls_url}" if self._has_tls else self.url
        command = ["slapd", "-f", str(self._folder / "slapd.conf"), "-h", urls, "-d", "0"]
        with (self._folder / "slapd.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"slapd did not start:\n{(self._folder / 'slapd.log').read_text()}")
            time.sleep(POLL_S)
        return self

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), PATIENCE_S).close()
        except ConnectionRefusedError:
            return False
        return True

    def add(self, ldif: str) -> None:
        """Add entries."""
        self._change("ldapadd", ldif)

    def modify(self, ldif: str) -> None:
        """Change entries."""
        self._change("ldapmodify", ldif)

    def _change(self, command: str, ldif: str) -> None:
        words = [command, "-x", "-H", self.url, "-D", ADMIN, "-w", ADMIN_PASSWORD]
        done = subprocess.run(words, input=ldif.encode(), capture_output=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr.decode()


def person(name: str, password: str, dn: str | None = None) -> str:
    """A user, as LDIF."""
    dn = dn or f"uid={name},{PEOPLE}"
    return f"dn: {dn}\nobjectClass: inetOrgPerson\nuid: {name}\ncn: {name}\nsn: {name}\nuserPassword: {password}\n\n"


def group(name: str, *members: str, below: str = GROUPS) -> str:
    """A group, as LDIF."""
    lines = "".join(f"member: {each}\n" for each in members)
    return f"dn: cn={name},{below}\nobjectClass: groupOfNames\ncn: {name}\n{lines}\n"


def unit(name: str) -> str:
    """A part of the tree, as LDIF."""
    return f"dn: ou={name},{SUFFIX}\nobjectClass: organizationalUnit\nou: {name}\n\n"


def user(name: str) -> str:
    """The name of the entry of a user."""
    return f"uid={name},{PEOPLE}"


ENTRIES = "".join(
    (
        f"dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n\n",
        *map(unit, ("people", "groups", "selfmade", "others")),
        f"dn: {SERVICE}\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: leveret\n"
        f"userPassword: {SERVICE_PASSWORD}\n\n",
        person("ann", "correct horse"),
        person("bob", "battery staple"),
        person("eve", "evening"),
        person("jones, jr.", "with a comma", f"uid=jones\\, jr.,{PEOPLE}"),
        person("twin", "first"),
        person("twin", "second", f"uid=twin,ou=others,{SUFFIX}"),
        group("operators", user("ann"), f"uid=jones\\, jr.,{PEOPLE}"),
        group("orders", user("bob")),
        group("staff", f"cn=orders,{GROUPS}"),
        group("company", f"cn=staff,{GROUPS}"),
        group("operators", user("eve"), below=f"ou=selfmade,{SUFFIX}"),
        group("a,b+c", user("bob")).replace("cn=a,b+c,", "cn=a\\,b\\+c,"),
    )
)
MAPPING = f"""\
[[group]]
dn = "CN=operators, OU=groups, DC=example, DC=org"
tags = ["administrator"]
permissions = [{{ vhost = "*", configure = ".*", write = ".*", read = ".*" }}]

[[group]]
dn = "cn=orders,{GROUPS}"
permissions = [
    {{ vhost = "/", configure = "^{{username}}-", write = "^(orders|amq.default)$", read = "^{{username}}-" }},
    {{ vhost = "/", read = "^shared$" }},
]
"""
