import os
from http.server import BaseHTTPRequestHandler, HTTPServer


class Oracle(BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{os.environ['LEFT']} + {os.environ['RIGHT']}\n".encode()
        self.send_response(200 if self.path == "/riddle" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


HTTPServer(("", int(os.environ["PORT"])), Oracle).serve_forever()
