#!/usr/bin/env python3
"""Plays requests.txt and responses.txt against the installed haproxy and writes down what it did.

usage: record.py            rewrites the last column of both files
Each row is `name | input | outcome` (responses: `name | method | input | outcome`); `\\r \\n \\t \\0 \\xHH \\\\`
are escapes and `<<N*text>>` is text N times. The outcome of a request is what reached the server, or the
status answered; of a response what reached the client, or 502. Loopback only.
"""
import os, re, socket, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
FRONT = {"strict": 0, "relaxed": 0}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def unescape(text):
    out = text.encode("latin1")
    one = lambda m: {b"r": b"\r", b"n": b"\n", b"t": b"\t", b"0": b"\0", b"\\": b"\\", b"p": b"|"}.get(m[1][:1]) or bytes([int(m[1][1:], 16)])
    out = re.sub(rb"\\(x[0-9a-f]{2}|[rnt0p\\])", one, out)
    return re.sub(rb"<<(\d+)\*(.*?)>>", lambda m: m[2] * int(m[1]), out, flags=re.S)


def escape(data):
    out = ""
    for b in data:
        out += {13: "\\r", 10: "\\n", 9: "\\t", 0: "\\0", 92: "\\\\", 124: "\\p"}.get(b) or (chr(b) if 32 <= b < 127 else "\\x%02x" % b)
    out = re.sub(r"(X: [1a]\\r\\n)\1{19,}", lambda m: "<<%d*%s>>" % (len(m[0]) // len(m[1]), m[1]), out, flags=re.I)
    return re.sub(r"(.)\1{50,}", lambda m: "<<%d*%s>>" % (len(m[0]), m[1]), out)


class Origin:
    """Reads what comes until it pauses, answers with `reply`, closes."""

    def __init__(self, port):
        self.reply, self.got = b"", []
        self.sock = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            conn, _ = self.sock.accept()
            threading.Thread(target=self.one, args=(conn,), daemon=True).start()

    def one(self, conn):
        conn.settimeout(0.06)
        data, start = b"", time.time()
        while time.time() - start < 1:
            try:
                piece = conn.recv(65536)
                if not piece:
                    break
                data += piece
            except socket.timeout:
                if b"\r\n\r\n" in data:
                    break
        self.got.append(data)
        try:
            conn.sendall(self.reply)
            conn.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        time.sleep(0.05)
        conn.close()


def send(port, data, wait=0.9):
    with socket.create_connection(("127.0.0.1", port)) as conn:
        conn.settimeout(wait)
        conn.sendall(data)
        reply = b""
        try:
            while piece := conn.recv(65536):
                reply += piece
                conn.settimeout(0.2)
        except OSError:
            pass
        return reply


CONFIG = """
defaults
  mode http
  timeout client 2s
  timeout server 2s
  timeout connect 1s
  timeout http-request 600ms
frontend strict
  bind 127.0.0.1:{strict}
  default_backend strict
frontend relaxed
  bind 127.0.0.1:{relaxed}
  option accept-invalid-http-request
  default_backend relaxed
backend strict
  server s 127.0.0.1:{origin}
backend relaxed
  option accept-invalid-http-response
  server s 127.0.0.1:{origin}
"""


def rows(name, play):
    path = os.path.join(HERE, name)
    lines = open(path, encoding="latin1").read().splitlines()
    for i, line in enumerate(lines):
        if line and not line.startswith("#"):
            cells = line.split(" | ")
            lines[i] = " | ".join(cells[:-1] + [play(*cells[:-1])])
    open(path, "w", encoding="latin1").write("\n".join(lines) + "\n")


def main():
    ports = {k: free_port() for k in ("strict", "relaxed", "origin")}
    origin = Origin(ports["origin"])
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as cfg:
        cfg.write(CONFIG.format(**ports))
        cfg.flush()
        proxy = subprocess.Popen(["haproxy", "-db", "-q", "-f", cfg.name])
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", ports["relaxed"])).close()
                break
            except OSError:
                time.sleep(0.05)

        def request(name, data):
            origin.reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
            origin.got.clear()
            mode = "relaxed" if name.startswith("relaxed") else "strict"
            reply = send(ports[mode], unescape(data))
            if origin.got and reply[9:12] == b"200":
                return escape(origin.got[0])
            return reply[9:12].decode("latin1") if reply.startswith(b"HTTP/") else "other"

        def response(name, method, data):
            origin.reply = unescape(data)
            mode = "relaxed" if name.startswith("relaxed") else "strict"
            target = "a:443" if method == "CONNECT" else "/"
            reply = send(ports[mode], f"{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            return "502" if reply.startswith(b"HTTP/1.1 502") else escape(reply)

        try:
            rows("requests.txt", request)
            rows("responses.txt", response)
        finally:
            proxy.terminate()


if __name__ == "__main__":
    sys.exit(main())
