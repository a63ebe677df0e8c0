"""TLS towards a server: whom to trust, and the certificate to show if it asks for one."""

import ssl

from leveret.security.tls import read


class ClientTls:
    """The side that calls."""

    def __init__(self, authority: str | None, cert: str | None = None, key: str | None = None) -> None:
        """Read the files, in PEM; without an authority those of the machine count. Raises BadCertificate."""
        self._cert, self._key = cert, key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        if authority is None:
            self.context.load_default_certs()
        else:
            read(lambda: self.context.load_verify_locations(authority), f"the certificates of {authority}")
        self.reload()

    def reload(self) -> None:
        """Show the certificate that the files have now, from the next handshake on; a bad one changes nothing."""
        cert = self._cert
        if cert is not None:
            read(lambda: self.context.load_cert_chain(cert, self._key), f"the certificate {cert}")
