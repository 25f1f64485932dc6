import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { networkInterfaces } from 'node:os'

/** Tries each address directly and through the configured proxy. Prints those that accept a connection. */
const REACH = `use IO::Socket::INET; use IO::Socket::UNIX; use Socket;
my ($abstract, @places) = @ARGV;
print "abstract\\n" if IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => "\\0$abstract");
my ($proxy) = ($ENV{http_proxy} // "") =~ m{^http://(.*)};
print "no proxy\\n" unless $proxy;
for my $place (@places) {
  print "$place\\n" if IO::Socket::INET->new(PeerAddr => $place, Timeout => 3);
  next unless $proxy;
  my $way = IO::Socket::INET->new(PeerAddr => $proxy, Timeout => 3) or print("no proxy\\n"), next;
  print $way "CONNECT $place HTTP/1.1\\r\\n\\r\\n";
  print "$place by proxy\\n" if (scalar <$way> // "") =~ / 200 /;
}
`

/** Listens on every address of this machine and on an abstract socket, and counts connections. */
export async function openTrap() {
  const abstract = `assay-${randomUUID()}`
  const seen: string[] = []
  const everywhere = createServer((socket) => void seen.push(`port ${socket.destroy().localPort}`)).listen(0, '0.0.0.0')
  const unix = createServer((socket) => void seen.push(`unix ${socket.destroy().destroyed}`)).listen(`\0${abstract}`)
  await Promise.all([once(everywhere, 'listening'), once(unix, 'listening')])
  const address = everywhere.address()
  const port = typeof address === 'string' ? 0 : (address?.port ?? 0)
  const places = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .flatMap(({ family, address: own }) => (family === 'IPv4' ? `${own}:${port}` : []))
  return {
    port,
    seen,
    /** A build context that records which addresses of this machine and of cloud metadata services it reached. */
    files: (image: string) => ({
      Dockerfile: `FROM ${image}
COPY reach.pl /
RUN perl /reach.pl ${[abstract, ...places, '169.254.169.254:80', '10.0.0.1:443'].join(' ')} > /reached
`,
      'reach.pl': REACH,
    }),
    async [Symbol.asyncDispose]() {
      for (const server of [everywhere, unix]) server.close()
      await Promise.all([once(everywhere, 'close'), once(unix, 'close')])
    },
  }
}
