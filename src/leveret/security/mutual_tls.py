"""TLS between equals: each shows a certificate of one authority, and whoever calls checks the name that he called."""

from leveret.security.client_tls import ClientTls
from leveret.security.tls import Certificates, read


class MutualTls:
    """Both sides of one peer."""

    def __init__(self, cert: str, key: str, authority: str) -> None:
        """Read the files, in PEM; raises BadCertificate for what cannot be used."""
        self._cert, self._key = cert, key
        self._accepting = Certificates(cert, key, authority, verify_client=True)
        self.accepting = self._accepting.context()
        self._calling = ClientTls(authority, cert, key)
        self.calling = self._calling.context

    def reload(self) -> None:
        """Show the certificate that the files have now, from the next handshake on; a bad one changes nothing.

        Whom to trust stays as it was.
        """
        self._accepting.context()
        read(lambda: self.accepting.load_cert_chain(self._cert, self._key), f"the certificate {self._cert}")
        self._calling.reload()
