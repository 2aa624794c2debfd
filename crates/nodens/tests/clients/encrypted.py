"""Asks with dnspython over TLS, HTTPS and, if aioquic is there, QUIC, and prints what comes.

Arguments: the ports of the three and the file of the authority.
"""

import ssl
import sys

import dns.message
import dns.query
import httpx

tls, https, quic = (int(port) for port in sys.argv[1:4])
authority = sys.argv[4]
query = dns.message.make_query("a.example.", "A", use_edns=0, pad=128)
many = dns.message.make_query("many.test.", "A")


def show(what, ask):
    for message in (query, many):
        answer = ask(message)
        print(what, len(answer.answer[0]), answer.answer[0][0])


context = ssl.create_default_context(cafile=authority)
show(
    "tls",
    lambda message: dns.query.tls(
        message, "127.0.0.1", 60, tls, ssl_context=context, server_hostname="dns.example"
    ),
)
versions = []
hooks = {"response": [lambda response: versions.append(response.http_version)]}
with httpx.Client(http1=True, http2=True, verify=authority, event_hooks=hooks) as client:
    for post in (True, False):
        show(
            "https",
            lambda message: dns.query.https(
                message, f"https://127.0.0.1:{https}/dns-query", 60, post=post, session=client
            ),
        )
print(*versions)
try:
    import aioquic.quic.configuration
except ImportError:
    print("no aioquic")
else:
    show("quic", lambda message: dns.query.quic(message, "127.0.0.1", 60, quic, verify=authority))
