"""TLS between equals: each shows a certificate of one authority, and whoever calls checks the name that he called."""

import ssl

from leveret.security.tls import Certificates, read


class MutualTls:
    """Both sides of one peer."""

    def __init__(self, cert: str, key: str, authority: str) -> None:
        """Read the files, in PEM; raises BadCertificate for what cannot be used."""
        self._cert, self._key = cert, key
        self._accepting = Certificates(cert, key, authority, verify_client=True)
        self.accepting = self._accepting.context()
        self.calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.calling.minimum_version = ssl.TLSVersion.TLSv1_2
        self.calling.load_verify_locations(authority)
        self._load(self.calling)

    def reload(self) -> None:
        """Show the certificate that the files have now, from the next handshake on; a bad one changes nothing.

        Whom to trust stays as it was.
        """
        self._accepting.context()
        for context in (self.accepting, self.calling):
            self._load(context)

    def _load(self, context: ssl.SSLContext) -> None:
        read(lambda: context.load_cert_chain(self._cert, self._key), f"the certificate {self._cert}")
