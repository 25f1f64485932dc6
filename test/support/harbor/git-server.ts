// A git server on 127.0.0.1: git http-backend behind a web server that can also serve other pages.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'

export type GitServer = AsyncDisposable & {
  url: string
  /** Additional pages by path. */
  pages: Map<string, string | ((response: ServerResponse) => void)>
  requests: string[]
  /** Authorization headers of the requests by path, without the query. */
  authorizations: Map<string, string | undefined>
  /** Number of bytes that git has sent. */
  bytes: () => number
}

const ENV = {
  PATH: '/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  HOME: '/',
}
const WHO = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.org', '-c', 'init.defaultBranch=main']

/** Commits these files on top of the last commit and returns the commit id. */
export function commitFiles(
  repository: string,
  files: Iterable<readonly [string, string]>,
  prepare?: () => void,
): string {
  const git = (...args: string[]) => execFileSync('git', [...WHO, ...args], { cwd: repository, env: ENV }).toString()
  mkdirSync(repository, { recursive: true })
  git('init', '--quiet')
  git('config', 'uploadpack.allowFilter', 'true')
  git('config', 'uploadpack.allowAnySHA1InWant', 'true')
  for (const [path, content] of files) {
    mkdirSync(dirname(join(repository, path)), { recursive: true })
    writeFileSync(join(repository, path), content)
  }
  prepare?.()
  git('add', '--all')
  git('commit', '--quiet', '--message', 'tasks')
  return git('rev-parse', 'HEAD').trim()
}

/** Commits a tree of a few kilobytes that expands to ten billion files. */
export function commitBomb(repository: string): string {
  commitFiles(repository, [['file', 'x']])
  const git = (input: string, ...args: string[]) =>
    execFileSync('git', [...WHO, ...args], { cwd: repository, env: ENV, input })
      .toString()
      .trim()
  let inner = `100644 blob ${git('x', 'hash-object', '-w', '--stdin')}`
  for (let depth = 0; depth < 10; depth++) {
    const lines = Array.from({ length: 10 }, (_, place) => `${inner}\tname${place}\n`)
    inner = `040000 tree ${git(lines.join(''), 'mktree')}`
  }
  return git('', 'commit-tree', '-m', 'bomb', inner.split(' ')[2] ?? '')
}

export async function startGitServer(root: string): Promise<GitServer> {
  const pages: GitServer['pages'] = new Map()
  const requests: string[] = []
  const authorizations: GitServer['authorizations'] = new Map()
  let bytes = 0
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    authorizations.set(request.url?.replace(/\?.*/, '') ?? '', request.headers.authorization)
    const page = pages.get(request.url ?? '')
    if (typeof page === 'function') return page(response)
    if (page !== undefined) return response.end(page)
    void backend(root, request, response).then((sent) => {
      bytes += sent
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The git server has no port.')
  return {
    url: `http://127.0.0.1:${address.port}`,
    pages,
    requests,
    authorizations,
    bytes: () => bytes,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

async function backend(root: string, request: IncomingMessage, response: ServerResponse): Promise<number> {
  const url = new URL(request.url ?? '', 'http://git')
  const child = spawn('git', ['http-backend'], {
    env: {
      ...ENV,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method ?? '',
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      REMOTE_ADDR: '127.0.0.1',
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  request.pipe(child.stdin)
  const output = await buffer(child.stdout)
  const end = output.indexOf('\r\n\r\n')
  const headers = output
    .subarray(0, end)
    .toString()
    .split('\r\n')
    .map((line) => line.split(/: (.*)/s).slice(0, 2))
  const status = headers.find(([name]) => name === 'Status')?.[1] ?? '200'
  response.writeHead(Number.parseInt(status, 10), Object.fromEntries(headers))
  response.end(output.subarray(end + 4))
  return output.length
}
