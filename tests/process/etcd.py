"""etcd of this machine, started by a test on loopback with its data in the lab."""
import base64
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import urllib.error
import urllib.request

from lab import Skipped
from programs import Programs, wait_until

# etcd keeps its promises by fsync, which takes long on a busy machine: elections of several must not time out over that. Who is
# alone elects himself, after that time; and no lease is shorter than one and a half of it.
PATIENT = ("--heartbeat-interval", "500", "--election-timeout", "5000")


def free_ports(count):
    """Ports of loopback that nobody has at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def b64(text):
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


class Tls:
    """Certificates made by openssl: an authority, a server, a client; and another authority that nobody knows."""

    def __init__(self, lab):
        self.lab = lab
        if not shutil.which("openssl"):
            raise Skipped("openssl is not installed")
        for authority in ("ca", "stranger"):
            self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                         "-subj", f"/CN={authority}", "-keyout", self.path(authority, "key"), "-out", self.path(authority))
        self.issue("server", "ca", "IP:127.0.0.1,DNS:localhost")
        self.issue("elsewhere", "ca", "DNS:elsewhere.example")
        self.issue("client", "ca", "DNS:client")
        self.issue("intruder", "stranger", "DNS:client")

    def path(self, name, kind="crt"):
        return os.path.join(self.lab.directory, f"{name}.{kind}")

    def openssl(self, *arguments):
        done = self.lab.run("openssl", ["openssl", *arguments])
        assert done.wait() == 0, done.complained()

    def issue(self, name, authority, names):
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                     "-addext", f"subjectAltName={names}", "-keyout", self.path(name, "key"), "-out", self.path(name, "csr"))
        self.openssl("x509", "-req", "-in", self.path(name, "csr"), "-CA", self.path(authority), "-CAkey",
                     self.path(authority, "key"), "-CAcreateserial", "-days", "2", "-copy_extensions", "copy", "-out", self.path(name))


class Etcd:
    """One server. start() and start() again after kill() go on with the same data. within: a namespace and an address there; then
    nothing can be said to it from outside."""

    def __init__(self, lab, *arguments, name="etcd", ports=None, cluster=None, tls=None, certificate="server", within=None):
        if not shutil.which("etcd"):
            raise Skipped("etcd is not installed (etcd-server)")
        self.lab = lab
        self.name = name
        self.arguments = arguments
        self.tls = tls
        self.certificate = certificate
        self.port, self.peer = ports or free_ports(2)
        self.cluster = cluster or f"{name}=http://127.0.0.1:{self.peer}"
        place, address = within or (lab, "127.0.0.1")
        self.run = place.run
        self.endpoint = f"{'https' if tls else 'http'}://{address}:{self.port}"
        self.data = os.path.join(lab.directory, f"{name}.data")
        self.program = None

    def start(self, ready=True):
        peer = f"http://127.0.0.1:{self.peer}"
        command = ["etcd", "--name", self.name, "--data-dir", self.data, "--listen-client-urls", self.endpoint,
                   "--advertise-client-urls", self.endpoint, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                   "--initial-cluster", self.cluster, *(PATIENT if "," in self.cluster else ()), *self.arguments]
        if self.tls:
            command += ["--cert-file", self.tls.path(self.certificate), "--key-file", self.tls.path(self.certificate, "key"),
                        "--trusted-ca-file", self.tls.path("ca"), "--client-cert-auth"]
        self.program = self.run(self.name, command)
        if ready:
            self.wait_ready()
        return self

    def wait_ready(self):
        wait_until(lambda: f"etcd to be ready; it said:\n{self.program.complained()[-2000:]}", self.ready, 60)

    def ready(self):
        assert self.program.runs(), self.program.complained()[-2000:]
        return self.try_post("/v3/kv/range", {"key": b64("/"), "serializable": False}) is not None

    def kill(self):
        self.program.kill()

    def freeze(self):
        """All its threads stand still: the kernel stops one after the other, and those that run yet may answer."""
        self.program.signal(signal.SIGSTOP)
        threads = pathlib.Path(f"/proc/{self.program.pid}/task")
        wait_until("etcd to stand still", lambda: all(
            thread.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T" for thread in threads.glob("*/stat")))

    def thaw(self):
        self.program.signal(signal.SIGCONT)

    def wipe(self):
        """As new, after kill()."""
        shutil.rmtree(self.data)

    def post(self, path, body, token=None):
        """What this test itself says to it, by code that is not ours."""
        request = urllib.request.Request(self.endpoint + path, json.dumps(body).encode(),
                                         {"Authorization": token} if token else {})
        context = None
        if self.tls:
            context = ssl.create_default_context(cafile=self.tls.path("ca"))
            context.check_hostname = False
            context.load_cert_chain(self.tls.path("client"), self.tls.path("client", "key"))
        with urllib.request.urlopen(request, timeout=Programs.patience(20), context=context) as answer:
            return json.load(answer)

    def try_post(self, path, body):
        """None: it does not answer, or not so."""
        try:
            return self.post(path, body)
        except urllib.error.HTTPError as error:
            # With users it asks who this is, which is an answer.
            return {} if b"user name is empty" in error.read() else None
        except (OSError, ValueError):
            return None

    def put(self, key, value):
        return int(self.post("/v3/kv/put", {"key": b64(key), "value": b64(value)})["header"]["revision"])

    def erase(self, key):
        return int(self.post("/v3/kv/deleterange", {"key": b64(key)})["header"]["revision"])

    def keys(self, prefix="/"):
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        pairs = self.post("/v3/kv/range", {"key": b64(prefix), "range_end": b64(end)}).get("kvs", [])
        return {base64.b64decode(pair["key"]).decode(): pair for pair in pairs}


def cluster_of(lab, count):
    """Servers of one etcd, ready."""
    ports = free_ports(2 * count)
    pairs = [(ports[2 * i], ports[2 * i + 1]) for i in range(count)]
    cluster = ",".join(f"etcd{i}=http://127.0.0.1:{peer}" for i, (_, peer) in enumerate(pairs))
    servers = [Etcd(lab, name=f"etcd{i}", ports=pair, cluster=cluster) for i, pair in enumerate(pairs)]
    for server in servers:
        server.start(ready=False)
    for server in servers:
        server.wait_ready()
    return servers


def with_users(lab, *arguments):
    """An etcd that asks who one is: root, and 'tally' for what begins with /tally/."""
    etcd = Etcd(lab, *arguments).start()
    for user, role in (("root", "root"), ("tally", "box")):
        etcd.post("/v3/auth/user/add", {"name": user, "password": f"{user}'s"})
        etcd.post("/v3/auth/role/add", {"name": role})
        etcd.post("/v3/auth/user/grant", {"user": user, "role": role})
    etcd.post("/v3/auth/role/grant", {"name": "box", "perm": {"permType": "READWRITE", "key": b64("/tally/"), "range_end": b64("/tally0")}})
    etcd.post("/v3/auth/enable", {})
    password = lab.directory + "/password"
    with open(password, "w", encoding="ascii") as file:
        file.write("tally's\n")
    return etcd, password
