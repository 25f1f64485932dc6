import json
from collections import Counter
from http.server import BaseHTTPRequestHandler, HTTPServer

visits = Counter()


def keep():
    with open("/tmp/visits.json", "w") as file:
        json.dump(visits, file, sort_keys=True)


class Visits(BaseHTTPRequestHandler):
    def do_GET(self):
        visits[self.path] += 1
        keep()
        self.send_response(204)
        self.end_headers()


keep()
HTTPServer(("", 8000), Visits).serve_forever()
