"""Four workers behind one port, as gunicorn forks them, count their visitors in one store.

    python workers.py [PORT]
    curl localhost:8000/ada

Each worker opens the store by its path, after the fork. One is the owner and makes the changes of all. Kill it, and
another takes over: no visit that was answered is lost.
"""

import os
import signal
import socketserver
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import firndex

WORKERS = 4
PATH = os.environ.get("VISITS", "visits.firn")


def application_of(visits):
    """A WSGI application, as it would be in a worker of any server."""

    def application(environ, start_response):
        name = environ["PATH_INFO"].strip("/") or "nobody"
        try:
            count = visits.modify(name, lambda count: str(int(count or b"0") + 1))
        except firndex.Interrupted:
            # The owner ended amid this change: it was made, or it was not.
            start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
            return [b"ask again\n"]
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [f"{name} {count.decode()} {visits.role} {os.getpid()}\n".encode()]

    return application


class Quiet(WSGIRequestHandler):
    def log_message(self, *told):
        pass


def work(server):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with firndex.Store(PATH) as visits:
        server.set_app(application_of(visits))
        server.serve_forever()


def start(server):
    child = os.fork()
    if child == 0:
        try:
            work(server)
        except SystemExit:
            pass
        finally:
            os._exit(0)
    return child


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    socketserver.TCPServer.request_queue_size = 128
    with WSGIServer(("127.0.0.1", port), Quiet) as server:
        workers = {start(server) for _ in range(WORKERS)}

        def stop(*_):
            for worker in workers:
                os.kill(worker, signal.SIGTERM)
            sys.exit()

        signal.signal(signal.SIGTERM, stop)
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        try:
            while True:
                # A worker that has ended is replaced.
                ended, _ = os.wait()
                workers.remove(ended)
                workers.add(start(server))
        except KeyboardInterrupt:
            stop()


if __name__ == "__main__":
    main()
