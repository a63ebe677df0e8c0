#!/bin/sh
# Makes an authority, and certificates that it signs, each valid for servers and for clients:
#
#   certificates.sh AUTHORITY DIRECTORY NAME[:HOST,HOST...][@OWNER]...
#
# AUTHORITY  directory of the authority (ca.crt, ca.key); made if it is not there. Who reads ca.key can be any node: keep
#            it away from nodes.
# DIRECTORY  gets NAME/tls.crt, NAME/tls.key and NAME/ca.crt for each certificate.
# HOST       names and addresses that the certificate is valid for; NAME if there are none. OpenSSL takes a wildcard only
#            if two names or more follow: *.leveret-nodes.leveret.svc, but not *.leveret-nodes.
# OWNER      user or number that may read the key; needs root.
#
# A certificate of the same hosts that is valid for more than RENEW_DAYS (30) is kept, so that this can be run again; new
# ones are valid for DAYS (365), the authority for 3650. Nodes read a new certificate at SIGHUP.
set -eu
umask 077

[ $# -ge 3 ] || { sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2; }
authority=$1 directory=$2
shift 2
days=${DAYS:-365} renew_days=${RENEW_DAYS:-30}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$authority" "$directory"
chmod 755 "$directory"

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }; }

if [ ! -f "$authority/ca.crt" ]; then
    cat >"$work/ca.cnf" <<END
[req]
distinguished_name = name
x509_extensions = authority
prompt = no
[name]
CN = Authority of Leveret's nodes
[authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
END
    key "$authority/ca.key"
    openssl req -x509 -new -key "$authority/ca.key" -sha256 -days 3650 -config "$work/ca.cnf" -out "$work/ca.crt"
    mv "$work/ca.crt" "$authority/ca.crt"
fi

hosts() { # the subjectAltName of names that commas separate
    printf '%s\n' "$1" | tr , '\n' | while read -r host; do
        case $host in
        *:*) echo "IP:$host" ;;
        *[!0-9.]*) echo "DNS:$host" ;;
        *) echo "IP:$host" ;;
        esac
    done | paste -s -d , -
}

for wanted in "$@"; do
    owner=${wanted##*@} rest=${wanted%@*}
    [ "$owner" != "$wanted" ] || owner=
    name=${rest%%:*}
    case $rest in *:*) names=${rest#*:} ;; *) names=$name ;; esac
    made=$directory/$name
    if [ "$(cat "$authority/$name.hosts" 2>/dev/null)" = "$names" ] &&
        openssl x509 -in "$made/tls.crt" -noout -checkend $((renew_days * 86400)) >/dev/null 2>&1 &&
        openssl verify -CAfile "$authority/ca.crt" "$made/tls.crt" >/dev/null 2>&1; then
        continue
    fi
    cat >"$work/leaf.cnf" <<END
[req]
distinguished_name = name
[name]
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = critical, $(hosts "$names")
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
END
    mkdir -p "$made"
    key "$work/tls.key"
    openssl req -new -key "$work/tls.key" -subj / -config "$work/leaf.cnf" -out "$work/request"
    openssl x509 -req -in "$work/request" -CA "$authority/ca.crt" -CAkey "$authority/ca.key" -sha256 -days "$days" \
        -set_serial "0x$(openssl rand -hex 16)" -extfile "$work/leaf.cnf" -extensions leaf -out "$work/tls.crt" 2>"$work/log" ||
        { cat "$work/log" >&2; exit 1; }
    cp "$authority/ca.crt" "$work/ca.leaf"
    mv "$work/ca.leaf" "$made/ca.crt"
    mv "$work/tls.key" "$made/tls.key"
    mv "$work/tls.crt" "$made/tls.crt"
    echo "$names" >"$authority/$name.hosts"
    chmod 644 "$made/tls.crt" "$made/ca.crt"
    [ -z "$owner" ] || chown -R "$owner" "$made"
    echo "$made: $names"
done
