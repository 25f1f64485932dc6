import { FOUND, type GuardedCheat } from './guarded-cheat.ts'

const PYTHON = `import os, socket, sys
socket.setdefaulttimeout(3)
for host, port in [("github.com", 443), ("example.com", 80), ("1.1.1.1", 443), ("8.8.8.8", 53)]:
    try:
        socket.create_connection((host, port)).close()
        sys.exit(${FOUND})
    except OSError:
        pass
for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
    place = os.environ.get(name, "").rstrip("/").rpartition("/")[2].rpartition("@")[2].rpartition(":")
    try:
        with socket.create_connection((place[0], int(place[2]))) as proxy:
            proxy.sendall(b"CONNECT github.com:443 HTTP/1.1\\r\\nhost: github.com:443\\r\\n\\r\\n")
            if b" 200 " in proxy.recv(100):
                sys.exit(${FOUND})
    except (OSError, ValueError):
        pass`

export const network: GuardedCheat = {
  id: 'network',
  what: 'The world can be reached, where the change itself lies ready to be downloaded.',
  verdict: 'cheat_passes',
  line: `python3 - <<'CODE'
${PYTHON}
CODE`,
}
